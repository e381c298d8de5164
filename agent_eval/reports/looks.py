"""Say in one line how many trials a run with `trials: auto` took, after which looks, and why it ended."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.contracts import GateDecision, GateEvidence
from agent_eval.gate.looks import LOOKS
from agent_eval.text.numbers import count, margin

_FAILED = {
    "coverage": "too little of the baseline is compared",
    "integrity": "cases cannot be judged any more, or were removed",
    "zero-tolerance": "a judge with zero tolerance newly fails",
    "thresholds": "a threshold does not hold",
    "regression": "more regressed than chance explains",
}
_OPEN = {
    "coverage": "too little of the baseline is compared, which more trials do not change",
    "integrity": "answers were not checked or records damaged, which more trials do not change",
}


def looks_sentence(decision: GateDecision) -> str:
    """Say how many trials were run, at which look that ended, and why; empty for a fixed number of trials.

    Example:
        `looks_sentence(decision)` is "4 trials of each case (looks after 1 and 4): a drop of 5.0 points is
        ruled out." where the second look ended the run.
    """
    evidence = decision.evidence
    if evidence is None or not evidence.looks:
        return ""
    trials = f"{count(evidence.looks[-1], 'trial')} of each case ({looks_clause(evidence.looks)})"
    return f"{trials}: {_why_ended(decision, evidence, evidence.looks)}."


def looks_clause(looks: Sequence[int]) -> str:
    """List after how many trials a run was looked at.

    Example:
        >>> looks_clause([1]), looks_clause([1, 4, 12])
        ('look after 1', 'looks after 1, 4 and 12')
    """
    *first, last = map(str, looks)
    return f"looks after {', '.join(first)} and {last}" if first else f"look after {last}"


def _why_ended(decision: GateDecision, evidence: GateEvidence, looks: Sequence[int]) -> str:
    # Fresh trials of single cases come after the last look, and did not end it.
    steps = {step.name: step for step in decision.steps if step.name != "confirmation"}
    for status, words in (("failed", _FAILED), ("inconclusive", _OPEN)):
        for name, step in steps.items():
            if step.status == status and name in words:
                return words[name]
    if steps["non-inferiority"].status == "passed":
        if evidence.interval_high < evidence.margin:
            return f"a drop of {margin(evidence.margin)} points is ruled out"
        return "no verdict is worse than before"
    if decision.looks_ended:
        return f"still open, and {decision.looks_ended}"
    return "still open after the last look" if looks[-1] == LOOKS[-1] else "still open"
