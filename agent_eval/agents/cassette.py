"""Cassettes: recorded answers of live tools and kept replies of models, in one format of file.

    {"kind": "cassette", "schema_version": "1.2.0",
     "calls": [{"case_id": "refund-1", "tool": "lookup", "arguments": {"id": 1}, "response": {"total": 5}}],
     "replies": [{"key": "3f…", "fields": {"purpose": "judge", "model": "gpt-5-mini", …}, "text": "{…}",
                  "model": "gpt-5-mini-2026-08-07", "usage": {…}, "cost_usd": 0.002}]}

A file may have both; whoever writes one leaves the other as it is. `tool_cassette` and `model_cassette` are
the kinds of earlier versions, which had one each.

Calls are in the order of cases and calls. A row has `response` or `error`. A call that a case repeats has a
row for each repetition; the last row answers all further ones. A row without `case_id` answers every case
that has no row of its own for the call.

Replies are sorted by key. Only those that the caller could use are kept: no error, no refusal, no cut reply.
The key is a digest of the fields: what was asked of which model, never for which test, by which key or when.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import override

from agent_eval.agents.base import ToolAnswer, ToolFault, Tools
from agent_eval.agents.tools import call_key, canonical, unchanged
from agent_eval.contracts import SCHEMA_VERSION, TokenUsage, canonical_json
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput, UsageError
from agent_eval.models.base import RUNGS, Model, ModelFailure, ModelReply, ModelRequest, Rung
from agent_eval.models.retries import time_left
from agent_eval.storage.json import dumps, read_json, within_64_bits
from agent_eval.storage.redaction import Redactor

KIND = "cassette"
_EARLIER_KINDS = {"calls": "tool_cassette", "replies": "model_cassette"}

ToolMode = Literal["record", "replay", "update"]
ReplyMode = Literal["auto", "record", "replay"]
"""`auto` asks the model what is not kept, `record` asks it everything, `replay` asks it nothing."""

_ROW_KEYS = frozenset({"case_id", "tool", "arguments", "response", "error"})
_CALL_WORDS_LIMIT = 300

Key = tuple[str | None, str, str]
"""A call: case id (None for every case), tool, canonical arguments."""
Row = dict[str, Any]


def _read(value: Any, part: str, path: Path) -> list[Any]:
    """Return the rows of one part of a file; none where the file has only the other part."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    rows = value.get(part, [] if kind == KIND else None) if kind in (KIND, _EARLIER_KINDS[part]) else None
    if not isinstance(rows, list):
        raise _invalid(path, "kind", f'it is not an object with "kind": "{KIND}" and a list of {part}')
    return rows


def _to_bytes(part: str, rows: Sequence[Row], path: Path | None) -> bytes:
    """Return a file's new content: these rows, and the other part as it stands in the file by now."""
    other_part: dict[str, Any] = {}
    if path is not None and path.exists():
        value = read_json(path)
        other_part = {name: value[name] for name in _EARLIER_KINDS if name != part and name in value}
    return dumps({"kind": KIND, "schema_version": SCHEMA_VERSION, **other_part, part: rows}, indent=True)


def _refuse_overwriting(path: Path, remedy: str) -> None:
    if path.exists():
        raise UsageError(
            f"{path} exists already and would be overwritten",
            remedy=f"{remedy}, or record to another file.",
            file=str(path),
        )


def _invalid(path: Path, field: str, problem: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used as a cassette: {problem}",
        remedy="Record it again with --cassette-mode record.",
        file=str(path),
        field=field,
    )


LiveTools = Callable[[str, str, Any], ToolAnswer]
"""Really calls a tool for a case: given the case's id, the tool and the arguments."""


