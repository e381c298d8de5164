"""`agent-eval demo`: the whole job on a bundled example, and one screen about how it ended."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.ci.suites import ARCHIVE_NAME, COMMENT_NAME, REPORT_NAME, html_name
from agent_eval.config.spec import Identity, Output, RunSpec
from agent_eval.contracts import CaseRegression
from agent_eval.demo.support_agent import BASELINE_RUN, CANDIDATE_RUN, INPUTS, write_suites
from agent_eval.errors import ExitCode
from agent_eval.operations import clock
from agent_eval.operations.compare import read_report_material
from agent_eval.operations.gate import DECISION_NAME
from agent_eval.operations.packs import comparison_file
from agent_eval.operations.run import run_suite
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.story import story_of
from agent_eval.reports.terminal import WIDTH, shown_name, wrapped
from agent_eval.storage.atomic import write_file
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

LOG_NAME = "job.log"
SLUG = "support-agent"
_COLUMNS = WIDTH - 1
"""A line of the whole width would be wrapped by some terminals."""


class Demonstration(LocalDirectory):
    """The local platform of a demonstration, where a gate that says no is no failure.

    Example:
        `run_job(..., make_platform=Demonstration)` prints the decision, and raises no alarm.
    """

    refs = None

    def fail(self, text: str) -> None:
        """Print the decision."""
        self.say(f"Decision: {text}")


def run_demonstration(out: Path, environ: Mapping[str, str], stream: TextIO) -> ExitCode:
    """Make the baseline, run the job, and print the decision, what regressed and where to look.

    What the job prints goes to a file; it is printed instead where the job could not be done.

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
    pinned = {name: environ[name] for name in clock.CLOCK_VARIABLES if name in environ}
    before, after = write_suites(out)
    baseline, evidence = before.parent / "evidence", out / "evidence"
    run_suite(
        RunSpec(suite=before, output=Output(pack=baseline), identity=Identity(run_id=BASELINE_RUN)),
        environ=pinned,
    )
    log = io.StringIO()
    code = run_job(
        {**INPUTS, "suite": str(after), "baseline": str(baseline), "out": str(evidence)},
        {**pinned, clock.RUN_ID_VARIABLE: CANDIDATE_RUN},
        log,
        config_file=None,
        make_platform=Demonstration,
    )
    if code not in (ExitCode.OK, ExitCode.NO):
        print(log.getvalue(), file=stream, end="", flush=True)
        return code
    write_file(out / LOG_NAME, log.getvalue().encode())
    print("\n".join(_screen(out, evidence, code)), file=stream, flush=True)
    return ExitCode.OK


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
        yield regressed_line(row)
    improved = [row.case_id for row in material.comparison.case_regressions if row.improved]
    yield f"  {count(len(improved), 'case')} improved: {', '.join(improved)}"
    yield ""
    yield "Where to look:"
    yield from places(out, evidence)
    yield ""
    yield "What an agent did, with the verdicts at its steps:"
    yield f"  agent-eval show {clean(str(pack))} {suite.worse[0].case_id}"
    yield "Your own agent: agent-eval init"


def regressed_line(row: CaseRegression) -> str:
    """Write a regressed case on one line, with the first judge's reason."""
    judge = row.judges[0]
    line = f"  {shown_name(row.case_id, 40)}: {judge.judge_id}: {clean(judge.reason)}"
    return line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 1]}…"


def places(out: Path, evidence: Path, slug: str = SLUG) -> Iterator[str]:
    """Write where comment, report, evidence and log are, a line each.

    Args:
        out: The demonstration's directory.
        evidence: Where the job wrote.
        slug: The suite's name in file names.
    """
    for path, what in (
        (evidence / html_name(slug), "the report, for a browser"),
        (evidence / COMMENT_NAME, "the comment to be posted"),
        (evidence / REPORT_NAME, "the same, with every figure"),
        (evidence / ARCHIVE_NAME, "the sealed evidence"),
        (out / LOG_NAME, "what the job printed"),
    ):
        yield f"  {clean(str(path)):<49} {what}"
