"""The registry's two files and how they change together.

`registry.json` is the current state. `registry.store.jsonl` beside it has one line a change, each with the
hash of the line before. A change is appended to the log first and takes effect when the state is replaced;
the state says how many bytes of the log count, so a writer that was killed in between leaves nothing
behind that counts. One writer at a time holds `registry.lock`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import digest
from agent_eval.contracts.registry import AuditEntry, Registry
from agent_eval.errors import AgentEvalError, InvalidInput, UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes, sha256_file
from agent_eval.storage.journal import append_at, exclusive
from agent_eval.storage.json import dumps, parse

DEFAULT_PATH = Path(".agent_eval") / "registry.json"
MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class RegistryStore:
    """A registry on disk.

    Args:
        path: Of `registry.json`; a file that is not there is an empty registry.
    """

    path: Path = DEFAULT_PATH

    @property
    def log_path(self) -> Path:
        """The audit log."""
        return self.path.with_name(f"{self.path.stem}.audit.jsonl")

    @property
    def lock_path(self) -> Path:
        """The lock that writers hold."""
        return self.path.with_name(f"{self.path.stem}.lock")

    def read(self) -> Registry:
        """The current state.

        Raises:
            InvalidInput: The file is not a registry.
        """
        if not self.path.exists():
            return Registry()
        return parse_registry(read_bytes(self.path, max_bytes=MAX_BYTES), str(self.path))

    def change(self, edit: Callable[[Registry], tuple[str, Mapping[str, Any]]], *, at: str) -> Registry:
        """Apply a change and log it; both or neither.

        Args:
            edit: Changes the registry it is given and returns the action's name and its details.
            at: ISO 8601 time of the change.

        Returns:
            The new state.

        Raises:
            InvalidInput: The registry or its log is broken; whatever `edit` raises.
            StorageError: It could not be written; the old state stands.
        """
        with exclusive(self.lock_path):
            registry = self.read()
            action, details = edit(registry)
            entry = next_entry(registry, action, details, at=at)
            line = dumps(entry.to_json()) + b"\n"
            self._check_tail(registry)
            append_at(self.log_path, line, position=registry.audit_bytes)
            registry.audit_head = entry.hash
            registry.audit_length += 1
            registry.audit_bytes += len(line)
            write_file(self.path, dumps(registry.to_json(), indent=True))
            return registry

    def log(self) -> list[AuditEntry]:
        """Every change that took effect, oldest first, unverified.

        Raises:
            InvalidInput: The log is missing, cut or unreadable.
        """
        registry = self.read()
        return read_log(self._committed_log(registry), str(self.log_path))

    def _committed_log(self, registry: Registry) -> bytes:
        if not registry.audit_bytes:
            return b""
        data = read_bytes(self.log_path, max_bytes=MAX_BYTES)
        if len(data) < registry.audit_bytes:
            raise self._broken_log(f"has {len(data)} bytes, the registry counts {registry.audit_bytes}")
        return data[: registry.audit_bytes]

    def _check_tail(self, registry: Registry) -> None:
        """The last line that counts must be the one the registry names, else a merge went wrong."""
        if not registry.audit_bytes:
            return
        try:
            size = self.log_path.stat().st_size
        except OSError:
            raise self._broken_log("is not there") from None
        if size < registry.audit_bytes:
            raise self._broken_log(f"has {size} bytes, the registry counts {registry.audit_bytes}")
        if not _last_line(self.log_path, registry.audit_bytes).endswith(b"\n"):
            raise self._broken_log("does not end where the registry says")
        entries = read_log(_last_line(self.log_path, registry.audit_bytes), str(self.log_path))
        if not entries or entries[-1].hash != registry.audit_head:
            raise self._broken_log("does not end with the change the registry names")

    def _broken_log(self, problem: str) -> InvalidInput:
        return InvalidInput(
            f"the audit log {self.log_path} {problem}",
            remedy="Restore registry and log together from version control; `registry verify` tells more.",
            file=str(self.log_path),
        )


def parse_registry(data: bytes, source: str) -> Registry:
    """A registry from the bytes of its file.

    Raises:
        InvalidInput: It is not a registry.
    """
    value = parse(data, source=source)
    try:
        return Registry.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "the whole file"
        raise InvalidInput(
            f"{source} is not a registry: {place}: {first['msg']}",
            remedy="Restore it from version control, or name another with --registry-path.",
            file=source,
            field=place,
        ) from None


def next_entry(registry: Registry, action: str, details: Mapping[str, Any], *, at: str) -> AuditEntry:
    """The entry that follows the newest one."""
    body = {
        "sequence": registry.audit_length,
        "at": at,
        "action": action,
        "details": dict(details),
        "previous": registry.audit_head,
    }
    return AuditEntry.model_validate({**body, "hash": digest(body)})


def entry_hash(entry: AuditEntry) -> str:
    """The hash an entry must carry."""
    body = entry.to_json()
    del body["hash"]
    return digest(body)


def read_log(data: bytes, source: str) -> list[AuditEntry]:
    """Entries from the lines of a log.

    Raises:
        InvalidInput: A line is not an entry; names it.
    """
    entries = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            entries.append(AuditEntry.model_validate(parse(line, source=f"{source}:{number}")))
        except ValidationError as error:
            raise InvalidInput(
                f"{source}: line {number} is not an audit entry: {error.errors()[0]['msg']}",
                remedy="Restore registry and log together from version control.",
                file=source,
                line=number,
            ) from None
    return entries


def _last_line(path: Path, end: int) -> bytes:
    """The last line before byte `end`, read from the back."""
    block = 4096
    with path.open("rb") as file:
        while True:
            start = max(0, end - block)
            file.seek(start, os.SEEK_SET)
            data = file.read(end - start)
            cut = data[:-1].rfind(b"\n")
            if cut >= 0:
                return data[cut + 1 :]
            if start == 0:
                return data
            block *= 4


@dataclass(frozen=True)
class RegistryCheck:
    """What `registry verify` found. `problems` is empty when everything holds."""

    changes: int
    baselines: int
    datasets: int
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def audit_log(store: RegistryStore, *, limit: int = 100) -> list[AuditEntry]:
    """The newest changes, newest first.

    Raises:
        InvalidInput: The log is missing, cut or unreadable.
    """
    return list(reversed(store.log()))[: max(0, limit)]


def verify_registry(store: RegistryStore) -> RegistryCheck:
    """Check the log's chain of hashes, and that what is pinned is still what it was.

    The chain shows an entry that was changed, taken out or put in; it cannot show that the whole log was
    written anew, which version control does.

    Raises:
        InvalidInput: The registry itself cannot be read.
    """
    registry = store.read()
    problems: list[str] = []
    changes = 0
    try:
        entries = store.log()
        changes = len(entries)
        problems += _chain_problems(entries, registry.audit_head, registry.audit_length)
    except AgentEvalError as error:
        problems.append(error.message)
    for entry in registry.baselines.values():
        problems += _baseline_problems(store, entry.name, entry.run_path, entry.manifest_sha256)
    for dataset in registry.datasets.values():
        problems += _dataset_problems(store, dataset.dataset_id, dataset.suite_path, dataset.sha256)
    return RegistryCheck(
        changes=changes,
        baselines=len(registry.baselines),
        datasets=len(registry.datasets),
        problems=problems,
    )


def _chain_problems(entries: list[AuditEntry], head: str, length: int) -> list[str]:
    previous = ""
    for number, entry in enumerate(entries):
        if entry.sequence != number or entry.previous != previous or entry.hash != entry_hash(entry):
            return [f"audit entry {number} ({entry.action}) was changed, or entries around it are missing"]
        previous = entry.hash
    if (previous, len(entries)) != (head, length):
        return [f"the registry counts {length} changes and the audit log ends differently"]
    return []


def _baseline_problems(store: RegistryStore, name: str, run_path: str, pinned: str) -> list[str]:
    try:
        found = open_pack(find(run_path, store.path)).manifest_sha256
    except AgentEvalError as error:
        return [f"baseline {name!r}: {error.message}"]
    return [] if found == pinned else [f"baseline {name!r}: another pack lies at {run_path}"]


def _dataset_problems(store: RegistryStore, dataset_id: str, suite_path: str, pinned: str) -> list[str]:
    try:
        found, _ = sha256_file(find(suite_path, store.path))
    except AgentEvalError as error:
        return [f"data set {dataset_id!r}: {error.message}"]
    return [] if found == pinned else [f"data set {dataset_id!r}: {suite_path} has changed"]


def keep(path: Path, registry: Path) -> str:
    """How a path is written into the registry.

    Relative to the registry's directory, with `/`, when both lie below a common directory other than the
    root; absolute otherwise.
    """
    target = Path(os.path.abspath(path))
    home = Path(os.path.abspath(registry)).parent
    common = Path(os.path.commonpath([target, home]))
    if common == Path(common.anchor):
        return target.as_posix()
    return PurePosixPath(Path(os.path.relpath(target, home))).as_posix()


def find(kept: str, registry: Path) -> Path:
    """The path that the registry keeps, from where we are."""
    return Path(os.path.normpath(Path(os.path.abspath(registry)).parent / kept))


LIMIT = 1_000


def checked(text: str, field: str) -> str:
    """`text` without white space around it.

    Raises:
        UsageError: It is empty, too long, or has characters that cannot be printed.
    """
    stripped = text.strip()
    if not stripped or len(stripped) > LIMIT or not stripped.isprintable():
        raise UsageError(
            f"{field} must be 1 to {LIMIT} printable characters, not {stripped[:80]!r}",
            remedy=f"Give --{field.replace('_', '-')} a plain text of one line.",
            field=field,
        )
    return stripped