class Recording:
    """Recorded calls, with the answers to the repetitions of each call in order."""

    def __init__(self) -> None:
        self.by_call: dict[Key, list[Row]] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Add the calls of one attempt. If later attempts repeat them, the first answers remain."""
        repetitions: Counter[Key] = Counter()
        for row in rows:
            key = _key(row)
            repetitions[key] += 1
            recorded = self.by_call.setdefault(key, [])
            if repetitions[key] > len(recorded):
                recorded.append(row)

    def rows(self) -> list[Row]:
        """Return all rows, the repetitions of a call one after the other."""
        return [row for rows in self.by_call.values() for row in rows]


class Cassette:
    """The recorded answers of a run's tools, shared by all its threads.

    New answers of live tools are recorded only if the caller passes them from `CassetteTools.recorded` to
    `keep`, so a trial that is interrupted records nothing.

    Args:
        mode: `replay` answers from the file only, and fails attempts that make other calls. `record` calls
            live tools. `update` does the same, and keeps rows of the file whose calls did not happen again.
        live: The live tools; not needed for `replay`.
        redacted: Replaces secrets in arguments, as they were replaced when the file was written.
    """

    def __init__(
        self,
        mode: ToolMode,
        rows: Iterable[Row] = (),
        *,
        live: LiveTools | None = None,
        path: Path | None = None,
        redacted: Callable[[Any], Any] = unchanged,
    ) -> None:
        self.mode, self._live, self._path, self._redacted = mode, live, path, redacted
        self._lock = threading.Lock()
        self._rows_of_file: dict[Key, list[Row]] = {}
        self._new_recording = Recording()
        for row in rows:
            self._rows_of_file.setdefault(_key(row), []).append(row)

    def attempt(self, case_id: str) -> CassetteTools:
        """Return the tools of one attempt; each call starts with its first answer."""
        return CassetteTools(self, case_id)

    def answer(self, case_id: str, tool: str, arguments: Any, repetition: int) -> ToolAnswer:
        """Answer a call that was made `repetition` times before in the same attempt.

        Raises:
            ToolFault: The call is not recorded, or the live tool cannot be called.
        """
        if self.mode != "replay":
            assert self._live is not None
            return self._live(case_id, tool, arguments)
        for form in (arguments, self._redacted(arguments)):
            call = call_key(tool, form)
            rows = self._rows_of_file.get((case_id, *call)) or self._rows_of_file.get((None, *call))
            if rows:
                row = rows[min(repetition, len(rows) - 1)]
                return ToolAnswer(row.get("response"), row.get("error"), "cassette")
        wanted = _call_words(tool, canonical(self._redacted(arguments)))
        calls = [_call_words(*call) for _, *call in self._rows_of_file if call[0] == tool]
        nearest = get_close_matches(wanted, calls, n=1, cutoff=0.0)
        hint = f"; the nearest recorded call is {nearest[0]}" if nearest else ""
        name = f"cassette {self._path.name}" if self._path is not None else "cassette"
        problem = f"called {wanted}, to which the {name} has no answer{hint}"
        raise ToolFault(FailureKind.CONTRACT_VIOLATION, problem)

    def keep(self, rows: Iterable[Row]) -> None:
        """Record the answers of live tools in a finished trial. Any thread may call this."""
        with self._lock:
            self._new_recording.add(rows)

    def to_bytes(self) -> bytes:
        """Return the file's content, which does not depend on the order in which threads made the calls."""
        rows = {**(self._rows_of_file if self.mode == "update" else {}), **self._new_recording.by_call}
        ordered = sorted(rows, key=lambda key: (key[0] is None, key[0] or "", key[1], key[2]))
        return _to_bytes("calls", [row for key in ordered for row in rows[key]], self._path)


class CassetteTools(Tools):
    """The tools of one attempt, answered through a cassette; counts repetitions of calls."""

    def __init__(self, cassette: Cassette, case_id: str) -> None:
        self._cassette, self._case_id = cassette, case_id
        self._repetitions: Counter[tuple[str, str]] = Counter()
        self._rows: list[Row] = []

    @override
    def answer(self, tool: str, arguments: Any) -> ToolAnswer:
        key = call_key(tool, arguments)
        repetition = self._repetitions[key]
        self._repetitions[key] += 1
        answer = self._cassette.answer(self._case_id, tool, arguments, repetition)
        if self._cassette.mode != "replay":
            result = {"response": answer.output} if answer.error is None else {"error": answer.error}
            row = {"case_id": self._case_id, "tool": tool, "arguments": arguments, **result}
            self._rows.append(within_64_bits(row))
        return answer

    @override
    def recorded(self) -> Sequence[Row]:
        return self._rows


