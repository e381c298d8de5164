"""`agent-eval demo`: the whole job on a bundled example, and one screen about how it ended."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TextIO

from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.ci.suites import ARCHIVE_NAME, COMMENT_NAME, REPORT_NAME, html_name
from agent_eval.config.spec import AgentSpec, Identity, Judging, LlmSpec, Output, RunSpec
from agent_eval.contracts import CaseRegression
from agent_eval.demo import support_agent
from agent_eval.demo.aui_server import DemoAgents, DemoServer
from agent_eval.errors import ExitCode
from agent_eval.evidence.archive import write_bundle
from agent_eval.operations import clock
from agent_eval.operations.compare import read_report_material
from agent_eval.operations.conversation_results import conversation_results
from agent_eval.operations.gate import DECISION_NAME
from agent_eval.operations.packs import comparison_file
from agent_eval.operations.run import run_suite
from agent_eval.operations.run_agent import run_agent
from agent_eval.reports.conversations import percent_text
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.story import story_of
from agent_eval.reports.terminal import WIDTH, shown_name, wrapped
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import safe_name
from agent_eval.storage.json import dumps
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.bundled import bundled_suite
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

LOG_NAME = "job.log"
SLUG = "support-agent"
_COLUMNS = WIDTH - 1
"""A line of the whole width would be wrapped by some terminals."""

SUITE, TITLE = "demo:hr", "HR Assistant"
DEFECTS = ("never-escalates", "misreads-parameters")
"""What the change of the assistant makes worse."""

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


class Demonstration(LocalDirectory):
    """The local platform of a demonstration, where a gate that says no is no failure."""

    refs = None

    def fail(self, text: str) -> None:
        """Print the decision."""
        self.say(f"Decision: {text}")


def run_demonstration(out: Path, environ: Mapping[str, str], stream: TextIO) -> ExitCode:
    """Make the baseline, run the job on recorded traces, and print decision, regressions and where to look.

    Args:
        out: Where suites, evidence and report are written.
        environ: The environment variables; only those that pin the clock are used, so that the demonstration
            looks the same everywhere.
        stream: Where the result is printed.

    Returns:
        OK when the job ran, whatever its gate decided; else the exit code of the job.

    Raises:
        AgentEvalError: The baseline could not be made.
    """
    pinned = _pinned(environ)
    before, after = support_agent.write_suites(out)
    baseline, evidence = before.parent / "evidence", out / "evidence"
    identity = Identity(run_id=support_agent.BASELINE_RUN)
    run_suite(RunSpec(suite=before, output=Output(pack=baseline), identity=identity), environ=pinned)
    inputs = {**support_agent.INPUTS, "suite": str(after), "baseline": str(baseline), "out": str(evidence)}
    environ = {**pinned, clock.RUN_ID_VARIABLE: support_agent.CANDIDATE_RUN}
    return _demonstrate(inputs, environ, out, stream, lambda code: _screen(out, evidence, code))


def run_conversations(out: Path, environ: Mapping[str, str], stream: TextIO) -> ExitCode:
    """Run a suite of conversations after a change, compare it with the bundled baseline, and print the end.

    As `run_demonstration`, which see.

    Raises:
        AgentEvalError: A file could not be written.
    """
    suite, script = _write_inputs(out)
    baseline = out / "baseline.zip"
    write_file(baseline, (files("agent_eval.demo") / BUNDLED).read_bytes())
    inputs = {
        "suite": str(suite),
        "provider": "scripted",
        "llm-script": str(script),
        "parallel": _AT_ONCE,
        "baseline": str(baseline),
        "max-regressed-cases": "0",
        "out": str(out / "evidence"),
        "report-title": TITLE,
    }
    environ = {**_pinned(environ), KEY_VARIABLE: _ANY_KEY, clock.RUN_ID_VARIABLE: CANDIDATE_RUN}
    with DemoServer(DemoAgents(DEFECTS)) as server:
        inputs["base-url"] = server.url
        return _demonstrate(inputs, environ, out, stream, lambda code: _screen_of_conversations(out, code))


def _pinned(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in clock.CLOCK_VARIABLES if name in environ}


def _demonstrate(
    inputs: Mapping[str, str],
    environ: Mapping[str, str],
    out: Path,
    stream: TextIO,
    screen: Callable[[ExitCode], Iterator[str]],
) -> ExitCode:
    """Run the job with its log in a file, and print a screen; the log instead, where it could not be done."""
    log = io.StringIO()
    code = run_job(inputs, environ, log, config_file=None, make_platform=Demonstration)
    if code not in (ExitCode.OK, ExitCode.NO, ExitCode.INCONCLUSIVE):
        print(log.getvalue(), file=stream, end="", flush=True)
        return code
    write_file(out / LOG_NAME, log.getvalue().encode())
    print("\n".join(screen(code)), file=stream, flush=True)
    return ExitCode.OK


def write_baseline(archive: Path, environ: Mapping[str, str]) -> None:
    """Run the suite before the change, and write the evidence as an archive: the baseline that is bundled.

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


