"""`agent-eval demo --conversations`: a suite of conversations before and after a change, on one screen."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from agent_eval.ci.demonstration import LOG_NAME, Demonstration, places, regressed_line
from agent_eval.ci.job import run_job
from agent_eval.config.spec import AgentSpec, Identity, Judging, LlmSpec, Output, RunSpec
from agent_eval.demo.aui_server import DemoAgents, DemoServer
from agent_eval.errors import ExitCode
from agent_eval.operations import clock
from agent_eval.operations.compare import read_report_material
from agent_eval.operations.conversation_results import conversation_results
from agent_eval.operations.run_agent import run_agent
from agent_eval.reports.conversations import percent_text
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import safe_name
from agent_eval.storage.json import dumps
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.bundled import bundled_suite
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

SUITE, TITLE = "demo:hr", "HR Assistant"
DEFECTS = ("never-escalates", "misreads-parameters")
"""What the change makes worse."""

BASELINE_RUN, CANDIDATE_RUN = "before", "after"
_AT_ONCE = "8"
_SCRIPT = {
    "kind": "model_script",
    "schema_version": "1.2.0",
    "replies": [
        {"purpose": "simulate", "object": {"message": "", "done": True, "reason": "goal"}},
        {"purpose": "judge", "object": {"reasoning": "It is met.", "evidence": [], "verdict": "passed"}},
    ],
}
"""In place of a model: the user says nothing more after the fixed messages, and each criterion is met."""


def run_conversations(out: Path, environ: Mapping[str, str], stream: TextIO) -> ExitCode:
    """Run a suite of conversations before and after a change, decide, and print how it ended.

    Args:
        out: Where suite, evidence and report are written.
        environ: The environment variables; only those that pin the clock are used.
        stream: Where the result is printed.

    Returns:
        OK when the job ran, whatever its gate decided; else the exit code of the job.

    Raises:
        AgentEvalError: The baseline could not be made.
    """
    pinned = {name: environ[name] for name in clock.CLOCK_VARIABLES if name in environ}
    pinned[KEY_VARIABLE] = "any-key-will-do"
    suite, script = out / "hr.json", out / "script.json"
    write_file(suite, bundled_suite(SUITE).read_bytes())
    write_file(script, dumps(_SCRIPT, indent=True))
    baseline, evidence = out / "baseline", out / "evidence"
    with DemoServer(DemoAgents()) as server:
        run_agent(_before(suite, script, baseline, server.url), environ=pinned)
    inputs = {
        "suite": str(suite),
        "provider": "scripted",
        "llm-script": str(script),
        "parallel": _AT_ONCE,
        "baseline": str(baseline),
        "max-regressed-cases": "0",
        "out": str(evidence),
        "report-title": TITLE,
    }
    log = io.StringIO()
    with DemoServer(DemoAgents(DEFECTS)) as server:
        code = run_job(
            {**inputs, "base-url": server.url},
            {**pinned, clock.RUN_ID_VARIABLE: CANDIDATE_RUN},
            log,
            config_file=None,
            make_platform=Demonstration,
        )
    if code not in (ExitCode.OK, ExitCode.NO):
        print(log.getvalue(), file=stream, end="", flush=True)
        return code
    write_file(out / LOG_NAME, log.getvalue().encode())
    print("\n".join(_screen(out, code)), file=stream, flush=True)
    return ExitCode.OK


def _before(suite: Path, script: Path, pack: Path, url: str) -> RunSpec:
    return RunSpec(
        suite=suite,
        output=Output(pack=pack, fresh=True),
        agent=AgentSpec(base_url=url, parallel=int(_AT_ONCE)),
        judging=Judging(llm=LlmSpec(provider="scripted", script=script)),
        identity=Identity(run_id=BASELINE_RUN),
    )


def _screen(out: Path, code: ExitCode) -> Iterator[str]:
    """Write what fits on a screen of 24 lines."""
    pack = out / "evidence" / safe_name(TITLE)
    comparison = read_report_material(pack).comparison
    worse = [row for row in comparison.case_regressions if row.regressed]
    before, after = conversation_results(out / "baseline"), conversation_results(pack)
    decided = "blocks" if code is ExitCode.NO else "lets pass"
    number = count(len(after.tests), "conversation")
    yield f"An HR assistant was changed. {number}, before and after, with a scripted user,"
    yield "judged by strict evaluations, and by a script in place of a model;"
    yield f"the gate {decided} the change (exit code {int(code)} in CI):"
    yield ""
    yield f"  Score {percent_text(before.score)} before, {percent_text(after.score)} after"
    yield ""
    for row in worse[:6]:
        yield regressed_line(row)
    if len(worse) > 6:
        yield f"  and {count(len(worse) - 6, 'more case')}"
    yield ""
    yield "Where to look:"
    yield from places(out, out / "evidence")
    yield ""
    if worse:
        yield "What was said and done, with the verdicts:"
        yield f"  agent-eval show {clean(str(pack))} '{clean(worse[0].case_id)}'"
    yield "Your own suite: agent-eval plan suite.json, then agent-eval run suite.json"
