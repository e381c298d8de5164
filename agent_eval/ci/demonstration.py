"""`agent-eval demo`: the whole job on a bundled example, and one screen about how it ended.

One example is a support agent with recorded conversations, the other a suite of conversations with agents on
this machine and a script in place of a model.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TextIO

from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.ci.workspace import COMMENT_NAME, REPORT_NAME, html_name
from agent_eval.config.spec import Identity, Output, RunSpec
from agent_eval.contracts import CaseRegression
from agent_eval.demo import support_agent
from agent_eval.demo.aui_server import DemoAgents, DemoServer
from agent_eval.errors import ExitCode
from agent_eval.operations import clock
from agent_eval.operations.gate import DECISION_NAME
from agent_eval.operations.packs import ARCHIVE_NAME, comparison_file
from agent_eval.operations.report_material import comparison_material
from agent_eval.operations.run import run_suite
from agent_eval.operations.run_conversations import conversation_results
from agent_eval.reports.conversations import percent_text
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.story import story_of
from agent_eval.reports.terminal import WIDTH, shown_name, wrapped
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import safe_name
from agent_eval.storage.json import dumps
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.paths import bundled_suite
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

LOG_NAME = "job.log"
BUNDLED_BASELINE = "baselines/hr-assistant.zip"
"""The evidence of the conversations before the change, in the package `agent_eval.demo`."""

_HR_ASSISTANT = "HR Assistant"
_DEFECTS = ("never-escalates", "misreads-parameters")
"""What the change makes worse in the conversations."""

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
    """Make the baseline, run the job, and print the decision, what regressed and where to look.

    What the job prints goes to a file; it is printed instead where the job could not be done. Of the
    environment only what pins the clock is used, so that the demonstration looks the same everywhere.

    Returns:
        OK when the job ran, whatever its gate decided; else the exit code of the job.
    """
    before, after = support_agent.write_suites(out)
    baseline = before.parent / "evidence"
    spec = RunSpec(
        suite=before, output=Output(pack=baseline), identity=Identity(run_id=support_agent.BASELINE_RUN)
    )
    run_suite(spec, environ=clock.pins(environ))
    inputs = {**support_agent.INPUTS, "suite": str(after), "baseline": str(baseline)}
    code, log = _run(inputs, out, {**clock.pins(environ), clock.RUN_ID_VARIABLE: support_agent.CANDIDATE_RUN})
    if code not in (ExitCode.OK, ExitCode.NO):
        return _print_log(log, code, stream)
    suite = _suite_of(out / "evidence" / "support-agent")
    rows = suite.comparison.case_regressions if suite.comparison is not None else []
    improved = [row.case_id for row in rows if row.improved]
    lines = [
        "A support agent moved to a smaller model. 12 recorded conversations, judged",
        f"before and after; the gate {_decided(code)}:",
        "",
        *wrapped([clean(story_of(suite).sentence)], first="  ", rest="  "),
        "",
        *_regressed_lines(suite),
        f"  {count(len(improved), 'case')} improved: {', '.join(improved)}",
        *_where_to_look(suite, out, "What an agent did, with the verdicts at its steps:"),
        "Your own agent: agent-eval init",
    ]
    return _print(lines, log, out, stream)


def run_conversations(out: Path, environ: Mapping[str, str], stream: TextIO) -> ExitCode:
    """As `run_demonstration`: a suite of conversations after a change, against the bundled baseline."""
    suite_file, script = write_conversation_inputs(out)
    baseline = out / "baseline.zip"
    write_file(baseline, (files("agent_eval.demo") / BUNDLED_BASELINE).read_bytes())
    inputs = {
        "suite": str(suite_file),
        "provider": "scripted",
        "llm-script": str(script),
        "parallel": "8",
        "baseline": str(baseline),
        "max-regressed-cases": "0",
        "title": _HR_ASSISTANT,
    }
    pinned = {**clock.pins(environ), KEY_VARIABLE: "any-key-will-do", clock.RUN_ID_VARIABLE: "after"}
    with DemoServer(DemoAgents(_DEFECTS)) as server:
        code, log = _run({**inputs, "base-url": server.url}, out, pinned)
    if code not in (ExitCode.OK, ExitCode.NO, ExitCode.INCONCLUSIVE):
        return _print_log(log, code, stream)
    suite = _suite_of(out / "evidence" / safe_name(_HR_ASSISTANT))
    before, after = conversation_results(baseline), conversation_results(out / "evidence" / suite.slug)
    number = count(len(after.tests), "conversation")
    lines = [
        f"An HR assistant was changed. {number} with a scripted user, judged by",
        "strict evaluations and a script in place of a model, against a bundled baseline;",
        f"the gate {_decided(code)}:",
        "",
        f"  Score {percent_text(before.score)} before, {percent_text(after.score)} after",
        "",
        *_regressed_lines(suite),
        *_where_to_look(suite, out, "What was said and done, with the verdicts:"),
        "Your own suite: agent-eval plan suite.json, then agent-eval run suite.json",
    ]
    return _print(lines, log, out, stream)


def write_conversation_inputs(place: Path) -> tuple[Path, Path]:
    """Write the suite of conversations, and the script in place of a model."""
    suite, script = place / "hr.json", place / "script.json"
    write_file(suite, bundled_suite("demo:hr").read_bytes())
    write_file(script, dumps(_SCRIPT, indent=True))
    return suite, script


def _run(inputs: Mapping[str, str], out: Path, environ: Mapping[str, str]) -> tuple[ExitCode, str]:
    log = io.StringIO()
    inputs = {**inputs, "out": str(out / "evidence")}
    code = run_job(inputs, environ, log, config_file=None, make_platform=Demonstration)
    return code, log.getvalue()


def _print_log(log: str, code: ExitCode, stream: TextIO) -> ExitCode:
    print(log, file=stream, end="", flush=True)
    return code


def _print(lines: Sequence[str], log: str, out: Path, stream: TextIO) -> ExitCode:
    write_file(out / LOG_NAME, log.encode())
    print("\n".join(lines), file=stream, flush=True)
    return ExitCode.OK


def _suite_of(pack: Path) -> SuiteReport:
    material = comparison_material(pack, decision=comparison_file(pack).with_name(DECISION_NAME))
    if material.decision is None or material.comparison is None:
        raise TypeError("the decision was named")
    return SuiteReport(
        slug=pack.name,
        suite_path="",
        decision=material.decision,
        candidate=material.comparison.candidate,
        comparison=material.comparison,
    )


def _decided(code: ExitCode) -> str:
    return f"{'lets pass' if code is ExitCode.OK else 'blocks'} the change (exit code {int(code)} in CI)"


def _regressed(suite: SuiteReport) -> list[CaseRegression]:
    return sorted(suite.worse, key=lambda row: row.case_id)


def _regressed_lines(suite: SuiteReport) -> Iterator[str]:
    """Write the first regressed cases on a line each, with the first judge's reason: all fits one screen."""
    width = WIDTH - 1  # a line of the whole width would be wrapped by some terminals
    rows = _regressed(suite)
    for row in rows[:6]:
        judge = row.judges[0]
        line = f"  {shown_name(row.case_id, 40)}: {judge.judge_id}: {clean(judge.reason)}"
        yield line if len(line) <= width else f"{line[: width - 1]}…"
    if len(rows) > 6:
        yield f"  and {count(len(rows) - 6, 'more case')}"


def _where_to_look(suite: SuiteReport, out: Path, shows: str) -> Iterator[str]:
    """Write where comment, report, evidence and log are, and the command that shows a regressed case."""
    evidence = out / "evidence"
    yield ""
    yield "Where to look:"
    for path, what in (
        (evidence / html_name(suite.slug), "the report, for a browser"),
        (evidence / COMMENT_NAME, "the comment to be posted"),
        (evidence / REPORT_NAME, "the same, with every figure"),
        (evidence / ARCHIVE_NAME, "the sealed evidence"),
        (out / LOG_NAME, "what the job printed"),
    ):
        yield f"  {clean(str(path)):<49} {what}"
    yield ""
    yield shows
    for row in _regressed(suite)[:1]:
        yield f"  agent-eval show {clean(str(evidence / suite.slug))} '{clean(row.case_id)}'"
