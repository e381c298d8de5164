"""Compare two recordings of a conversation turn by turn, and the criteria that judges decided on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_eval.contracts.base import canonical_json
from agent_eval.contracts.comparison import (
    ConversationChange,
    CriterionChange,
    SpokenTurn,
    TurnPair,
)
from agent_eval.contracts.conversation import conversation_end
from agent_eval.contracts.event import MESSAGE, USER
from agent_eval.contracts.suite import Case
from agent_eval.contracts.trace import TraceTurn
from agent_eval.contracts.turn_facts import TurnFacts, facts_by_turn
from agent_eval.contracts.verdict import CaseResultRow, Outcome
from agent_eval.text.escape import cut

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

_STATED = (
    *("criterion", "strict", "toolName", "beforeTurn", "paramName", "paramValue"),
    *("ruleCode", "integrationCode"),
)
"""What makes two criteria the same, whatever their outcomes: all that the suite states of one."""


def conversation_change(
    cases: tuple[Case, Case], before: CaseResultRow, now: CaseResultRow
) -> ConversationChange | None:
    """Compare a conversation in two runs, whose traces the `cases` have; None if neither run has one."""
    traces = [case.recorded for case in cases]
    ends = [conversation_end(trace) for trace in traces]
    if not any(len(trace.turns) > 1 or end is not None for trace, end in zip(traces, ends, strict=True)):
        return None
    spoken: list[dict[int, SpokenTurn]] = [{}, {}]
    for turns, case, trace in zip(spoken, cases, traces, strict=True):
        for turn, facts in zip(trace.turns, facts_by_turn(trace), strict=True):
            user, agent = spoken_texts(case, turn)
            turns[turn.number] = SpokenTurn(user=user, agent=agent, actions=_actions(facts))
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
    """List the criteria that do not pass now, or whose outcome changed; those that got worse first."""
    earlier = {key: outcome for key, outcome, _, _ in _criteria(before)} if before is not None else {}
    changes = []
    for key, outcome, judge_id, row in _criteria(now):
        was = earlier.get(key)
        if outcome is Outcome.PASSED and was in (Outcome.PASSED, None):
            continue
        strict = _text(row.get("strict"))
        changes.append(
            CriterionChange(
                judge_id=judge_id,
                criterion=cut(_text(row.get("criterion")) or strict or "", CRITERION_LIMIT),
                strict=strict,
                baseline=was,
                candidate=outcome,
                reason=cut(_text(row.get("reason")) or "", TEXT_LIMIT),
                advisory=row.get("advisory") is True,
            )
        )

    def order(change: CriterionChange) -> tuple[bool, bool, bool]:
        return (change.candidate is Outcome.PASSED, change.baseline is change.candidate, change.advisory)

    return sorted(changes, key=order)[:CRITERIA_LIMIT]


def _criteria(result: CaseResultRow) -> Iterator[tuple[bytes, Outcome | None, str, Mapping[str, Any]]]:
    """List the criteria of a result: what the suite states of one, its outcome, its judge, and its row."""
    for verdict in result["verdicts"]:
        judge_id = verdict["judge_id"]
        listed = verdict["evidence"].get(CRITERIA_OF.get(judge_id, ""))
        for row in listed if isinstance(listed, list) else ():
            if isinstance(row, Mapping):
                stated = {name: value for name, value in row.items() if name in _STATED}
                outcome = row.get("outcome")
                known = Outcome(outcome) if outcome in set(Outcome) else None
                yield canonical_json([judge_id, stated]), known, judge_id, row


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def spoken_texts(case: Case, turn: TraceTurn) -> tuple[str, str]:
    """Read what the user and what the agent said in a turn; of the user also what the case states."""
    events = turn.trace.events
    stated = case.turns[turn.number - 1] if turn.number <= len(case.turns) else None
    asked = [_as_text(event.content) for event in events if event.type == MESSAGE and event.role == USER]
    answers = [_as_text(event.content) for event in events if event.is_message]
    # Agents that are programs record no messages of the user.
    user = "\n".join(asked) or _as_text(stated.input if stated is not None else None)
    return user, "\n".join(filter(None, answers))


def _as_text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return canonical_json(content).decode()


def _actions(facts: TurnFacts) -> list[str]:
    tools = [str(name) for name in facts.tools.values]
    known = facts.params.values[-1] if facts.params.values else {}
    params = {str(name): value for name, value in known.items() if value not in ("", "undefined", None)}
    called = [
        f"{each.code}: {each.problem}" if each.problem else f"integration {each.code}"
        for each in facts.integrations.values
        if each.problem or each.code not in facts.tools.values
    ]
    return [
        *(*tools, *called),
        *(f"rule {code}" for code in facts.rules.values),
        *(f"{name} = {_as_text(value)}" for name, value in sorted(params.items())),
        *["error"] * any(facts.errors.values),
    ]


def _paired(before: Mapping[int, SpokenTurn], now: Mapping[int, SpokenTurn]) -> list[TurnPair]:
    """Pair the turns by number; where there are too many, leave out earlier ones that are the same."""
    numbers = sorted({*before, *now})
    first = next((place for place, each in enumerate(numbers) if before.get(each) != now.get(each)), 0)
    begin = max(0, min(first, len(numbers) - TURNS_LIMIT))
    nothing = SpokenTurn(user="", agent="")
    pairs = []
    for number in numbers[begin : begin + TURNS_LIMIT]:
        sides = before.get(number), now.get(number)
        was, is_now = (side or nothing for side in sides)
        users = cut_together(was.user, is_now.user, limit=TEXT_LIMIT)
        agents = cut_together(was.agent, is_now.agent, limit=TEXT_LIMIT)
        old, new = (
            None
            if side is None
            else SpokenTurn(
                user=user,
                agent=agent,
                actions=[cut(action, ACTION_LIMIT) for action in side.actions[:ACTIONS_LIMIT]],
            )
            for side, user, agent in zip(sides, users, agents, strict=True)
        )
        pairs.append(TurnPair(number=number, baseline=old, candidate=new, differs=sides[0] != sides[1]))
    return pairs


def cut_together(before: str, now: str, *, limit: int) -> tuple[str, str]:
    """Cut two texts to a limit so that both show their first difference.

    Example:
        >>> cut_together("x" * 50 + "yes", "x" * 50 + "no", limit=12)
        ('…xxxxyes', '…xxxxno')
    """
    start = 0
    if before != now and max(len(before), len(now)) > limit:
        pairs = enumerate(zip(before, now, strict=False))
        shorter = min(len(before), len(now))
        start = max(0, next((at for at, (old, new) in pairs if old != new), shorter) - limit // 3)
    begin = "…" if start else ""
    return cut(begin + before[start:], limit), cut(begin + now[start:], limit)
