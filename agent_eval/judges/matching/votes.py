"""Ask a model about one criterion: its votes, one repair of a reply that is no ruling, and the majority."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_eval.errors import FailureKind
from agent_eval.judges.matching.criteria import Question
from agent_eval.judges.matching.rulings import NoRuling, Ruling, read_ruling
from agent_eval.models.base import Message, Model, ModelFailure, ModelReply, ModelRequest

_REPAIR = (
    "Your reply could not be used: it {problem}. Reply again to the same question, with one JSON object that"
    " has exactly the members reasoning, evidence and verdict, and with nothing before or after it."
)
_REPEATED = 8000
"""Characters of an unusable reply that its repair shows."""


@dataclass(frozen=True, slots=True)
class AskSettings:
    """How a model is asked.

    Attributes:
        votes: How many votes are taken, as `needed_votes` says.
        model: The model's name; None for the one that the model itself names.
    """

    votes: int = 1
    model: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = 4096


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote: a ruling, or why there is none, with every reply that it took.

    Attributes:
        replies: The replies, a repair's included.
        failure: Kind of failure; None with a ruling.
        problem: The failure in words that follow "the judge's model".
        too_long: Whether the conversation has more text than the model reads.
    """

    ruling: Ruling | None
    replies: Sequence[ModelReply]
    key: str
    failure: FailureKind | None = None
    problem: str = ""
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """What the votes on one criterion come to.

    Attributes:
        outcome: `passed`, `failed`, `inconclusive` or `error`.
    """

    outcome: str
    votes: Sequence[Vote]
    reason: str
    failure: FailureKind | None = None

    @property
    def agreement(self) -> str:
        """How many votes gave the most frequent verdict, of how many."""
        counts = Counter(vote.ruling.verdict for vote in self.votes if vote.ruling is not None)
        return f"{max(counts.values(), default=0)} of {len(self.votes)}"


def needed_votes(votes: int) -> tuple[int, int]:
    """Return how many votes are taken first, and at most.

    As many as make a majority are asked first, and further ones only while none is reached: the same verdict
    as that of all, for fewer calls. Two votes are three of which the third is asked where they differ.

    Example:
        >>> needed_votes(1), needed_votes(2), needed_votes(3), needed_votes(5)
        ((1, 1), (2, 3), (2, 3), (3, 5))
    """
    most = votes if votes % 2 else votes + 1
    return most // 2 + 1, most


def decide(model: Model, question: Question, settings: AskSettings) -> Decision:
    """Ask a model about one criterion until a majority of votes is reached.

    Two answers are compared in both orders, since models prefer one place to the other: a verdict that
    depends on the order is none.
    """
    if question.criterion.compare:
        return _compare(model, question, settings)
    majority, most = needed_votes(settings.votes)
    votes: list[Vote] = []
    while len(votes) < most:
        votes.append(_vote(model, question, settings, len(votes) + 1))
        if votes[-1].ruling is None:
            return _undecided(votes)
        verdict, number = Counter(vote.ruling.verdict for vote in votes if vote.ruling).most_common(1)[0]
        if number >= majority:
            reasoning = next(v.ruling.reasoning for v in votes if v.ruling and v.ruling.verdict == verdict)
            return Decision(verdict, votes, reasoning)
    return Decision("inconclusive", votes, f"{len(votes)} votes of the judge have no majority")


def _compare(model: Model, question: Question, settings: AskSettings) -> Decision:
    if question.reference is None or question.answer is None:
        missing = "no expected_output" if question.reference is None else "no answer of the agent"
        return Decision("inconclusive", (), f"there is {missing} to compare")
    votes: list[Vote] = []
    for swapped in (False, True):
        votes.append(_vote(model, question, settings, 1, swapped=swapped))
        if votes[-1].ruling is None:
            return _undecided(votes)
    first, second = (vote.ruling for vote in votes)
    assert first is not None
    assert second is not None
    if first.verdict == second.verdict:
        return Decision(first.verdict, votes, first.reasoning)
    return Decision("inconclusive", votes, "the judge's verdict depends on the order of the two answers")


def _undecided(votes: list[Vote]) -> Decision:
    last = votes[-1]
    if last.too_long:
        words = "the conversation has more text than the judge's model reads"
        return Decision("inconclusive", votes, words)
    return Decision("error", votes, f"the judge's model {last.problem}", last.failure)


def _vote(
    model: Model, question: Question, settings: AskSettings, number: int, *, swapped: bool = False
) -> Vote:
    request = question.request(
        vote=number,
        model=settings.model,
        parameters=settings.parameters,
        max_tokens=settings.max_tokens,
        swapped=swapped,
    )
    key = model.key_of(request)
    replies: list[ModelReply] = []
    try:
        replies.append(model.complete(request))
        try:
            ruling = read_ruling(replies[0])
        except NoRuling as first:
            if not first.can_be_repaired:
                raise
            replies.append(model.complete(_repair(request, replies[0], first)))
            ruling = read_ruling(replies[1])
    except ModelFailure as failure:
        return Vote(None, replies, key, _kind(failure), failure.problem, failure.is_too_long)
    except NoRuling as problem:
        words = f"gave no ruling: its reply {problem.problem}"
        return Vote(None, replies, key, FailureKind.JUDGE_ERROR, words)
    if replies[0].source == "model":
        model.keep(request, replace(replies[-1], text=ruling.model_dump_json(), stop_reason=None))
    return Vote(ruling, replies, key)


def _kind(failure: ModelFailure) -> FailureKind:
    """A model that is down says nothing of the agent; a request that it refuses is the judge's own error."""
    down = failure.failure in (FailureKind.INFRASTRUCTURE, FailureKind.TIMEOUT)
    return FailureKind.INFRASTRUCTURE if down else FailureKind.JUDGE_ERROR


def _repair(request: ModelRequest, reply: ModelReply, problem: NoRuling) -> ModelRequest:
    messages = (
        *request.messages,
        Message("assistant", (reply.text[:_REPEATED],)),
        Message("user", (_REPAIR.format(problem=problem.problem),)),
    )
    return replace(request, messages=messages, place={**request.place, "attempt": 2})
