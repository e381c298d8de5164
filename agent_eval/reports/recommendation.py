"""Render recommended tiers as lines of a policy, which a person reviews and commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_eval.history.board import Board
from agent_eval.history.recommendation import Recommendation
from agent_eval.text.numbers import count


def recommendation_lines(recommended: Recommendation, history: Board) -> list[str]:
    """Write YAML: the whole lists `tracked` and `expected_fail`, and in comments what differs and why."""
    runs = count(len(history.counted), "run")
    lines = [f"# Tiers that {runs} of the base branch recommend. Review them, then put them into the policy."]
    lines += [
        f"# {_quoted(change.case_id)}: {change.before} -> {change.now}, {change.passed} of {change.scored} "
        "trials passed"
        for change in recommended.changes
    ]
    if not recommended.changes:
        lines.append("# They are what the policy says already.")
    return [
        *lines,
        *_list("tracked", recommended.tracked),
        *_list("expected_fail", recommended.expected_fail),
    ]


def recommendation_json(recommended: Recommendation) -> dict[str, Any]:
    """Describe a recommendation as JSON."""
    return {
        "tracked": list(recommended.tracked),
        "expected_fail": list(recommended.expected_fail),
        "changes": [
            {
                "case_id": change.case_id,
                "before": change.before,
                "now": change.now,
                "passed": change.passed,
                "scored": change.scored,
            }
            for change in recommended.changes
        ],
    }


def _list(key: str, case_ids: Sequence[str]) -> list[str]:
    if not case_ids:
        return [f"{key}: []"]
    return [f"{key}:", *(f"  - {_quoted(case_id)}" for case_id in case_ids)]


def _quoted(case_id: str) -> str:
    """Quote an id as a string of YAML on one line, whatever is in it."""
    return f'"{"".join(map(_escaped, case_id))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08X}"