def open_cassette(
    path: Path, mode: ToolMode, live: LiveTools | None = None, *, redacted: Callable[[Any], Any] = unchanged
) -> Cassette:
    """Open the tools' part of a file, or a new one that is to be written there.

    Raises:
        UsageError: `record` over a file, or no live tools to record from.
        InvalidInput: There is no file to replay, or it is not a cassette.
    """
    if mode != "replay" and live is None:
        raise UsageError(
            f"there are no live tools to {mode} {path} from",
            remedy="Name a tool server, as module:function or as an address.",
            file=str(path),
        )
    if mode == "record":
        _refuse_overwriting(path, "Refresh it with --cassette-mode auto")
    has_rows = mode == "replay" or path.exists()
    rows = read_cassette(read_json(path), path) if has_rows else []
    return Cassette(mode, rows, live=live, path=path, redacted=redacted)


def read_cassette(value: Any, path: Path) -> list[Row]:
    """Validate a cassette's JSON and return the rows of its calls."""
    calls = _read(value, "calls", path)
    for number, row in enumerate(calls):
        place = f"calls[{number}]"
        if not isinstance(row, dict) or not isinstance(row.get("tool"), str):
            raise _invalid(path, place, f"{place} names no tool")
        if unknown := sorted(set(row) - _ROW_KEYS):
            raise _invalid(path, f"{place}.{unknown[0]}", f"{place} has the unknown field {unknown[0]!r}")
        if not isinstance(row.get("case_id"), str | None):
            raise _invalid(path, f"{place}.case_id", f"the case_id of {place} is not a string")
    return calls


def _key(row: Row) -> Key:
    return row.get("case_id"), *call_key(row["tool"], row.get("arguments"))


def _call_words(tool: str, arguments: str) -> str:
    text = f"{tool} with {arguments}"
    return text if len(text) <= _CALL_WORDS_LIMIT else text[: _CALL_WORDS_LIMIT - 1] + "…"


class KeptReply(BaseModel):
    """A reply of a model, as a row of a cassette."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, protected_namespaces=())

    key: str
    fields: dict[str, str | int]
    text: str
    model: str | None = None
    usage: dict[str, int | float] | None = None
    cost_usd: float | None = None
    rung: Rung | None = None
    dropped: list[str] = []
    date: str | None = None  # of files of earlier versions

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
    schema = request.reply_schema
    return {
        "purpose": request.purpose,
        "provider": str(described.get("provider", "")),
        "host": str(described.get("host", "")),
        "model": request.model or str(described.get("model", "")),
        "prompt": _digest(request.system),
        "reply_schema": "" if schema is None else _digest(_canonical(dict(schema))),
        "rung": rung or "",
        "parameters": canonical_json(dict(request.parameters)).decode(),
        "max_tokens": request.max_tokens,
        **request.key_fields,
        "messages": _digest(_canonical(messages)),
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


def _canonical(value: Any) -> str:
    return canonical_json(value).decode("utf-8", "backslashreplace")


class ReplyStore:
    """Kept replies by key: those of a file, those of sealed evidence, and new ones. Any thread may use it.

    `has_changed` tells whether there are replies that the file does not have. Without a `path` none is kept
    beyond this object.

    Raises:
        UsageError: `replay` without a file, or `record` over one.
        InvalidInput: The file is no cassette.
    """

    def __init__(self, path: Path | None = None, mode: ReplyMode = "auto") -> None:
        self.path, self.mode = path, mode
        self._rows: dict[str, KeptReply] = {}
        self._evidence: dict[str, ModelReply] = {}
        self._lock = threading.Lock()
        self.has_changed = False
        if path is not None and mode == "replay" and not path.exists():
            raise UsageError(
                f"{path} does not exist, so no reply can be replayed from it",
                remedy="Record it first, with --cassette-mode record or auto.",
                file=str(path),
            )
        if path is not None and mode == "record":
            _refuse_overwriting(path, "Add to it with --cassette-mode auto")
        if path is not None and path.exists():
            for number, row in enumerate(_read(read_json(path), "replies", path)):
                place = f"replies[{number}]"
                try:
                    reply = KeptReply.model_validate(row)
                except ValidationError as error:
                    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
                    place = ".".join([place, *map(str, first["loc"])])
                    raise _invalid(path, place, f"{place}: {first['msg'][:200]}") from None
                if reply.key != key_of(reply.fields):
                    raise _invalid(path, f"{place}.key", f"the key of {place} is not that of its fields")
                self._rows[reply.key] = reply

    def add_evidence(
        self, replies: Iterable[tuple[str, ModelReply]], source: Literal["cassette", "baseline"] = "baseline"
    ) -> None:
        """Add replies of evidence, by key; a file's replies have precedence."""
        with self._lock:
            for key, reply in replies:
                self._evidence.setdefault(key, replace(reply, source=source, retries=0))

    def find(self, key: str) -> ModelReply | None:
        """Return the kept reply to a request; None if there is none, or if everything is asked again."""
        if self.mode == "record":
            return None
        row = self._rows.get(key)
        return row.reply() if row is not None else self._evidence.get(key)

    def keep(self, row: KeptReply) -> None:
        """Keep a reply for the file."""
        with self._lock:
            self._rows[row.key] = row
            self.has_changed = True

    def to_bytes(self, redactor: Redactor | None = None) -> bytes:
        """Return the file's content, which does not depend on the order in which threads asked.

        A reply that holds a secret is left out, since its key would not fit.
        """
        rows = [row.model_dump(exclude_none=True) for _, row in sorted(self._rows.items())]
        rows = [row for row in rows if redactor is None or not redactor.finds(dumps(row))]
        return _to_bytes("replies", rows, self.path)


