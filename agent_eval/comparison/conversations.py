"""Compare two recordings of a conversation turn by turn, and the criteria that judges decided on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.comparison.facts import cut
from agent_eval.contracts.base import canonical_json
from agent_eval.contracts.conversation import conversation_end
from agent_eval.contracts.conversation_change import (
    ConversationChange,
    CriterionChange,
    SpokenTurn,
    TurnPair,
)
from agent_eval.contracts.event import MESSAGE, USER
from agent_eval.contracts.suite import Case
from agent_eval.contracts.trace import Trace, TraceTurn
from agent_eval.contracts.turn_facts import TurnFacts, facts_by_turn
from agent_eval.contracts.verdict import CaseResultRow, Outcome, VerdictRow

CONVERSATIONS_LIMIT = 50
"""Maximum conversations that a comparison shows turn by turn."""
TURNS_LIMIT = 12
TEXT_LIMIT = 1_000
"""Maximum characters of a message in a comparison; the pack has all of it."""
ACTIONS_LIMIT = 20
ACTION_LIMIT = 120
CRITERIA_LIMIT = 20
CRITERION_LIMIT = 300

CRITERIA_OF = {"strict": "evaluations", "llm": "criteria"}
"""Judges of conversations, and the member of their evidence that lists the criteria."""


def conversation_change(
    cases: tuple[Case, Case], before: CaseResultRow, now: CaseResultRow
) -> ConversationChange | None:
    """Compare a conversation in two runs; None if neither run has one.

    Args:
        cases: The case with the baseline's trace, and with the candidate's.
        before: The baseline's result.
        now: The candidate's result.
    """
    traces = [case.recorded for case in cases]
    if not any(map(_is_conversation, traces)):
        return None
    ends = [conversation_end(trace) for trace in traces]
    spoken = [dict(_spoken_turns(case, trace)) for case, trace in zip(cases, traces, strict=True)]
    return ConversationChange(
        case_id=cases[1].case_id,
        baseline_turns=len(spoken[0]),
        candidate_turns=len(spoken[1]),
        baseline_end=ends[0].reason.value if ends[0] is not None else None,
        candidate_end=ends[1].reason.value if ends[1] is not None else None,
        turns=_paired(*spoken),
        criteria=criterion_changes(before, now),
    )


def criterion_changes(before: CaseResultRow | None, now: CaseResultRow) -> list[CriterionChange]:
    """List the criteria that do not pass now, or whose outcome changed; those that got worse first.

    Args:
        before: The baseline's result; None without one.
        now: The candidate's result.
    """
    earlier = {
        _key(judge_id, row): row for judge_id, row in (_criteria(before) if before is not None else ())
    }
    changes = []
    for judge_id, row in _criteria(now):
        was = earlier.get(_key(judge_id, row))
        outcomes = [_outcome(each) if each is not None else None for each in (was, row)]
        if outcomes[1] is Outcome.PASSED and outcomes[0] in (Outcome.PASSED, None):
            continue
        changes.append(
            CriterionChange(
                judge_id=judge_id,
                criterion=cut(_words(row), CRITERION_LIMIT),
                strict=_text(row.get("strict")),
                baseline=outcomes[0],
                candidate=outcomes[1],
                reason=cut(_text(row.get("reason")) or "", TEXT_LIMIT),
                advisory=row.get("advisory") is True,
            )
        )
    return sorted(changes, key=_order)[:CRITERIA_LIMIT]


def _order(change: CriterionChange) -> tuple[bool, bool, bool]:
    is_worse = change.candidate is not Outcome.PASSED
    return (not is_worse, change.baseline is change.candidate, change.advisory)


def _criteria(result: CaseResultRow) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for verdict in result["verdicts"]:
        yield from ((verdict["judge_id"], row) for row in _listed(verdict))


def _listed(verdict: VerdictRow) -> list[Mapping[str, Any]]:
    listed = verdict["evidence"].get(CRITERIA_OF.get(verdict["judge_id"], ""))
    return [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, list) else []


def _key(judge_id: str, row: Mapping[str, Any]) -> bytes:
    """Say what makes two criteria the same: all that the suite states of one, whatever its outcome."""
    stated = {name: value for name, value in row.items() if name in _STATED}
    return canonical_json([judge_id, stated])


_STATED = (
    *("criterion", "strict", "toolName", "beforeTurn", "paramName", "paramValue"),
    *("ruleCode", "integrationCode"),
)


def _words(row: Mapping[str, Any]) -> str:
    return _text(row.get("criterion")) or _text(row.get("strict")) or ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _outcome(row: Mapping[str, Any]) -> Outcome | None:
    outcome = row.get("outcome")
    return Outcome(outcome) if outcome in set(Outcome) else None


def _is_conversation(trace: Trace) -> bool:
    return len(trace.turns) > 1 or conversation_end(trace) is not None


def _spoken_turns(case: Case, trace: Trace) -> Iterator[tuple[int, SpokenTurn]]:
    for turn, facts in zip(trace.turns, facts_by_turn(trace), strict=True):
        user, agent = spoken_texts(case, turn)
        yield turn.number, SpokenTurn(user=user, agent=agent, actions=_actions(facts))


def spoken_texts(case: Case, turn: TraceTurn) -> tuple[str, str]:
    """Read what the user and what the agent said in a turn.

    Args:
        case: The case, whose turn says what the user said where the trace does not.
        turn: The turn.
    """
    events = turn.trace.events
    stated = case.turns[turn.number - 1] if turn.number <= len(case.turns) else None
    asked = [as_text(event.content) for event in events if event.type == MESSAGE and event.role == USER]
    answers = [as_text(event.content) for event in events if event.is_message]
    # Agents that are programs record no messages of the user.
    user = "\n".join(asked) or as_text(stated.input if stated is not None else None)
    return user, "\n".join(filter(None, answers))


def as_text(content: Any) -> str:
    """Write the content of a message as text; an empty text for none."""
    return (
        content if isinstance(content, str) else "" if content is None else canonical_json(content).decode()
    )


def _actions(facts: TurnFacts) -> list[str]:
    tools = [str(name) for name in facts.tools.values]
    params = [f"{name} = {as_text(value)}" for name, value in sorted(_params(facts).items())]
    rules = [f"rule {code}" for code in facts.rules.values]
    called = [
        f"{each.code}: {each.problem}" if each.problem else f"integration {each.code}"
        for each in facts.integrations.values
        if each.problem or each.code not in facts.tools.values
    ]
    errors = ["error"] * any(facts.errors.values)
    return [*tools, *called, *rules, *params, *errors]


def _params(facts: TurnFacts) -> dict[str, Any]:
    known = facts.params.values[-1] if facts.params.values else {}
    return {str(name): value for name, value in known.items() if value not in ("", "undefined", None)}


def _paired(before: Mapping[int, SpokenTurn], now: Mapping[int, SpokenTurn]) -> list[TurnPair]:
    """Pair the turns by number; where there are too many, leave out earlier ones that are the same."""
    numbers = sorted({*before, *now})
    differing = [number for number in numbers if before.get(number) != now.get(number)]
    first = numbers.index(differing[0]) if differing else 0
    later = numbers[first : first + TURNS_LIMIT]
    room = TURNS_LIMIT - len(later)
    listed = [*numbers[max(0, first - room) : first], *later]
    return [_pair(number, before.get(number), now.get(number)) for number in listed]


def _pair(number: int, before: SpokenTurn | None, now: SpokenTurn | None) -> TurnPair:
    differs = before != now
    if before is not None and now is not None:
        users = cut_together(before.user, now.user, limit=TEXT_LIMIT)
        agents = cut_together(before.agent, now.agent, limit=TEXT_LIMIT)
        earlier, later = _cut(before, users[0], agents[0]), _cut(now, users[1], agents[1])
        return TurnPair(number=number, baseline=earlier, candidate=later, differs=differs)
    alone = [
        _cut(side, cut(side.user, TEXT_LIMIT), cut(side.agent, TEXT_LIMIT)) if side is not None else None
        for side in (before, now)
    ]
    return TurnPair(number=number, baseline=alone[0], candidate=alone[1], differs=differs)


def _cut(turn: SpokenTurn, user: str, agent: str) -> SpokenTurn:
    actions = [cut(action, ACTION_LIMIT) for action in turn.actions[:ACTIONS_LIMIT]]
    return SpokenTurn(user=user, agent=agent, actions=actions)


def cut_together(before: str, now: str, *, limit: int) -> tuple[str, str]:
    """Cut two texts to a limit so that both show their first difference.

    Example:
        >>> cut_together("x" * 50 + "yes", "x" * 50 + "no", limit=12)
        ('…xxxxyes', '…xxxxno')
    """
    start = 0
    if before != now and max(len(before), len(now)) > limit:
        start = max(0, _common_beginning(before, now) - limit // 3)
    begin = "…" if start else ""
    return cut(begin + before[start:], limit), cut(begin + now[start:], limit)


def _common_beginning(before: str, now: str) -> int:
    pairs = enumerate(zip(before, now, strict=False))
    return next(
        (place for place, (before_char, now_char) in pairs if before_char != now_char),
        min(len(before), len(now)),
    )
