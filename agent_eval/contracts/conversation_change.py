"""What changed in a conversation from the baseline to the candidate, turn by turn: part of a comparison."""

from __future__ import annotations

from pydantic import Field, StrictInt, StrictStr

from agent_eval.contracts.base import Contract
from agent_eval.contracts.verdict import Outcome

__all__ = ["ConversationChange", "CriterionChange", "SpokenTurn", "TurnPair"]


class SpokenTurn(Contract):
    """What was said and done in one turn of one run, cut to a bounded size.

    `actions` are what the agent did or found out: tools, parameters, rules, integrations, errors.

    Example:
        >>> SpokenTurn(user="Hello", agent="Hi!").actions
        []
    """

    user: StrictStr = ""
    agent: StrictStr = ""
    actions: list[StrictStr] = Field(default_factory=list)


class TurnPair(Contract):
    """One turn in both runs; null in a run whose conversation ended before it.

    Example:
        >>> pair = TurnPair(number=1, baseline=SpokenTurn(agent="Hi!"), differs=True)
        >>> pair.candidate is None
        True
    """

    number: StrictInt
    baseline: SpokenTurn | None = None
    candidate: SpokenTurn | None = None
    differs: bool


class CriterionChange(Contract):
    """One criterion of a judge whose outcome changed, with the judge's reason in the candidate.

    `strict` is the kind of a strict evaluation, null for a criterion that a model judged. An outcome is null
    in a run that does not have the criterion.

    Example:
        >>> CriterionChange(judge_id="llm", criterion="It is polite.", candidate="failed").candidate.value
        'failed'
    """

    judge_id: StrictStr
    criterion: StrictStr
    strict: StrictStr | None = None
    baseline: Outcome | None = None
    candidate: Outcome | None = None
    reason: StrictStr = ""
    advisory: bool = False


class ConversationChange(Contract):
    """A conversation whose result changed: its turns in both runs, and the criteria whose outcome changed.

    The list of turns is bounded: the first that differs and those after it come before earlier ones.
    `baseline_turns` and `candidate_turns` count all.

    Example:
        >>> ConversationChange(case_id="refund", baseline_turns=3, candidate_turns=1).first_differing is None
        True
    """

    case_id: StrictStr
    baseline_turns: StrictInt
    candidate_turns: StrictInt
    baseline_end: StrictStr | None = None
    candidate_end: StrictStr | None = None
    turns: list[TurnPair] = Field(default_factory=list)
    criteria: list[CriterionChange] = Field(default_factory=list)

    @property
    def first_differing(self) -> TurnPair | None:
        """The first turn that differs; None if all are the same."""
        return next((turn for turn in self.turns if turn.differs), None)