class KeptModel(Model):
    """A model whose replies are kept: what was asked before is not asked again, and costs nothing.

    Args:
        described: What the model says of itself; known before it is opened.
        open_model: Opens the model for what is not kept; None where nothing may be asked.
    """

    kind = "kept"

    def __init__(
        self, described: Mapping[str, Any], store: ReplyStore, open_model: Callable[[], Model] | None
    ) -> None:
        self._described, self._store, self._open = dict(described), store, open_model
        self.model = str(described.get("model", ""))
        self._asking: dict[str, threading.Lock] = {}

    @override
    def describe(self) -> dict[str, Any]:
        return dict(self._described)

    @override
    def key_of(self, request: ModelRequest) -> str:
        first = None if request.reply_schema is None else RUNGS[0]
        return key_of(key_fields(request, self._described, first))

    @override
    @contextmanager
    def alone(self, request: ModelRequest) -> Iterator[None]:
        lock = self._asking.setdefault(self.key_of(request), threading.Lock())
        rest = time_left()
        has_lock = lock.acquire(timeout=-1 if rest is None else rest)
        try:
            yield
        finally:
            if has_lock:
                lock.release()

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        fields = key_fields(request, self._described, None)
        for rung in ("",) if request.reply_schema is None else RUNGS:
            reply = self._store.find(key_of({**fields, "rung": rung}))
            if reply is not None:
                return reply
        if self._open is None or self._store.mode == "replay":
            where = self._store.path or "the evidence"
            raise ModelFailure(
                FailureKind.CONTRACT_VIOLATION,
                f"was not asked, since only kept replies may be used, and {where} has none to this request",
                remedy="Record the replies again, with --cassette-mode auto.",
            )
        try:
            model = self._open()
        except AgentEvalError as error:
            problem = f"cannot be asked: {error.message}"
            raise ModelFailure(
                FailureKind.INFRASTRUCTURE, problem, remedy=error.remedy, is_final=True
            ) from None
        return model.complete(request)

    @override
    def keep(self, request: ModelRequest, reply: ModelReply) -> None:
        if reply.source != "model":
            return
        # A model without rungs, such as a scripted one, has the first.
        fields = key_fields(request, self._described, None)
        fields["rung"] = "" if request.reply_schema is None else reply.rung or RUNGS[0]
        self._store.keep(
            KeptReply(
                key=key_of(fields),
                fields=fields,
                text=reply.text,
                model=reply.model,
                usage=reply.usage.to_json() if reply.usage is not None else None,
                cost_usd=reply.cost_usd,
                rung=reply.rung,
                dropped=list(reply.dropped),
            )
        )
