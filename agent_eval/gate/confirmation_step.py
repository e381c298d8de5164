"""The step of a decision that fresh trials take, and its words."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import GateStep
from agent_eval.contracts.confirmation import Confirmation, SuspectResult
from agent_eval.gate.steps import NAMED, cut_name
from agent_eval.text.numbers import count, verb


def confirmation_step(results: Sequence[SuspectResult], confirmation: Confirmation) -> GateStep:
    """Fail on a confirmed case; leave the decision open where fresh trials do not tell."""
    if not results:
        return GateStep(
            name="confirmation", status="not-applied", message="No case passed before and fails now."
        )
    by_verdict: dict[str, list[SuspectResult]] = {}
    for result in results:
        by_verdict.setdefault(result.verdict, []).append(result)
    # Of a failure only what fails is named; the others are in the list of all.
    in_short = "confirmed" in by_verdict
    clauses = [
        _SHORT[name].format(len(by_verdict[name]))
        if in_short and name != "confirmed"
        else _WORDS[name](by_verdict[name])
        for name in ("confirmed", "inconclusive", "not-yours", "cleared")
        if name in by_verdict
    ]
    joined = "; ".join(clauses)
    message = f"{joined[:1].upper()}{joined[1:]}."
    if "inconclusive" in by_verdict and confirmation.problem:
        message += f" {confirmation.problem}"
    if "confirmed" in by_verdict:
        return GateStep(name="confirmation", status="failed", message=message)
    status = "inconclusive" if "inconclusive" in by_verdict else "passed"
    return GateStep(name="confirmation", status=status, message=message)


def counts_in_words(result: SuspectResult) -> str:
    """Say how often a case passed on each side, as a clause; empty without a fresh trial.

    Example:
        >>> counts_in_words(
        ...     SuspectResult(
        ...         case_id="a",
        ...         verdict="confirmed",
        ...         candidate_trials=6,
        ...         base_passed=6,
        ...         base_trials=6,
        ...         reason="",
        ...     )
        ... )
        '0 of 6 now, 6 of 6 on the merge base'
    """
    if not result.candidate_trials and not result.base_trials:
        return ""
    now = f"{result.candidate_passed} of {result.candidate_trials} now"
    return f"{now}, {result.base_passed} of {result.base_trials} on the merge base"


def _case_names(results: Sequence[SuspectResult], *, counts: bool = False) -> str:
    shown_names = []
    for result in results[:NAMED]:
        counts_shown = counts_in_words(result) if counts else ""
        shown_names.append(f"{cut_name(result.case_id)}{f': {counts_shown}' if counts_shown else ''}")
    return "; ".join(shown_names) + (", …" if len(results) > NAMED else "")


def _confirmed(results: Sequence[SuspectResult]) -> str:
    return f"{count(len(results), 'regression')} confirmed ({_case_names(results, counts=True)})"


def _inconclusive(results: Sequence[SuspectResult]) -> str:
    number = len(results)
    fails = verb(number, "fails", "fail")
    return f"fresh trials do not settle {count(number, 'case')} that newly {fails} ({_case_names(results)})"


def _not_yours(results: Sequence[SuspectResult]) -> str:
    number = len(results)
    fails = verb(number, "fails", "fail")
    return f"{count(number, 'case')} {fails} on the merge base as well ({_case_names(results)})"


def _cleared(results: Sequence[SuspectResult]) -> str:
    number = len(results)
    if all(not result.candidate_trials for result in results):
        return f"{count(number, 'case')} cleared, agent unchanged ({_case_names(results)})"
    return f"{count(number, 'case')} cleared as flaky ({_case_names(results)})"


_WORDS = {
    "confirmed": _confirmed,
    "inconclusive": _inconclusive,
    "not-yours": _not_yours,
    "cleared": _cleared,
}
_SHORT = {"inconclusive": "{} not settled", "not-yours": "{} not yours", "cleared": "{} cleared"}
