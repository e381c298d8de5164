"""Judges that ask a model, and the model that the operator of a run gives them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from typing_extensions import override

from agent_eval.errors import UsageError

if TYPE_CHECKING:
    from agent_eval.judges.base import Judge
    from agent_eval.models.base import Model


class JudgeModel(Protocol):
    """The model of a run. Provider, address and key are the operator's; no suite and no pack names them."""

    @property
    def votes(self) -> int:
        """How many votes are taken on a criterion, where the judge's configuration says nothing."""
        ...

    def __call__(self) -> Model:
        """Open the model; the same one each time.

        Raises:
            UsageError: None is named, or it has no key.
        """
        ...

    def describe(self) -> dict[str, Any]:
        """Return what the evidence records of it, without opening it."""
        ...

    def earned(self) -> frozenset[str]:
        """Return the digests of advisory criteria about which people found exactly this judge to be right."""
        ...


@runtime_checkable
class AsksModel(Protocol):
    """A judge that asks a model, and that `connect` gives one. Its cases are judged in one process."""

    def connect(self, model: JudgeModel) -> None:
        """Give the judge its model."""
        ...


def ask_models(judges: Iterable[Judge]) -> bool:
    """Tell whether one of these judges asks a model, and so mostly waits."""
    return any(isinstance(judge, AsksModel) for judge in judges)


class NoModel(JudgeModel):
    """The model of a judge that was given none: asking it is an error."""

    votes = 1

    @override
    def __call__(self) -> Model:
        raise UsageError(
            "the llm judge has no model", remedy="Name its provider with --provider, and set LLM_API_KEY."
        )

    @override
    def describe(self) -> dict[str, Any]:
        return {}

    @override
    def earned(self) -> frozenset[str]:
        return frozenset()
