"""Suites of conversations from Python (`agent_eval.run_suite`), and their results read from a pack."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from agent_eval.agents.adapter import AdapterAgent, AdapterModel, AgentAdapter
from agent_eval.comparison.conversations import CRITERIA_OF, spoken_texts
from agent_eval.config.spec import AgentSpec, Judging, LlmSpec, Output, RunSpec
from agent_eval.contracts import Case, VerdictRow
from agent_eval.contracts.base import digest
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
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.models.base import Model
from agent_eval.operations.models import ModelAccess
from agent_eval.operations.packs import open_run
from agent_eval.operations.run import Overrides
from agent_eval.operations.run_agent import run_agent
from agent_eval.suites.aui import TAGS, AuiDocument
from agent_eval.suites.document import parse_header
from agent_eval.suites.paths import bundled_suite, is_bundled_name
from agent_eval.suites.reader import SuiteSource, open_suite

ADAPTER = "adapter"
"""Kind of the agent, and provider of the model, that an adapter is."""


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """How `run_suite` runs a suite.

    Attributes:
        tests: Texts of which the names of the only tests have one, in any letter case; all when empty.
        tags: Tags of which the only tests have one; all when empty.
        pack: Where the evidence pack is written; None for one that is discarded.
    """

    loops: int = 1
    parallel: int = 1
    tests: Sequence[str] = ()
    tags: Sequence[str] = ()
    pack: Path | None = None


def run_suite(
    adapter: AgentAdapter, suite: Mapping[str, Any] | str | Path, options: SuiteOptions | None = None
) -> SuiteResult:
    """Run a suite of conversations, judge it and score it.

    Args:
        adapter: The agent under test, and the model that judges and plays users.
        suite: The suite as an object, the path of its file, or the name of a bundled one.

    Raises:
        InvalidInput: The suite has faults, or is none of conversations.
        NothingMeasured: No test has such a name and such a tag.
        NotEvaluable: The agent cannot be run at all.
    """
    options = options or SuiteOptions()
    source = _opened(suite)
    document = source.document
    if not isinstance(document, AuiDocument):
        raise InvalidInput(
            f"{suite} is a suite of cases, and run_suite is for suites of conversations",
            remedy="Run it with agent_eval.operations.run_agent.run_agent.",
            file=str(suite),
        )
    if (named := document.agent) is None:
        raise ValueError("the suite names no agent")
    key = ""
    with suppress(UsageError):  # the adapter has its own
        key = named.resolved_key(os.environ)
    with tempfile.TemporaryDirectory(prefix="agent-eval-") as scratch:
        pack = options.pack or Path(scratch) / "pack"
        spec = RunSpec(
            suite=source.path,
            output=Output(pack=pack),
            tests=tuple(options.tests),
            tags=tuple(options.tags),
            agent=AgentSpec(name=ADAPTER, trials=options.loops, parallel=options.parallel),
            judging=Judging(llm=LlmSpec(provider=ADAPTER)),
        )
        agent = AdapterAgent(adapter, named.agent_id, key, named.model)
        own = agent, _AdapterAccess(adapter, document)
        run_agent(spec, environ=os.environ, overrides=Overrides(source=source, own=own))
        result = conversation_results(pack)
    return result if options.pack is not None else result.model_copy(update={"pack": None})


def _opened(suite: Mapping[str, Any] | str | Path) -> SuiteSource:
    if isinstance(suite, Mapping):
        document = AuiDocument(Path("suite.json"), digest(dict(suite)), dict(suite))
        for problem in document.problems:
            raise problem.to_error("the suite", more=0)
        return SuiteSource(document, parse_header(document.raw_header, "the suite", None))
    return open_suite(bundled_suite(str(suite)) if is_bundled_name(str(suite)) else Path(suite))


class _AdapterAccess(ModelAccess):
    """The model of an adapter, as a run takes models."""

    def __init__(self, adapter: AgentAdapter, document: AuiDocument) -> None:
        super().__init__(LlmSpec(provider=ADAPTER), {})
        self._adapted = AdapterModel(adapter, document.judge_model or "")

    @override
    def describe(self) -> dict[str, Any]:
        return self._adapted.describe()

    @override
    def __call__(self) -> Model:
        return self._adapted


def conversation_results(pack: Path) -> SuiteResult:
    """Read conversations, evaluations and scores from a pack of a suite of conversations.

    Raises:
        EvidenceError: The pack is not whole.
    """
    opened = open_run(pack)
    config, described = opened.config, opened.config.execution_config.agent
    tests: list[ConversationResult] = []
    judging: dict[str, float] = {}
    model: dict[str, Any] = {}  # what the evidence says of the model that judged
    for row in opened.results():
        trials: Sequence[TrialResultRow] = row.get("trials") or [row]
        for number, trial in enumerate(trials):
            for verdict in trial["verdicts"]:
                spent = verdict["evidence"].get("judging")
                for name, amount in spent.items() if isinstance(spent, Mapping) else ():
                    if isinstance(amount, (int, float)):
                        judging[name] = judging.get(name, 0) + amount
            tests.append(_conversation(opened.trajectory(row["case_id"], number), trial, number + 1))
        for verdict in row["verdicts"]:
            if verdict["judge_id"] == "llm" and isinstance(verdict["evidence"].get("judge"), dict):
                model = model or dict(verdict["evidence"]["judge"])
    result = SuiteResult(
        suite=config.dataset_id,
        run_id=config.run_id,
        started_at=config.started_at,
        agent=described.to_json() if described is not None else {},
        judge=model,
        pack=str(pack),
        loops=max((test.loop for test in tests), default=1),
        judging=judging,
        tests=tests,
    )
    return with_scores(result)


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
