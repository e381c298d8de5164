"""The model that judges criteria in words and plays the users of conversations: opened, kept, counted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from agent_eval.config.spec import LlmSpec

if TYPE_CHECKING:
    from agent_eval.agents.cassette import ReplyStore
    from agent_eval.engine.shard import JudgePlan
    from agent_eval.evidence.reader import Pack
    from agent_eval.models.base import Model, ModelReply
    from agent_eval.storage.redaction import Redactor

KEY_VARIABLE = "LLM_API_KEY"
"""Environment variable of the key where no option has it."""

MODEL_JUDGE = "llm"
"""The judge whose rulings are kept."""


def llm_key(spec: LlmSpec, environ: Mapping[str, str]) -> str | None:
    """Return the model's key: that of the option, of `LLM_API_KEY`, or of the provider's own variable."""
    from agent_eval.models.catalog import MODELS

    kind = MODELS.get(spec.provider)
    variables = (KEY_VARIABLE, kind.key_variable if kind is not None else None)
    values = (environ.get(name, "").strip() for name in variables if name is not None)
    return spec.key or next(filter(None, values), None)


class ModelAccess:
    """The model of a run: opened when it is first needed, asked with patience, its replies kept.

    Call it to get the model, the same one each time. It stays in this process, since it may have a key.

    Raises:
        InvalidInput: The record of agreement is malformed.
    """

    def __init__(self, spec: LlmSpec, environ: Mapping[str, str]) -> None:
        self.spec, self._environ = spec, environ
        self._only_kept = False
        self._earned: frozenset[str] = frozenset()
        if spec.agreement is not None:
            from agent_eval.operations.judge_agreement import earned_digests

            self._earned = earned_digests(spec.agreement)
        self._evidence: list[tuple[str, ModelReply]] = []
        self._described: Mapping[str, Any] | None = None
        self._client = cache(self._ask)

    @property
    def votes(self) -> int:
        """How many votes are taken on a criterion, where the judge's configuration says nothing."""
        return self.spec.votes

    def describe(self) -> dict[str, Any]:
        """Return what the evidence records of the model, without opening it.

        Raises:
            UsageError: There is no such provider.
        """
        from agent_eval.models.catalog import described

        spec = self.spec
        stated = self._described or described(spec.provider, model=spec.model, base_url=spec.base_url)
        return dict(stated)

    def reuse(self, pack: Pack, *, only_kept: bool) -> None:
        """Use the rulings of a verified pack. Call it before the model is opened.

        The pack's author could write any ruling, so take those of trusted packs only. With `only_kept` no
        model is asked, and the pack's own is taken to have judged.
        """
        evidences = list(_evidence_in(pack.results()))
        self._evidence += _rulings(evidences)
        if only_kept:
            self._only_kept = True
            judges = (judge for each in evidences if isinstance(judge := each.get("judge"), Mapping))
            judge = next(judges, {})
            self._described = {name: value for name, value in judge.items() if name != "prompt"} or None

    def go_on(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Use what an earlier start of the run was told, which had these results, as if this start had."""
        self._store.add_evidence(_rulings(_evidence_in(results)), "cassette")

    def add_to_cassette(self) -> None:
        """Add to the cassette whatever its mode, since an earlier start of the run may have written it."""
        if self.spec.cassette_mode == "record":
            self.spec = replace(self.spec, cassette_mode="auto")

    def __call__(self) -> Model:
        """Return the model.

        Raises:
            UsageError: The provider is unknown, or a key or script is missing.
            InvalidInput: The script or the cassette is malformed.
        """
        return self._model

    @cached_property
    def _model(self) -> Model:
        from agent_eval.agents.cassette import KeptModel

        may_ask = not self._only_kept and self._store.mode != "replay"
        if may_ask and not self._evidence:
            self._client()  # a missing key is found before anything runs
        return KeptModel(self.describe(), self._store, self._client if may_ask else None)

    @cached_property
    def _store(self) -> ReplyStore:
        from agent_eval.agents.cassette import ReplyStore

        store = ReplyStore(self.spec.cassette, self.spec.cassette_mode)
        store.add_evidence(self._evidence)
        return store

    def _ask(self) -> Model:
        from agent_eval.models.base import ModelOptions
        from agent_eval.models.catalog import open_model
        from agent_eval.models.client import ModelClient
        from agent_eval.models.usage import read_prices

        spec = self.spec
        options = ModelOptions(
            model=spec.model,
            base_url=spec.base_url,
            api_key=llm_key(spec, self._environ),
            environ=self._environ,
            script=spec.script,
            prices=read_prices(spec.prices),
        )
        return ModelClient(open_model(spec.provider, options))

    def earned(self) -> frozenset[str]:
        """Return the digests of the advisory criteria that count, by the record of agreement."""
        return self._earned

    def write_cassette(self, redactor: Redactor) -> None:
        """Write new replies into the cassette's file, if there is one."""
        if self.spec.cassette is None or not self._store.has_changed:
            return
        from agent_eval.storage.atomic import write_file

        write_file(self.spec.cassette, self._store.to_bytes(redactor))


def reuse_rulings(plan: JudgePlan, pack: Pack | None, *, only_kept: bool = False) -> None:
    """Let the judges of a plan reuse the rulings of a pack, as `ModelAccess.reuse` does."""
    if pack is not None and isinstance(plan.model, ModelAccess) and MODEL_JUDGE in plan.names:
        plan.model.reuse(pack, only_kept=only_kept)


@contextmanager
def kept_replies(plan: JudgePlan, redactor: Redactor) -> Iterator[None]:
    """Write the cassette of a model at the end, also where a run ends early: its calls were paid for."""
    try:
        yield
    finally:
        if isinstance(plan.model, ModelAccess):
            plan.model.write_cassette(redactor)


def _rulings(evidences: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ModelReply]]:
    """Yield rulings by the key of the request that each answered."""
    for evidence in evidences:
        for criterion in _objects(evidence.get("criteria")):
            for vote in _objects(criterion.get("votes")):
                key, ruling = vote.get("key"), vote.get("ruling")
                if isinstance(key, str) and key and isinstance(ruling, Mapping):
                    yield key, _reply(ruling, vote)


def _evidence_in(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for row in rows:
        for trial in row.get("trials") or [row]:
            for verdict in trial["verdicts"]:
                if verdict["judge_id"] == MODEL_JUDGE and isinstance(verdict["evidence"], Mapping):
                    yield verdict["evidence"]


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _reply(ruling: Mapping[str, Any], vote: Mapping[str, Any]) -> ModelReply:
    from agent_eval.contracts import TokenUsage
    from agent_eval.models.base import RUNGS, ModelReply

    usage, cost, model, rung = (vote.get(name) for name in ("usage", "cost_usd", "model", "rung"))
    return ModelReply(
        json.dumps(dict(ruling), ensure_ascii=False),
        model=model if isinstance(model, str) else None,
        usage=TokenUsage.model_validate(usage) if isinstance(usage, Mapping) else None,
        cost_usd=cost if isinstance(cost, int | float) else None,
        rung=next((known for known in RUNGS if known == rung), None),
    )
