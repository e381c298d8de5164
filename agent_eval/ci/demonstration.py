"""The demonstration: the job of `agent-eval ci` on a bundled example, against a baseline made on the spot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from agent_eval.ci.job import run_job
from agent_eval.ci.local import Local
from agent_eval.demo.support_agent import BASELINE_RUN, CANDIDATE_RUN, INPUTS, write_suites
from agent_eval.errors import ExitCode
from agent_eval.runs import clock
from agent_eval.runs.run import RunRequest, run_suite
from agent_eval.text.terminal import clean


class _Shown(Local):
    """A gate that says no is what there is to see here, not a failure."""

    def fail(self, text: str) -> None:
        """Print the decision."""
        self.say(f"Decision: {text}")


def run_demonstration(out: Path, environ: Mapping[str, str], stream: TextIO) -> ExitCode:
    """Make the baseline, run the job, and say where everything is.

    Args:
        out: Where suites, evidence and report are written.
        environ: The environment variables; nothing counts but a pinned clock, so that the demonstration
            looks the same everywhere.
        stream: Where everything is printed.

    Returns:
        OK when the job could be shown, whatever its gate decided; else what the job returned.

    Raises:
        AgentEvalError: The baseline could not be made.
    """
    pinned = {name: environ[name] for name in clock.CLOCK_VARIABLES if name in environ}
    before, after = write_suites(out)
    baseline, evidence = before.parent / "evidence", out / "evidence"
    run_suite(RunRequest(suite=before, out=baseline, run_id=BASELINE_RUN), environ=pinned)
    code = run_job(
        {**INPUTS, "suite": str(after), "baseline": str(baseline), "out": str(evidence)},
        {**pinned, clock.RUN_ID_VARIABLE: CANDIDATE_RUN},
        stream,
        config_file=None,
        make_platform=_Shown,
    )
    if code not in (ExitCode.OK, ExitCode.NO):
        return code
    decided = "blocks this pull request" if code is ExitCode.NO else "lets this pull request pass"
    closing = (
        f"\nThe gate {decided} (exit code {int(code)} in CI). That is what this demonstration shows.\n"
        f"Evidence and report: {evidence}\n"
        f"Suites: {before} and {after}"
    )
    print(clean(closing, multiline=True), file=stream, flush=True)
    return ExitCode.OK
