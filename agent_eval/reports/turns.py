"""Render a regressed conversation: its turns beside the baseline's, the first that differs first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agent_eval.comparison.conversations import cut_together
from agent_eval.contracts import Outcome
from agent_eval.contracts.comparison import (
    ConversationChange,
    CriterionChange,
    SpokenTurn,
    TurnPair,
)
from agent_eval.reports.blocks import bullets, table
from agent_eval.reports.detail import Detail
from agent_eval.reports.terminal import shown_name, wrapped
from agent_eval.text.escape import clean, code_span
from agent_eval.text.numbers import count

CRITERIA_SHOWN = 4
"""Criteria of a judge that a case shows in a comment."""


def worse_criteria(change: ConversationChange | None, judge_id: str) -> list[CriterionChange]:
    """Select a judge's criteria that got worse, or that it decides for the first time and not as passed."""
    listed = change.criteria if change is not None else []
    return [
        each
        for each in listed
        if each.judge_id == judge_id
        and not each.advisory
        and each.candidate is not Outcome.PASSED
        and each.candidate is not each.baseline
    ]


def turn_blocks(change: ConversationChange, detail: Detail) -> list[str]:
    """Render the first turn that differs as blocks of markdown; the page has the others.

    Every text of the conversation may be hostile.
    """
    first = change.first_differing
    if first is None:
        return [_lengths(change)] if _lengths(change) else []
    blocks = [_title(first, change), *_side_by_side(first, detail), _lengths(change)]
    return [block for block in blocks if block]


def conversation_lines(change: ConversationChange) -> list[str]:
    """Write the criteria that got worse for a terminal; every text of the conversation may be hostile."""
    lines = []
    judges = dict.fromkeys(each.judge_id for each in change.criteria)
    worse = [each for judge_id in judges for each in worse_criteria(change, judge_id)]
    for each in worse[:CRITERIA_SHOWN]:
        words = f"{shown_name(each.criterion, 120)}: {clean(each.reason, limit=200)}"
        lines += wrapped([words], first="    - ", rest="      ")
    return lines


def _title(first: TurnPair, change: ConversationChange) -> str:
    differing = sum(turn.differs for turn in change.turns)
    if max(change.baseline_turns, change.candidate_turns) == 1:
        return "**The only turn**:"
    which = f"the first of {differing} that differ" if differing > 1 else "the only one that differs"
    return f"**Turn {first.number}**, {which}:"


_NO_TURN, _NOTHING = "no such turn", "nothing"
_ACTIONS_SHOWN = 12


def _side_by_side(turn: TurnPair, detail: Detail) -> list[str]:
    """List what is the same in both runs once, and render the rest as a table, a column for each run."""
    before, now = turn.baseline, turn.candidate
    same, rows = [], []
    for name, first, second in _texts(before, now):
        if first == second:
            same.append((name, _quoted(second, detail)))
        else:
            excerpts = cut_together(first or "", second or "", limit=detail.quote)
            pairs = zip((first, second), excerpts, strict=True)
            rows.append([name, *(_NO_TURN if text is None else _quoted(cut, detail) for text, cut in pairs)])
    if before is not None and now is not None:
        common = [action for action in now.actions if action in before.actions]
        same.append(("Did", _did(common, detail)))
    apart = [_did(_apart(*sides), detail) for sides in ((before, now), (now, before))]
    if apart != [_NOTHING, _NOTHING]:
        rows.append(["Did", *apart])
    header, align = ("", "Baseline", "Now"), (":--", ":--", ":--")
    return [_listed(same), table(header, align, rows) if rows else ""]


def _texts(before: SpokenTurn | None, now: SpokenTurn | None) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield who speaks, and what was said in the baseline and now; None without the turn."""
    yield "User", before.user if before is not None else None, now.user if now is not None else None
    yield "Agent", before.agent if before is not None else None, now.agent if now is not None else None


def _listed(parts: Sequence[tuple[str, str]]) -> str:
    return bullets(f"{name}: {text}" for name, text in parts if text != _NOTHING)


def _quoted(text: str | None, detail: Detail) -> str:
    return code_span(text, limit=detail.quote) if text else _NOTHING


def _did(actions: Sequence[str], detail: Detail) -> str:
    codes = [code_span(action, limit=detail.quote) for action in actions[:_ACTIONS_SHOWN]]
    hidden = len(actions) - len(codes)
    return ", ".join([*codes, *([f"and {hidden} more"] if hidden else [])]) or _NOTHING


def _apart(side: SpokenTurn | None, other: SpokenTurn | None) -> Sequence[str]:
    """Select the actions that the other run does not have; all of them where only their order differs."""
    if side is None:
        return []
    if other is None:
        return side.actions
    if side.actions != other.actions and set(side.actions) == set(other.actions):
        return side.actions
    return [action for action in side.actions if action not in other.actions]


def _lengths(change: ConversationChange) -> str:
    """Say how the conversation ended in each run, if that differs."""
    before, now = change.baseline_turns, change.candidate_turns
    if (before, change.baseline_end) == (now, change.candidate_end):
        return ""
    earlier, later = _ended(before, change.baseline_end), _ended(now, change.candidate_end)
    return f"The conversation had {earlier} in the baseline, and has {later} now."


def _ended(turns: int, end: str | None) -> str:
    return count(turns, "turn") + (f" (ended by {code_span(end, limit=40)})" if end else "")