def _screen(out: Path, evidence: Path, code: ExitCode) -> Iterator[str]:
    """Write what fits on a screen of 24 lines: the decision, the regressed cases, where to look."""
    pack = evidence / SLUG
    comparison = comparison_file(pack)
    material = read_report_material(pack, decision=comparison.with_name(DECISION_NAME))
    if material.decision is None:
        raise TypeError("the decision was named")
    suite = SuiteReport(
        slug=SLUG,
        suite_path="",
        decision=material.decision,
        candidate=material.comparison.candidate,
        comparison=material.comparison,
    )
    decided = "blocks" if code is ExitCode.NO else "lets pass"
    yield "A support agent moved to a smaller model. 12 recorded conversations, judged"
    yield f"before and after; the gate {decided} the change (exit code {int(code)} in CI):"
    yield ""
    yield from wrapped([clean(story_of(suite).sentence)], first="  ", rest="  ")
    yield ""
    for row in suite.worse:
        yield _regressed_line(row)
    improved = [row.case_id for row in material.comparison.case_regressions if row.improved]
    yield f"  {count(len(improved), 'case')} improved: {', '.join(improved)}"
    yield ""
    yield "Where to look:"
    yield from _places(out, evidence, SLUG)
    yield ""
    yield "What an agent did, with the verdicts at its steps:"
    yield f"  agent-eval show {clean(str(pack))} {suite.worse[0].case_id}"
    yield "Your own agent: agent-eval init"


def _screen_of_conversations(out: Path, code: ExitCode) -> Iterator[str]:
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
        yield _regressed_line(row)
    if len(worse) > 6:
        yield f"  and {count(len(worse) - 6, 'more case')}"
    yield ""
    yield "Where to look:"
    yield from _places(out, out / "evidence", pack.name)
    yield ""
    if worse:
        yield "What was said and done, with the verdicts:"
        yield f"  agent-eval show {clean(str(pack))} '{clean(worse[0].case_id)}'"
    yield "Your own suite: agent-eval plan suite.json, then agent-eval run suite.json"


def _regressed_line(row: CaseRegression) -> str:
    """Write a regressed case on one line, with the first judge's reason."""
    judge = row.judges[0]
    line = f"  {shown_name(row.case_id, 40)}: {judge.judge_id}: {clean(judge.reason)}"
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…"


def _places(out: Path, evidence: Path, slug: str) -> Iterator[str]:
    """Write where comment, report, evidence and log are, a line each."""
    for path, what in (
        (evidence / html_name(slug), "the report, for a browser"),
        (evidence / COMMENT_NAME, "the comment to be posted"),
        (evidence / REPORT_NAME, "the same, with every figure"),
        (evidence / ARCHIVE_NAME, "the sealed evidence"),
        (out / LOG_NAME, "what the job printed"),
    ):
        yield f"  {clean(str(path)):<49} {what}"
