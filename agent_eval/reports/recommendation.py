"""Render a recommended quarantine as lines of a policy, which a person reviews and commits."""

from __future__ import annotations

from typing import Any

from agent_eval.history.board import Board, CaseBoard, Recommendation
from agent_eval.text.numbers import count


def recommendation_lines(recommended: Recommendation, history: Board) -> list[str]:
    """Write YAML: the entries of `quarantine` to add, and in comments those to take out."""
    runs = count(len(history.counted), "run")
    lines = [f"# What {runs} of main recommend. Review it, then put it into the policy."]
    lines += [
        f"# {_quoted(case.case_id)} passes again, {_rate(case)}: take it out." for case in recommended.remove
    ]
    if not recommended.add:
        return [*lines, "# No case to quarantine."]
    lines.append("quarantine:")
    for case in recommended.add:
        lines += [
            f"  - case: {_quoted(case.case_id)}",
            f'    reason: "{case.kind}: {_rate(case)}"',
            f"    until: {recommended.until}",
        ]
    return lines


def recommendation_json(recommended: Recommendation) -> dict[str, Any]:
    """Describe a recommendation as JSON."""
    return {
        "quarantine": [
            {
                "case": case.case_id,
                "reason": f"{case.kind}: {_rate(case)}",
                "until": recommended.until,
            }
            for case in recommended.add
        ],
        "remove": [
            {"case": case.case_id, "passed": case.passed, "scored": case.scored}
            for case in recommended.remove
        ],
    }


def _rate(case: CaseBoard) -> str:
    return f"{case.passed} of {count(case.scored, 'trial')} passed"


def _quoted(case_id: str) -> str:
    """Quote an id as a string of YAML on one line, whatever is in it."""
    return f'"{"".join(map(_escaped, case_id))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"
