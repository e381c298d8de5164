"""Kept replies of models: answers to requests that were asked before, by everything that could change them.

A cassette of model calls is a JSON file with one row a reply, sorted by key:

    {"kind": "model_cassette", "schema_version": "1.2.0", "replies": [
      {"key": "3f…", "fields": {"purpose": "judge", "model": "gpt-5-mini", …}, "text": "{…}",
       "model": "gpt-5-mini-2026-08-07", "usage": {…}, "cost_usd": 0.002, "date": "2026-11-21"}]}

Only replies that the caller could use are kept: no error, no refusal, no cut reply. The key is a digest of
the fields: what was asked of which model, never for which test, by which key or when.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import override

from agent_eval.contracts import SCHEMA_VERSION, TokenUsage, canonical_json
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput, UsageError
from agent_eval.models.base import RUNGS, Model, ModelFailure, ModelOptions, ModelReply, ModelRequest, Rung
from agent_eval.storage.json import dumps, read_json
from agent_eval.storage.redaction import Redactor

KIND = "model_cassette"
Mode = Literal["auto", "record", "replay"]
"""`auto` asks the model what is not kept, `record` asks it everything, `replay` asks it nothing."""


ALIAS_LASTS = timedelta(days=30)
"""How long replies last of a model whose name is an alias, such as `gpt-5-mini`: it may change models."""


class KeptReply(BaseModel):
    """One row of a cassette."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())

    key: str
    fields: dict[str, str | int]
    text: str
    model: str | None = None
    usage: dict[str, int | float] | None = None
    cost_usd: float | None = None
    rung: Rung | None = None
    dropped: list[str] = []
    date: str | None = Field(default=None, pattern=r"^\d{4}-\d\d-\d\d$")

    def is_over(self, today: str | None) -> bool:
        """Tell whether the reply is too old: a name without version may mean another model by now."""
        is_alias = self.model is not None and self.model != self.fields.get("model")
        if not is_alias or self.date is None or today is None:
            return False
        try:
            return date.fromisoformat(today) - date.fromisoformat(self.date) > ALIAS_LASTS
        except ValueError:
            return True

    def reply(self) -> ModelReply:
        """Return the reply as it was, from the cassette."""
        return ModelReply(
            self.text,
            model=self.model,
            usage=TokenUsage(**self.usage) if self.usage else None,
            cost_usd=self.cost_usd,
            rung=self.rung,
            dropped=tuple(self.dropped),
            source="cassette",
        )


def key_fields(
    request: ModelRequest, described: Mapping[str, Any], rung: Rung | None
) -> dict[str, str | int]:
    """Name everything that could change a reply; long texts by their digests."""
    messages = [[message.role, list(message.parts)] for message in request.messages]
    return {
        "purpose": request.purpose,
        "provider": str(described.get("provider", "")),
        "host": str(described.get("host", "")),
        "model": request.model or str(described.get("model", "")),
        "prompt": _digest(request.system),
        "reply_schema": "" if request.reply_schema is None else _digest_of(dict(request.reply_schema)),
        "rung": rung or "",
        "parameters": canonical_json(dict(request.parameters)).decode(),
        "max_tokens": request.max_tokens,
        **request.key_fields,
        "messages": _digest_of(messages),
    }


def key_of(fields: Mapping[str, str | int]) -> str:
    """Compute the key of named fields: their digest, with the length of each name and value before it."""
    parts = []
    for name, value in sorted(fields.items()):
        for text in (name, f"{type(value).__name__}:{value}"):
            data = text.encode("utf-8", "backslashreplace")
            parts.append(b"%d:%s" % (len(data), data))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _digest_of(value: Any) -> str:
    return _digest(canonical_json(value).decode("utf-8", "backslashreplace"))


class ReplyStore:
    """Kept replies by key: those of a file, those of sealed evidence, and new ones. Any thread may use it.

    `has_changed` tells whether there are replies that the file does not have. Without a `path` none is kept
    beyond this object.

    Raises:
        UsageError: `replay` without a file, or `record` over one.
        InvalidInput: The file is no cassette of model calls.
    """

    def __init__(self, path: Path | None = None, mode: Mode = "auto") -> None:
        self.path, self.mode = path, mode
        self._rows: dict[str, KeptReply] = {}
        self._evidence: dict[str, ModelReply] = {}
        self._lock = threading.Lock()
        self.has_changed = False
        if path is not None:
            self._rows = _read(path, mode)

    def add_evidence(self, replies: Iterable[tuple[str, ModelReply]]) -> None:
        """Add replies of sealed evidence, by key; a file's replies have precedence."""
        with self._lock:
            for key, reply in replies:
                self._evidence.setdefault(key, replace(reply, source="baseline", retries=0))

    def find(self, key: str, today: str | None = None) -> ModelReply | None:
        """Return the kept reply to a request; None if there is none, or if everything is asked again.

        Replies of an alias may be too old for `today`; `replay` takes them all the same.
        """
        if self.mode == "record":
            return None
        row = self._rows.get(key)
        if row is not None and (self.mode == "replay" or not row.is_over(today)):
            return row.reply()
        return self._evidence.get(key)

    def keep(self, row: KeptReply) -> None:
        """Keep a reply for the file."""
        with self._lock:
            self._rows[row.key] = row
            self.has_changed = True

    def nearest(self, fields: Mapping[str, str | int]) -> list[str] | None:
        """Return the names of the fields in which the most similar kept request differs; None without one."""
        differing = [
            [name for name in {**fields, **row.fields} if fields.get(name) != row.fields.get(name)]
            for row in self._rows.values()
            if row.fields.get("purpose") == fields.get("purpose")
        ]
        return min(differing, key=len, default=None)

    def to_bytes(self, redactor: Redactor | None = None) -> bytes:
        """Return the file's content, which does not depend on the order in which threads asked.

        A reply that holds a secret is left out, since its key would not fit.
        """
        rows = [row.model_dump(exclude_none=True) for _, row in sorted(self._rows.items())]
        rows = [row for row in rows if redactor is None or not redactor.finds(dumps(row))]
        return dumps({"kind": KIND, "schema_version": SCHEMA_VERSION, "replies": rows}, indent=True)

    @property
    def has_replies(self) -> bool:
        """Whether there is any reply that may be found."""
        return self.mode != "record" and bool(self._rows or self._evidence)


