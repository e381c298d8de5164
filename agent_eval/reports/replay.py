"""Render the report of a replay as markdown: for `report markdown --replay`, and for the comment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.reports.blocks import bullets, folded
from agent_eval.reports.detail import Detail
from agent_eval.text.numbers import count

_PARTS = (
    ("case_mismatches", "case differs", "cases differ"),
    ("trace_mismatches", "trajectory differs", "trajectories differ"),
    ("env_mismatches", "pin of the environment differs", "pins of the environment differ"),
)
_JUDGES_SHOWN = 3


def replay_sentence(replay: Mapping[str, Any]) -> str:
    """Say in one sentence whether a replay gave the same results, and how much differs.

    `replay` is the report that `replay` or `replay-exec` wrote, as JSON. Any program can have written it.
    """
    if replay.get("replay_passed") is True:
        return "✅ The replay gave the same results."
    parts = [count(len(listed), singular, plural) for listed, singular, plural in _differences(replay)]
    if replay.get("summary_match") is False:
        parts.append("the summary differs")
    return f"❌ The replay differs: {', '.join(parts)}." if parts else "❌ The replay differs."


def replay_blocks(replay: Mapping[str, Any], detail: Detail) -> list[str]:
    """Render a replay: whether it gave the same results, and behind a click what differs."""
    blocks = [replay_sentence(replay)]
    for listed, singular, plural in _differences(replay):
        lines = [_line(item, detail) for item in listed[: detail.cases]]
        if len(listed) > len(lines):
            lines.append(f"and {len(listed) - len(lines):,} more")
        blocks.append(folded(count(len(listed), singular, plural), [bullets(lines)]))
    return blocks


def _differences(replay: Mapping[str, Any]) -> Iterator[tuple[list[Any], str, str]]:
    for key, singular, plural in _PARTS:
        listed = replay.get(key)
        if isinstance(listed, list) and listed:
            yield listed, singular, plural


def _line(item: Any, detail: Detail) -> str:
    """Write one difference: what it is of, what the pack says, and what is so now."""

    def quoted(value: Any) -> str:
        return detail.code(str(value))

    if not isinstance(item, dict):
        return quoted(item)
    if "field" in item:
        differs = f"{quoted(item['field'])} was {quoted(item.get('saved'))}, is {quoted(item.get('current'))}"
        return f"{differs}, which is allowed" if item.get("allowed") is True else differs
    if "difference" in item:
        return f"{quoted(item.get('case_id'))}: {quoted(item['difference'])}"
    judges = item.get("judges")
    listed = [judge for judge in judges if isinstance(judge, dict)] if isinstance(judges, list) else []
    verdicts = [
        f"{quoted(judge.get('judge_id'))} was {quoted(judge.get('saved'))}, "
        f"is {quoted(judge.get('replayed'))}"
        for judge in listed[:_JUDGES_SHOWN]
    ]
    return f"{quoted(item.get('case_id'))}: {'; '.join(verdicts)}" if verdicts else quoted(item)
