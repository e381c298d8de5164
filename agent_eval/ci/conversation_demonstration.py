"""`agent-eval demo --conversations`: a suite of conversations before and after a change, on one screen."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TextIO

from agent_eval.ci.demonstration import LOG_NAME, Demonstration, places, regressed_line
from agent_eval.ci.job import run_job
from agent_eval.config.spec import AgentSpec, Identity, Judging, LlmSpec, Output, RunSpec
from agent_eval.demo.aui_server import DemoAgents, DemoServer
from agent_eval.errors import ExitCode
from agent_eval.evidence.archive import write_bundle
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
BUNDLED = "baselines/hr-assistant.zip"
"""The evidence of the run before the change, in the package `agent_eval.demo`."""

_AT_ONCE, _ANY_KEY = "8", "any-key-will-do"
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
    """Run a suite of conversations after a change, compare it with the bundled baseline, and print the end.

    Args:
        out: Where suite, evidence and report are written.
        environ: The environment variables; only those that pin the clock are used.
        stream: Where the result is printed.

    Returns:
        OK when the job ran, whatever its gate decided; else the exit code of the job.

    Raises:
        AgentEvalError: A file could not be written.
    """
    pinned = {name: environ[name] for name in clock.CLOCK_VARIABLES if name in environ}
    pinned[KEY_VARIABLE] = _ANY_KEY
    suite, script = _write_inputs(out)
    baseline, evidence = out / "baseline.zip", out / "evidence"
    write_file(baseline, (files("agent_eval.demo") / BUNDLED).read_bytes())
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
    if code not in (ExitCode.OK, ExitCode.NO, ExitCode.INCONCLUSIVE):
        print(log.getvalue(), file=stream, end="", flush=True)
        return code
    write_file(out / LOG_NAME, log.getvalue().encode())
    print("\n".join(_screen(out, code)), file=stream, flush=True)
    return ExitCode.OK


def write_baseline(archive: Path, environ: Mapping[str, str]) -> None:
    """Run the suite before the change, and write the evidence as an archive: the baseline that is bundled.

    Args:
        archive: The zip to write.
        environ: The environment variables, which may pin the clock.

    Raises:
        AgentEvalError: The suite could not be run.
    """
    with tempfile.TemporaryDirectory() as place, DemoServer(DemoAgents()) as server:
        pack = Path(place) / "pack"
        suite, script = _write_inputs(Path(place))
        spec = RunSpec(
            suite=suite,
            output=Output(pack=pack, layout="compact"),
            agent=AgentSpec(base_url=server.url, parallel=int(_AT_ONCE)),
            judging=Judging(llm=LlmSpec(provider="scripted", script=script)),
            identity=Identity(run_id=BASELINE_RUN),
        )
        run_agent(spec, environ={**environ, KEY_VARIABLE: _ANY_KEY})
        write_bundle({safe_name(TITLE): pack}, archive)


def _write_inputs(place: Path) -> tuple[Path, Path]:
    """Write the suite, and the script in place of a model."""
    suite, script = place / "hr.json", place / "script.json"
    write_file(suite, bundled_suite(SUITE).read_bytes())
    write_file(script, dumps(_SCRIPT, indent=True))
    return suite, script


def _screen(out: Path, code: ExitCode) -> Iterator[str]:
    """Write what fits on a screen of 24 lines."""
    pack = out / "evidence" / safe_name(TITLE)
    comparison = read_report_material(pack).comparison
    worse = [row for row in comparison.case_regressions if row.regressed]
    before, after = conversation_results(out / "baseline.zip"), conversation_results(pack)
    decided = "lets pass" if code is ExitCode.OK else "blocks"
    number = count(len(after.tests), "conversation")
    yield f"An HR assistant was changed. {number} with a scripted user, judged by"
    yield "strict evaluations and a script in place of a model, against a bundled baseline;"
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
    yield from places(out, out / "evidence", pack.name)
    yield ""
    if worse:
        yield "What was said and done, with the verdicts:"
        yield f"  agent-eval show {clean(str(pack))} '{clean(worse[0].case_id)}'"
    yield "Your own suite: agent-eval plan suite.json, then agent-eval run suite.json"
