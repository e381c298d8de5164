"""Judge the job's own evidence again, where the settings ask for it, and hold the decision to the result."""

from __future__ import annotations

from pathlib import Path

from agent_eval.ci.context import JobContext
from agent_eval.contracts import RuleResult
from agent_eval.contracts.replay import ReplayReport
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.operations.replay_pack import REPORT, replay_own
from agent_eval.storage.json import dumps
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count

_NAMED = 3
_NAME_LIMIT = 60


def replay_evidence(job: JobContext, pack: Pack, where: Path) -> ReplayReport | None:
    """Judge a pack of this job again, and write the report into it; None where that is not asked for.

    Raises:
        AgentEvalError: It cannot be judged again, or the report cannot be written.
    """
    if not job.settings.replay_evidence:
        return None
    report = replay_own(pack, where, environ=job.environ)
    report = without_secrets(report, job.redactor)
    write_output(where / REPORT, dumps(report.to_json(), indent=True))
    return report


def replay_rule(report: ReplayReport | None) -> RuleResult | None:
    """Build the rule that the evidence replays; None where it does, or was not tried."""
    if report is None or report.replay_passed:
        return None
    number = len(report.case_mismatches)
    named = ", ".join(clean(case.case_id, limit=_NAME_LIMIT) for case in report.case_mismatches[:_NAMED])
    more = f" and {number - _NAMED:,} more" if number > _NAMED else ""
    return RuleResult(
        rule="evidence_replays",
        threshold=0,
        value=number,
        passed=False,
        message=f"Judging the recorded trajectories again gives another result on {count(number, 'case')}: "
        f"{named}{more}. A judge of it is not deterministic, or saw text that is redacted now.",
    )
