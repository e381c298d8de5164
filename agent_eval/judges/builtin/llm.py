"""The `llm` judge: criteria in words, judged by a model that gives its reasons before its verdict."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from pydantic import Field, field_validator
from typing_extensions import override

from agent_eval.contracts import Case, Outcome, Trace, Verdict, digest
from agent_eval.contracts.conversation import EndReason, conversation_end
from agent_eval.errors import FailureKind
from agent_eval.judges.asking import JudgeModel, NoModel
from agent_eval.judges.base import BaseJudge, EvaluationsConfig, clipped, listed
from agent_eval.judges.matching.criteria import (
    PROMPT,
    AskSettings,
    Criterion,
    Decision,
    Vote,
    criterion_digest,
    decide,
    prompt_digest,
    questions_on,
)
from agent_eval.judges.matching.transcript import Transcript, transcript_of
from agent_eval.judges.reading import NOT_OF_THE_AGENT, attempt_failure, read_listed, refusal
from agent_eval.models.base import Model, ModelReply
from agent_eval.models.scripted import NAME as SCRIPTED
from agent_eval.processes.thread_pool import ThreadPool
from agent_eval.text.numbers import count

FIELD = "llm"
"""Member of a case's metadata that lists its criteria."""

MOST_CRITERIA = 100
AT_ONCE = 8
"""Criteria of one case that are asked at the same time, after the first, which fills the provider's cache."""

_REASONING_LIMIT = 4000
_CLOSING = ".!"


class LlmConfig(EvaluationsConfig):
    """What a model judges, and how it is asked. The operator names provider, address and key."""

    criteria: list[Criterion] = Field(default_factory=list, max_length=MOST_CRITERIA)
    """Criteria of every case, before those that a case lists in `metadata.llm`."""
    model: str | None = Field(default=None, min_length=1, max_length=200)
    """Name of the model; without it that of `--llm-model`, else the provider's default."""
    votes: int | None = Field(default=None, ge=1, le=9)
    """Votes on each criterion; without it those of `--judge-votes`. 2 asks a third time where two differ."""
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
        of_case = read_listed(Criterion, case, FIELD, example='[{"criterion": "..."}]')
        criteria = [*self.config.criteria, *of_case]
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
        if len(transcript.text) > self.config.max_characters:
            return self.inconclusive(
                case,
                f"the conversation has {len(transcript.text):,} characters, more than the"
                f" {self.config.max_characters:,} that are judged",
            )
        model = self._source()
        decisions = self._decide(model, case, trace, transcript, criteria)
        return self._verdict_on(
            case, _Judged(criteria, decisions, transcript, model, self._source.earned()), trace
        )

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

    def _decide(
        self, model: Model, case: Case, trace: Trace, transcript: Transcript, criteria: Sequence[Criterion]
    ) -> list[Decision]:
        """Ask about the first criterion alone, which fills the provider's cache, then about the others."""
        config = self.config
        settings = AskSettings(
            config.votes or self._source.votes, config.model, config.parameters, config.max_tokens
        )
        first, *others = questions_on(case, trace, transcript, criteria)
        decisions = [decide(model, first, settings)]
        if others:
            with ThreadPool(min(len(others), AT_ONCE)) as pool:
                asked = [pool.submit(partial(decide, model, question, settings)) for question in others]
                decisions += [decision.result() for decision in asked]
        return decisions

    def _verdict_on(self, case: Case, judged: _Judged, trace: Trace) -> Verdict:
        evidence = judged.evidence(trace, self.config)
        counted = judged.counted
        if not counted:
            words = f"{count(len(judged.criteria), 'criterion', 'criteria')}, all advisory"
            return self._verdict(case, Outcome.SKIPPED, words, None, None, (), evidence)
        by_outcome = {name: [pair for pair in counted if pair[1].outcome == name] for name in _OUTCOMES}
        refs = judged.events_of([criterion for criterion, _ in by_outcome["failed"]])
        if failed := by_outcome["failed"]:
            kind = FailureKind.CONTRACT_VIOLATION
            return self.failed(
                case, _words(failed), kind, score=_score(counted), refs=refs, evidence=evidence
            )
        if errors := by_outcome["error"]:
            kinds = {decision.failure or FailureKind.JUDGE_ERROR for _, decision in errors}
            kind = kinds.pop() if len(kinds) == 1 else FailureKind.JUDGE_ERROR
            return self.error(case, _words(errors), kind, evidence=evidence)
        if undecided := by_outcome["inconclusive"]:
            return self.inconclusive(case, _words(undecided), score=_score(counted), evidence=evidence)
        words = f"{count(len(counted), 'criterion', 'criteria')} passed"
        return self.passed(case, words, refs=judged.events_of(judged.criteria), evidence=evidence)


_OUTCOMES = ("passed", "failed", "inconclusive", "error")
_Pair = tuple[Criterion, Decision]


