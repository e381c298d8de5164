"""Several trials of a case: what follows from them, held against what a pack says."""

from __future__ import annotations

from agent_eval.contracts import CaseResultRow, case_policy
from agent_eval.contracts.trials import TrialFacts, deciding_trial, is_unsafe
from agent_eval.errors import InvalidInput

_DECIDED = ("outcome", "passed", "hard_failed", "score", "verdicts")


def contradiction(row: CaseResultRow) -> str | None:
    """How the result of a case with trials, each checked by itself, contradicts them; None if it does not."""
    stated = row.get("case_policy")
    if not isinstance(stated, str):
        return "has trials but no case_policy"
    try:
        policy = case_policy(stated)
    except InvalidInput as error:
        return error.message
    if len(row["trials"]) < 2:
        return "has a single trial beside itself"
    facts = [
        TrialFacts(
            trial["outcome"], is_unsafe((one["judge_id"], one["outcome"]) for one in trial["verdicts"])
        )
        for trial in row["trials"]
    ]
    number = deciding_trial(policy, facts)
    if row["trial"] != number:
        return f"trial {row['trial']} does not decide it, by {policy.text} trial {number} does"
    decides = row["trials"][number]
    if any(row[name] != decides[name] for name in _DECIDED):  # type: ignore[literal-required]
        return f"does not say what trial {number} says, which decides it"
    return None
