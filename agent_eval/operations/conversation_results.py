"""Read the result of a suite of conversations from its evidence pack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_eval.comparison.conversations import CRITERIA_OF, spoken_texts
from agent_eval.contracts import Case, CaseResultRow, VerdictRow
from agent_eval.contracts.conversation import AUI, conversation_end, executed_workflows, has_error_answer
from agent_eval.contracts.conversation_result import (
    ConversationResult,
    EvaluationResult,
    SuiteResult,
    TurnResult,
    score_of,
    with_scores,
)
from agent_eval.contracts.trace import Trace, TraceTurn
from agent_eval.contracts.verdict import TrialResultRow
from agent_eval.evidence.reader import Pack
from agent_eval.operations.packs import open_run
from agent_eval.suites.aui import TAGS


def conversation_results(pack: Path) -> SuiteResult:
    """Read conversations, evaluations and scores from a pack of a suite of conversations.

    Args:
        pack: The pack, or an archive of it; it is verified first.

    Raises:
        EvidenceError: The pack is not whole.
    """
    opened = open_run(pack)
    config = opened.config
    described = config.execution_config.agent if config.execution_config is not None else None
    tests: list[ConversationResult] = []
    judging: dict[str, float] = {}
    for row in opened.results():
        tests += _conversations(opened, row, judging)
    result = SuiteResult(
        suite=config.dataset_id,
        run_id=config.run_id,
        started_at=config.started_at,
        agent=described.to_json() if described is not None else {},
        judge=_judge(opened),
        pack=str(pack),
        loops=max((test.loop for test in tests), default=1),
        judging=judging,
        tests=tests,
    )
    return with_scores(result)


def _judge(pack: Pack) -> dict[str, Any]:
    """Return what the evidence says of the model that judged; nothing if none did."""
    for row in pack.results():
        for verdict in row["verdicts"]:
            if verdict["judge_id"] == "llm" and isinstance(verdict["evidence"].get("judge"), dict):
                return dict(verdict["evidence"]["judge"])
    return {}


def _conversations(pack: Pack, row: CaseResultRow, judging: dict[str, float]) -> Iterator[ConversationResult]:
    """Yield the conversations of a test, one for each trial."""
    trials: Sequence[TrialResultRow] = row.get("trials") or [row]
    for number, trial in enumerate(trials):
        recorded = pack.trajectory(row["case_id"], number)
        for verdict in trial["verdicts"]:
            spent = verdict["evidence"].get("judging")
            for name, amount in spent.items() if isinstance(spent, Mapping) else ():
                if isinstance(amount, (int, float)):
                    judging[name] = judging.get(name, 0) + amount
        yield _conversation(recorded, trial, number + 1)


def _conversation(case: Case, trial: TrialResultRow, loop: int) -> ConversationResult:
    trace = case.recorded
    evaluations = [each for verdict in trial["verdicts"] for each in _evaluations(verdict)]
    end = conversation_end(trace)
    objections = [each["reason"] for each in trial["verdicts"] if each["outcome"] == trial["outcome"]]
    return ConversationResult(
        name=case.case_id,
        loop=loop,
        tags=[tag for tag in case.metadata.get(TAGS) or [] if isinstance(tag, str)],
        passed=trial["passed"],
        outcome=trial["outcome"],
        score=score_of(evaluations),
        is_error=any(has_error_answer(turn.trace.events) for turn in trace.turns),
        end=end.reason.value if end is not None else None,
        problem="" if trial["passed"] or evaluations else next(iter(objections), ""),
        turns=[_turn(turn, case) for turn in trace.turns],
        evaluations=evaluations,
    )


def _evaluations(verdict: VerdictRow) -> Iterator[EvaluationResult]:
    listed = verdict["evidence"].get(CRITERIA_OF.get(verdict["judge_id"], ""))
    for each in listed if isinstance(listed, list) else ():
        decided = [turn["turn"] for turn in each.get("turns", ()) if turn.get("counts")]
        quoted = [quote["turn"] for quote in each.get("quotes", ()) if quote.get("found")]
        yield EvaluationResult(
            criterion=each.get("criterion") or each.get("strict") or "",
            strict=each.get("strict"),
            outcome=each["outcome"],
            reason=each.get("reason", ""),
            weight=each.get("weight", 1.0),
            category=each.get("category"),
            aui_logic=each.get("aui_logic", []),
            turns=list(dict.fromkeys(turn for turn in (*decided, *quoted) if isinstance(turn, int))),
            advisory=each.get("advisory", False),
        )


def _turn(turn: TraceTurn, case: Case) -> TurnResult:
    events = turn.trace.events
    raw = [event.attributes[AUI] for event in events if AUI in event.attributes]
    stated = case.turns[turn.number - 1] if turn.number <= len(case.turns) else None
    user, agent = spoken_texts(case, turn)
    return TurnResult(
        number=turn.number,
        user=user,
        agent=agent,
        simulated=stated is None or stated.auto,
        expectation=stated.expectation if stated is not None else None,
        workflows=[name for answer in raw for name in executed_workflows(answer)]
        or [pair.tool for pair in Trace(events).calls],
        raw=raw,
    )