class _Judged:
    """The decisions on a conversation, as evidence."""

    def __init__(
        self,
        criteria: Sequence[Criterion],
        decisions: Sequence[Decision],
        transcript: Transcript,
        model: Model,
        earned: frozenset[str],
    ) -> None:
        self.criteria, self._transcript = criteria, transcript
        self._pairs = list(zip(criteria, decisions, strict=True))
        self._model, self._earned = model.describe(), earned

    @property
    def counted(self) -> list[_Pair]:
        """The criteria that count, with their decisions."""
        return [pair for pair in self._pairs if not self._is_advisory(pair[0])]

    def _is_advisory(self, criterion: Criterion) -> bool:
        return criterion.advisory and criterion_digest(self._model, criterion.criterion) not in self._earned

    def events_of(self, criteria: Sequence[Criterion]) -> list[int]:
        """Return the events that the quotes of some criteria are from."""
        wanted = set(map(id, criteria))
        return [
            event
            for criterion, decision in self._pairs
            if id(criterion) in wanted
            for quote in _quotes(decision, self._transcript)
            for event in quote["events"]
        ]

    def evidence(self, trace: Trace, config: LlmConfig) -> dict[str, Any]:
        """Describe every criterion with its votes, and what judging cost."""
        replies = [reply for _, decision in self._pairs for vote in decision.votes for reply in vote.replies]
        judge = {**self._model, **({"model": config.model} if config.model else {})}
        evidence: dict[str, Any] = {
            "judge": {**judge, "prompt": f"{PROMPT} {prompt_digest()}"},
            "criteria": [self._described(*pair) for pair in self._pairs],
            "judging": judging_of(replies),
        }
        if self._model.get("provider") == SCRIPTED:
            evidence["judging"]["scripted"] = 1
        agents = {event.model for event in trace if event.model}
        if family := same_family((reply.model for reply in replies), agents):
            evidence["warnings"] = [f"judge and agent are both models of the family {family}"]
            evidence["judging"]["same_family"] = 1
        return evidence

    def _described(self, criterion: Criterion, decision: Decision) -> dict[str, Any]:
        described = criterion.model_dump(exclude_unset=True)
        described["advisory"] = self._is_advisory(criterion)
        return {
            **described,
            "digest": criterion_digest(self._model, criterion.criterion),
            "outcome": decision.outcome,
            "reason": clipped(decision.reason, _REASONING_LIMIT),
            "quotes": _quotes(decision, self._transcript),
            "agreement": decision.agreement,
            "votes": [_described_vote(vote) for vote in decision.votes],
        }


def _quotes(decision: Decision, transcript: Transcript) -> list[dict[str, Any]]:
    """List the passages of the deciding vote, each with the events that have it; none means not found."""
    ruling = next(
        (v.ruling for v in decision.votes if v.ruling and v.ruling.verdict == decision.outcome), None
    )
    if ruling is None:
        return []
    described = []
    for quote in ruling.evidence[:20]:
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
    for reply in replies:
        tokens.update(
            {name: int(number) for name, number in (reply.usage.to_json() if reply.usage else {}).items()}
        )
    costs = [reply.cost_usd for reply in replies]
    use: dict[str, Any] = {"usage": dict(tokens)} if tokens else {}
    if costs and None not in costs:
        use["cost_usd"] = round(sum(cost for cost in costs if cost is not None), 8)
    return use


def judging_of(replies: Sequence[ModelReply]) -> dict[str, Any]:
    """Sum up what judging took: calls and cost of what was asked, and what kept replies saved."""
    asked = [reply for reply in replies if reply.source == "model"]
    reused = [reply for reply in replies if reply.source != "model"]
    judging: dict[str, Any] = {"calls": len(asked), "reused": len(reused)}
    use = _use(asked)
    judging.update(use.get("usage", {}))
    if retries := sum(reply.retries for reply in asked):
        judging["retries"] = retries
    for name, sums in (("cost_usd", use), ("saved_usd", _use(reused))):
        if "cost_usd" in sums:
            judging[name] = sums["cost_usd"]
    return judging


def _score(pairs: Sequence[_Pair]) -> float | None:
    total = sum(criterion.weight for criterion, _ in pairs)
    passed = sum(criterion.weight for criterion, decision in pairs if decision.outcome == "passed")
    return passed / total if total else None


def _words(pairs: Sequence[_Pair]) -> str:
    return listed(
        (
            f"{clipped(criterion.criterion.rstrip(_CLOSING), 80)}: {clipped(decision.reason, 160)}"
            for criterion, decision in pairs
        ),
        limit=2,
    )


_FAMILIES = {
    "GPT": re.compile(r"(?:^|[/._-])(?:gpt|chatgpt|o[1-9])(?=[-_.\d]|$)"),
    "Claude": re.compile(r"claude|(?:^|[/.])(?:sonnet|opus|haiku)(?=$|[-\d])"),
    "Gemini": re.compile(r"gemini|gemma"),
    "Llama": re.compile(r"llama"),
    "Mistral": re.compile(r"mistral|mixtral|ministral|codestral|magistral"),
    "Qwen": re.compile(r"qwen|qwq"),
    "DeepSeek": re.compile(r"deepseek"),
    "Grok": re.compile(r"grok"),
    "Command": re.compile(r"command-[ar]|(?:^|/)cohere"),
}


def family_of(model: str) -> str | None:
    """Return the family of a model by its name; None if it is unknown.

    Example:
        >>> family_of("openai/gpt-5-mini-2026"), family_of("us.anthropic.claude-sonnet-4-5")
        ('GPT', 'Claude')
        >>> family_of("small") is None
        True
    """
    name = model.casefold()
    return next((family for family, pattern in _FAMILIES.items() if pattern.search(name)), None)


def same_family(judges: Iterable[str | None], agents: Iterable[str]) -> str | None:
    """Return a family that a judge and an agent have in common; None if there is none."""
    ours = {family_of(model) for model in judges if model}
    theirs = {family_of(model) for model in agents}
    return min((family for family in ours & theirs if family is not None), default=None)