def _read(path: Path, mode: Mode) -> dict[str, KeptReply]:
    if not path.exists():
        if mode == "replay":
            raise UsageError(
                f"{path} does not exist, so no reply can be replayed from it",
                remedy="Record it first, with --llm-cassette-mode record or auto.",
                file=str(path),
            )
        return {}
    if mode == "record":
        raise UsageError(
            f"{path} exists already and would be overwritten",
            remedy="Add to it with --llm-cassette-mode auto, or record to another file.",
            file=str(path),
        )
    value = read_json(path)
    rows = value.get("replies") if isinstance(value, Mapping) and value.get("kind") == KIND else None
    if not isinstance(rows, list):
        raise _no_cassette(path, "kind", f'it is not an object with "kind": "{KIND}" and a list of replies')
    by_key: dict[str, KeptReply] = {}
    for number, row in enumerate(rows):
        place = f"replies[{number}]"
        try:
            reply = KeptReply.model_validate(row)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            place = ".".join([place, *map(str, first["loc"])])
            raise _no_cassette(path, place, f"{place}: {first['msg'][:200]}") from None
        if reply.key != key_of(reply.fields):
            raise _no_cassette(path, f"{place}.key", f"the key of {place} is not that of its fields")
        by_key[reply.key] = reply
    return by_key


def _no_cassette(path: Path, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used as a cassette of model calls: {problem}",
        remedy="Record it again with --llm-cassette-mode record.",
        file=str(path),
        field=field,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request with its key at one rung."""

    rung: Rung | None
    fields: dict[str, str | int]
    key: str


class KeptModel(Model):
    """A model whose replies are kept: what was asked before is not asked again, and costs nothing.

    Args:
        described: What the model says of itself; known before it is opened.
        open_model: Opens the model for what is not kept; None where nothing may be asked.
        reused: Called with the purpose and the reply where one is reused.
    """

    kind = "kept"

    def __init__(
        self,
        described: Mapping[str, Any],
        store: ReplyStore,
        open_model: Callable[[], Model] | None,
        *,
        date: str | None = None,
        reused: Callable[[str, ModelReply], object] = lambda *_: None,
    ) -> None:
        self._described, self._store, self._open, self._date = dict(described), store, open_model, date
        self._reused = reused
        self._last = threading.local()
        self.model = str(described.get("model", ""))

    @classmethod
    @override
    def from_options(cls, options: ModelOptions) -> KeptModel:
        raise NotImplementedError("it is made of a description and a store")

    @override
    def describe(self) -> dict[str, Any]:
        return dict(self._described)

    @override
    def key_of(self, request: ModelRequest) -> str:
        return self._asked(request, None if request.reply_schema is None else RUNGS[0]).key

    def _asked(self, request: ModelRequest, rung: Rung | None) -> _Asked:
        fields = {**self._fields_of(request), "rung": rung or ""}
        return _Asked(rung, fields, key_of(fields))

    def _fields_of(self, request: ModelRequest) -> dict[str, str | int]:
        """Name the fields of a key but the rung, once for all steps of a request: long texts are digested."""
        last: tuple[ModelRequest, dict[str, str | int]] | None = getattr(self._last, "request", None)
        if last is not None and last[0] is request:
            return last[1]
        fields = key_fields(request, self._described, None)
        self._last.request = request, fields
        return fields

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        rungs: tuple[Rung | None, ...] = (None,) if request.reply_schema is None else RUNGS
        for rung in rungs if self._store.has_replies else ():
            reply = self._store.find(self._asked(request, rung).key, self._date)
            if reply is not None:
                self._reused(request.purpose, reply)
                return reply
        if self._open is None or self._store.mode == "replay":
            raise self._missing(self._asked(request, rungs[0]))
        try:
            model = self._open()
        except AgentEvalError as error:
            raise ModelFailure(
                FailureKind.INFRASTRUCTURE,
                f"cannot be asked: {error.message}",
                remedy=error.remedy,
                is_final=True,
            ) from None
        return model.complete(request)

    def _missing(self, asked: _Asked) -> ModelFailure:
        nearest = self._store.nearest(asked.fields)
        names = [name for name in nearest or () if name != "messages"] or nearest
        hint = f"; the nearest kept one differs in {', '.join(names)}" if names else ""
        where = self._store.path or "the evidence"
        return ModelFailure(
            FailureKind.CONTRACT_VIOLATION,
            f"was not asked, since only kept replies may be used, and {where} has none to this request{hint}",
            remedy="Record the replies again, with --llm-cassette-mode auto.",
        )

    @override
    def keep(self, request: ModelRequest, reply: ModelReply) -> None:
        if reply.source != "model":
            return
        # A model without rungs, such as a scripted one, has the first.
        rung = None if request.reply_schema is None else reply.rung or RUNGS[0]
        asked = self._asked(request, rung)
        usage = reply.usage.to_json() if reply.usage is not None else None
        self._store.keep(
            KeptReply(
                key=asked.key,
                fields=asked.fields,
                text=reply.text,
                model=reply.model,
                usage=usage,
                cost_usd=reply.cost_usd,
                rung=reply.rung,
                dropped=list(reply.dropped),
                date=self._date,
            )
        )
