"""Models that judges are given in tests."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from agent_eval.judges.base import JudgeModel
from agent_eval.models.base import Model


class FixedModel(JudgeModel):
    """A model that is open already.

    Args:
        earned: Digests of advisory criteria that count.
    """

    votes = 1

    def __init__(self, model: Model, *, earned: frozenset[str] = frozenset()) -> None:
        self._model, self._earned = model, earned

    @override
    def __call__(self) -> Model:
        return self._model

    @override
    def describe(self) -> dict[str, Any]:
        return self._model.describe()

    @override
    def earned(self) -> frozenset[str]:
        return self._earned
