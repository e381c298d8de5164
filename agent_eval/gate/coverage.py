"""The coverage that a decision counts: what was lost, less what a waiver names, and how that is said."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from agent_eval.comparison.facts import cut
from agent_eval.contracts import Coverage, CoverageLoss
from agent_eval.contracts.coverage import Cause
from agent_eval.text.numbers import count, percent

NAMED = 3
"""Most cases that a sentence names; it always gives the number of all of them."""
NAME_LIMIT = 60
CAUSES_NAMED = 4

IsNamed = Callable[[CoverageLoss, str], bool]
"""Tells whether a waiver names a case, by its id, for a loss."""


def counted_coverage(
    measured: Coverage,
    is_named: IsNamed,
    *,
    quarantined: Iterable[str],
    waived: Mapping[str, Sequence[str]],
) -> Coverage:
    """Compute the coverage that counts for a decision.

    Args:
        measured: That of the comparison.
        is_named: Tells for a loss and a case whether a waiver names it; then it does not count as lost.
        quarantined: Further cases that the decision leaves out.
        waived: Judges by case whose worse verdicts only a waiver that names no case excuses.
    """
    losses = [rest for loss in measured.losses if (rest := _without_named(loss, is_named)).cases]
    lost: dict[str, float] = defaultdict(float)
    for loss in losses:
        for case_id, share in loss.cases.items():
            lost[case_id] += share
    apart = {case_id: 1 - lost[case_id] for case_id in sorted(quarantined) if lost[case_id] < 1}
    if apart:
        losses.append(CoverageLoss(cause="quarantined", cases=apart))
    by_judge: dict[str, dict[str, float]] = defaultdict(dict)
    for case_id, judges in waived.items():
        if case_id not in apart and lost[case_id] < 1:
            for judge_id in judges:
                by_judge[judge_id][case_id] = (1 - lost[case_id]) / len(judges)
    losses += [
        CoverageLoss(cause="waived", judge_id=judge_id, cases=cases)
        for judge_id, cases in sorted(by_judge.items())
    ]
    return Coverage(cases=measured.cases, losses=losses)


def _without_named(loss: CoverageLoss, is_named: IsNamed) -> CoverageLoss:
    cases = {case_id: share for case_id, share in loss.cases.items() if not is_named(loss, case_id)}
    return loss.model_copy(update={"cases": cases})


def coverage_sentence(coverage: Coverage | None) -> str:
    """Say which share of the baseline is compared, and by what the rest was lost; without a full stop."""
    if coverage is None:
        return "The comparison does not say which share of the baseline it covers"
    if not coverage.cases:
        return "Nothing is compared: the baseline judged no case"
    share = "Nothing" if coverage.is_nothing else percent(coverage.share)
    if not coverage.losses:
        return f"{share} of what the baseline judged is compared"
    ordered = sorted(coverage.losses, key=lambda loss: -loss.size)
    clauses = [_clause(loss) for loss in ordered[:CAUSES_NAMED]]
    if len(ordered) > CAUSES_NAMED:
        clauses.append(f"{len(ordered) - CAUSES_NAMED} more")
    only = "" if coverage.is_nothing else "Only "
    return f"{only}{share} of what the baseline judged is compared: {'; '.join(clauses)}"


_WORDS: dict[Cause, tuple[str, str]] = {
    "removed": ("{cases} was removed or renamed", "{cases} were removed or renamed"),
    "changed": ("{cases} asks something else now", "{cases} ask something else now"),
    "helped": ("the agent was helped in {cases}, and not in the baseline",) * 2,
    "baseline-error": ("the baseline could not judge {cases}",) * 2,
    "quarantined": ("{cases} is in quarantine", "{cases} are in quarantine"),
    "judge-gone": ("{judge} judges no more in {cases}",) * 2,
    "judge-changed": ("{judge} judges otherwise in {cases}",) * 2,
    "fewer-trials": ("{cases} has fewer trials", "{cases} have fewer trials"),
    "new-expectation": (
        "{cases} passes only by its new expectation",
        "{cases} pass only by new expectations",
    ),
    "lost": ("{cases} has no scored trial", "{cases} have no scored trial"),
    "lost-failing": (
        "{cases} has no scored trial, and failed before",
        "{cases} have no scored trial, and failed before",
    ),
    "waived": ("a waiver that names no case excuses {judge} in {cases}",) * 2,
}
"""What a loss is called, for one case and for several."""


def _clause(loss: CoverageLoss) -> str:
    words = _WORDS[loss.cause][len(loss.cases) != 1]
    judge = "every judge" if loss.judge_id is None else cut(loss.judge_id, NAME_LIMIT)
    return words.format(cases=_cases(list(loss.cases)), judge=judge)


def _cases(case_ids: Sequence[str]) -> str:
    named = ", ".join(cut(case_id, NAME_LIMIT) for case_id in case_ids[:NAMED])
    return f"{count(len(case_ids), 'case')} ({named}{', …' if len(case_ids) > NAMED else ''})"
