"""The `llm` judge: criteria in words, judged by a model that gives its reasons before its verdict."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from pydantic import Field, field_validator
from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict, digest
from agent_eval.contracts.conversation import EndReason, conversation_end
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge, EvaluationsConfig, JudgeModel, NoModel, clipped, listed
from agent_eval.judges.matching.criteria import (
    PROMPT,
    AskSettings,
    Criterion,
    Decision,
    Vote,
    criterion_digest,
    decide,
    prompt_digest,
)
from agent_eval.judges.matching.transcript import Transcript, transcript_of
from agent_eval.judges.reading import NOT_OF_THE_AGENT, attempt_failure, listed_objects, read_model, refusal
from agent_eval.models.base import ModelReply
from agent_eval.models.scripted import NAME as SCRIPTED
from agent_eval.processes.thread_pool import ThreadPool
from agent_eval.text.numbers import count

FIELD = "llm"
"""Member of a case's metadata that lists its criteria."""

MOST_CRITERIA = 100
AT_ONCE = 8
"""Criteria of one case that are asked at the same time, after the first, which fills the provider's cache."""

_REASONING_LIMIT = 4000


class LlmConfig(EvaluationsConfig):
    """What a model judges, and how it is asked. The operator names provider, address and key."""

    criteria: list[Criterion] = Field(default_factory=list, max_length=MOST_CRITERIA)
    """Criteria of every case, before those that a case lists in `metadata.llm`."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Name of the model; without it that of `judge_model.model`, else the provider's default."""
    votes: int | None = Field(default=None, ge=1, le=9)
    """Votes on each criterion; without it those of `judge_model.votes`. 2 asks again where two differ."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Sampling parameters to send, such as `temperature`. None by default; a refused one is dropped."""
    max_tokens: int = Field(default=4096, ge=100, le=100_000)
    """Maximum number of tokens of one reply, reasoning included."""
    max_characters: int = Field(default=400_000, ge=1000, le=10_000_000)
    """A longer conversation is inconclusive, and never cut."""

    @field_validator("parameters")
    @classmethod
    def _only_sampling(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        if unknown := sorted(set(parameters) - SAMPLING):
            raise ValueError(
                f"{unknown[0]} is no sampling parameter; known are {', '.join(sorted(SAMPLING))}"
            )
        return parameters


SAMPLING = frozenset({"temperature", "top_p", "top_k", "seed", "reasoning_effort"})
"""Parameters of requests that a configuration may set; anything else could change what is asked."""


class LlmJudge(BaseJudge[LlmConfig]):
    """Asks a model about each criterion of the configuration and of the case's `metadata.llm`.

    It fails if a criterion fails; else it is an error where a criterion could not be judged, and inconclusive
    where one is. The score is the weighted share of criteria that passed. Advisory criteria are shown and
    count for nothing. A conversation that ended because the agent could not be reached is skipped.
    """

    judge_id = "llm"
    reads = frozenset({"metadata.llm"})
    reads_answer = True
    Config = LlmConfig

    def __init__(self, config: LlmConfig | None = None) -> None:
        super().__init__(config)
        self._source: JudgeModel = NoModel()

    def connect(self, model: JudgeModel) -> None:
        """Give the judge its model, which is opened when the first case needs it."""
        self._source = model

    def identity(self) -> str | None:
        """Identify what gives the verdicts beside the configuration: the model, its prompt and the votes.

        None without a model. Another identity is another judge to a comparison.
        """
        described = self._source.describe()
        return digest([described, prompt_digest(), self._source.votes]) if described else None

    @override
    def check_case(self, case: Case) -> None:
        if self._criteria(case):
            self._source()

    def _criteria(self, case: Case) -> list[Criterion]:
        if case.metadata.get(FIELD) is None:
            return self.config.criteria
        of_case = listed_objects(case, FIELD, example='[{"criterion": "..."}]')
        stated = (read_model(Criterion, item, case=case, field=field) for field, item in of_case)
        criteria = [*self.config.criteria, *stated]
        if len(criteria) > MOST_CRITERIA:
            words, remedy = f"it has more than {MOST_CRITERIA} criteria", "Divide the case."
            raise refusal(case.case_id, f"metadata.{FIELD}", words, remedy)
        if criteria and not any(criterion.weight for criterion in criteria):
            words, remedy = "every criterion has the weight 0", "Give one of them a weight."
            raise refusal(case.case_id, f"metadata.{FIELD}", words, remedy)
        return criteria

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        criteria = self._criteria(case)
        if not criteria:
            return self.skipped(case, f"the case has no criteria in metadata.{FIELD}, and the judge has none")
        if (unjudged := self._not_judged(case, trace)) is not None:
            return unjudged
        transcript = transcript_of(case, trace)
        if (length := len(transcript.text)) > (most := self.config.max_characters):
            words = f"the conversation has {length:,} characters, more than the {most:,} that are judged"
            return self.inconclusive(case, words)
        config, model = self.config, self._source()
        described, earned = model.describe(), self._source.earned()
        settings = AskSettings(
            config.votes or self._source.votes, config.model, config.parameters, config.max_tokens
        )
        # The first criterion is asked about alone, which fills the provider's cache, then the others.
        ask = partial(decide, model, case, transcript, settings)
        first, *others = criteria
        decisions = [ask(first)]
        if others:
            with ThreadPool(min(len(others), AT_ONCE)) as pool:
                asked = [pool.submit(partial(ask, criterion)) for criterion in others]
                decisions += [decision.result() for decision in asked]
        rows: list[dict[str, Any]] = []
        for criterion, decision in zip(criteria, decisions, strict=True):
            key = criterion_digest(described, criterion.criterion)
            rows.append(
                {
                    **criterion.model_dump(exclude_unset=True),
                    "advisory": criterion.advisory and key not in earned,
                    "digest": key,
                    "outcome": decision.outcome,
                    "reason": clipped(decision.reason, _REASONING_LIMIT),
                    "quotes": _quotes(decision, transcript),
                    "agreement": decision.agreement,
                    "votes": [_described_vote(vote) for vote in decision.votes],
                }
            )
        evidence: dict[str, Any] = {
            "judge": {
                **described,
                **({"model": config.model} if config.model else {}),
                "prompt": f"{PROMPT} {prompt_digest()}",
            },
            "criteria": rows,
            "judging": judging_of(
                [reply for decision in decisions for vote in decision.votes for reply in vote.replies]
            ),
        }
        if described.get("provider") == SCRIPTED:
            evidence["judging"]["scripted"] = 1
        return self._verdict_on(case, list(zip(criteria, decisions, rows, strict=True)), evidence)

    def _not_judged(self, case: Case, trace: Trace) -> Verdict | None:
        """Build the verdict on a conversation that says nothing of the agent; None for any other."""
        failed_by = attempt_failure(case)
        if failed_by in NOT_OF_THE_AGENT:
            return self.skipped(case, f"not evaluated: the attempt failed by {failed_by}")
        end = conversation_end(trace)
        if end is not None and end.reason is EndReason.AGENT_INFRASTRUCTURE:
            return self.skipped(case, "not evaluated: the agent could not be reached")
        if end is not None and end.reason in (EndReason.SIMULATOR_ERROR, EndReason.CANCELLED):
            words = f"the conversation ended by {end.reason.value}, which says nothing of the agent"
            return self.inconclusive(case, words)
        return self.nothing_done(case, trace)

    def _verdict_on(self, case: Case, judged: Sequence[_Judged], evidence: dict[str, Any]) -> Verdict:
        by_outcome: dict[str, list[_Judged]] = defaultdict(list)
        for criterion, decision, row in judged:
            by_outcome["advisory" if row["advisory"] else decision.outcome].append((criterion, decision, row))
        counted = [criterion for criterion, _, row in judged if not row["advisory"]]
        words = count(len(counted) or len(judged), "criterion", "criteria")
        if not counted:
            return self.skipped(case, f"{words}, all advisory", evidence=evidence)
        total = sum(criterion.weight for criterion in counted)
        passed = sum(criterion.weight for criterion, _, _ in by_outcome["passed"])
        score = passed / total if total else None
        decisive = by_outcome["failed"] or by_outcome["error"] or by_outcome["inconclusive"]
        reasons = (
            f"{clipped(criterion.criterion.rstrip('.!'), 80)}: {clipped(decision.reason, 160)}"
            for criterion, decision, _ in decisive
        )
        reason = listed(reasons, limit=2) if decisive else f"{words} passed"
        refs = [
            event
            for _, _, row in by_outcome["failed"] or judged
            for quote in row["quotes"]
            for event in quote["events"]
        ]
        if by_outcome["failed"]:
            kind = FailureKind.CONTRACT_VIOLATION
            return self.failed(case, reason, kind, score=score, refs=refs, evidence=evidence)
        if errors := by_outcome["error"]:
            kinds = {decision.failure or FailureKind.JUDGE_ERROR for _, decision, _ in errors}
            kind = kinds.pop() if len(kinds) == 1 else FailureKind.JUDGE_ERROR
            return self.error(case, reason, kind, evidence=evidence)
        if by_outcome["inconclusive"]:
            return self.inconclusive(case, reason, score=score, evidence=evidence)
        return self.passed(case, reason, refs=refs, evidence=evidence)


_Judged = tuple[Criterion, Decision, dict[str, Any]]
"""A criterion, the decision on it, and what the evidence has of both."""


def _quotes(decision: Decision, transcript: Transcript) -> list[dict[str, Any]]:
    """List the passages of the deciding vote, each with the events that have it; none means not found."""
    rulings = [vote.ruling for vote in decision.votes if vote.ruling is not None]
    ruling = next((each for each in rulings if each.verdict == decision.outcome), None)
    described = []
    for quote in ruling.evidence[:20] if ruling is not None else ():
        events = transcript.events_with(quote.quote, quote.turn)
        described.append(
            {"turn": quote.turn, "quote": clipped(quote.quote, 400), "events": events, "found": bool(events)}
        )
    return described


def _described_vote(vote: Vote) -> dict[str, Any]:
    described: dict[str, Any] = {"key": vote.key}
    if vote.ruling is not None:
        described["ruling"] = vote.ruling.model_dump()
    else:
        described["problem"] = clipped(vote.problem)
    if vote.replies:
        last = vote.replies[-1]
        facts = {"model": last.model, "rung": last.rung, "dropped": list(last.dropped), "source": last.source}
        described.update({name: value for name, value in facts.items() if value})
        described.update(_use(vote.replies))
        if len(vote.replies) > 1:
            described["repaired"] = True
    return described


def _use(replies: Sequence[ModelReply]) -> dict[str, Any]:
    tokens: Counter[str] = Counter()
    for usage in (reply.usage.to_json() for reply in replies if reply.usage):
        tokens.update({name: int(number) for name, number in usage.items()})
    costs = [reply.cost_usd for reply in replies]
    use: dict[str, Any] = {"usage": dict(tokens)} if tokens else {}
    if costs and None not in costs:
        use["cost_usd"] = round(sum(cost for cost in costs if cost is not None), 8)
    return use


def judging_of(replies: Sequence[ModelReply]) -> dict[str, Any]:
    """Sum up what judging took: calls and cost of what was asked, and what kept replies saved."""
    asked = [reply for reply in replies if reply.source == "model"]
    reused = [reply for reply in replies if reply.source != "model"]
    costs = [reply.cost_usd for reply in asked if reply.cost_usd is not None]
    judging: dict[str, Any] = {"calls": len(asked), "reused": len(reused), **_use(asked).get("usage", {})}
    figures = {
        "retries": sum(reply.retries for reply in asked) or None,
        "cost_usd": round(sum(costs), 8) if costs else None,
        "unpriced": len(asked) - len(costs) or None,
        "saved_usd": _use(reused).get("cost_usd"),
    }
    return judging | {name: figure for name, figure in figures.items() if figure is not None}
