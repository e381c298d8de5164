"""The two files of a registry, and how they change together.

`registry.json` is the current state. `registry.audit.jsonl` beside it has one line for each change, with the
hash of the line before. The store appends a change to the log first; it takes effect when the state is
replaced. The state records how many bytes of the log count, so the line of a writer that was killed in
between has no effect. One writer at a time holds `registry.lock`.
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
from agent_eval.storage.json import dumps, parse
from agent_eval.storage.shared_log import append_at, exclusive

DEFAULT_PATH = Path(".agent_eval") / "registry.json"
MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class RegistryStore:
    """Registry on disk. Use it to read and change baselines, datasets, approvals and waivers.

    Args:
        path: Path of `registry.json`; where there is no file, the registry is empty.
    """

    path: Path = DEFAULT_PATH

    @property
    def log_path(self) -> Path:
        """Path of the audit log."""
        return self.path.with_name(f"{self.path.stem}.audit.jsonl")

    @property
    def lock_path(self) -> Path:
        """Path of the lock that a writer holds."""
        return self.path.with_name(f"{self.path.stem}.lock")

    def read(self) -> Registry:
        """Read the current state.

        Raises:
            InvalidInput: The file is not a registry.
        """
        if not self.path.exists():
            return Registry()
        return parse_registry(read_bytes(self.path, max_bytes=MAX_BYTES), str(self.path))

    def change(self, edit: Callable[[Registry], tuple[str, Mapping[str, Any]]], *, at: str) -> Registry:
        """Apply a change and log it; both or neither.

        Args:
            edit: Function that changes the registry, and returns the name of the action and its details.
            at: ISO 8601 time of the change.

        Returns:
            The new state.

        Raises:
            InvalidInput: The registry or its log is broken. Errors of `edit` pass through.
            StorageError: The files could not be written; the old state is still in effect.
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
        """List every change that took effect, oldest first, without verifying their hashes.

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
        """Check that the last line that counts is the one the registry names; a bad merge mixes them."""
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
            remedy="Restore registry and log from version control; `registry verify` lists the problems.",
            file=str(self.log_path),
        )


def parse_registry(data: bytes, source: str) -> Registry:
    """Parse a registry from the bytes of its file.

    Args:
        data: Content of the file.
        source: Name of the file for error messages.

    Raises:
        InvalidInput: The content is not a registry.
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
    """Build the audit entry that follows the newest one."""
    body = {
        "sequence": registry.audit_length,
        "at": at,
        "action": action,
        "details": dict(details),
        "previous": registry.audit_head,
    }
    return AuditEntry.model_validate({**body, "hash": digest(body)})


def entry_hash(entry: AuditEntry) -> str:
    """Compute the hash that an entry must have."""
    body = entry.to_json()
    del body["hash"]
    return digest(body)


def read_log(data: bytes, source: str) -> list[AuditEntry]:
    """Parse the lines of a log into entries.

    Raises:
        InvalidInput: A line is not an entry; the error names the line.
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
    """Read the last line before byte `end`, backwards from there."""
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
    """Result of `verify_registry`: the numbers of what was checked, and the problems, if any."""

    changes: int
    baselines: int
    datasets: int
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def audit_log(store: RegistryStore, *, limit: int = 100) -> list[AuditEntry]:
    """List at most `limit` changes, newest first.

    Raises:
        InvalidInput: The log is missing, cut or unreadable.
    """
    return list(reversed(store.log()))[: max(0, limit)]


def verify_registry(store: RegistryStore) -> RegistryCheck:
    """Check the log's chain of hashes, and the digest of every pinned pack and suite.

    The chain reveals a changed, removed or inserted entry. It cannot reveal that the whole log was replaced;
    version control does.

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
        actual = open_pack(path_from_registry(run_path, store.path)).manifest_sha256
    except AgentEvalError as error:
        return [f"baseline {name!r}: {error.message}"]
    return [] if actual == pinned else [f"baseline {name!r}: another pack is at {run_path}"]


def _dataset_problems(store: RegistryStore, dataset_id: str, suite_path: str, pinned: str) -> list[str]:
    try:
        actual, _ = sha256_file(path_from_registry(suite_path, store.path))
    except AgentEvalError as error:
        return [f"data set {dataset_id!r}: {error.message}"]
    return [] if actual == pinned else [f"data set {dataset_id!r}: {suite_path} has changed"]


def path_for_registry(path: Path, registry: Path) -> str:
    """Convert a path to the form in which a registry stores it.

    The stored path is relative to the registry's directory, with `/`, where both are below a common directory
    other than the root; absolute otherwise.
    """
    target = Path(os.path.abspath(path))
    home = Path(os.path.abspath(registry)).parent
    common = Path(os.path.commonpath([target, home]))
    if common == Path(common.anchor):
        return target.as_posix()
    return PurePosixPath(Path(os.path.relpath(target, home))).as_posix()


def path_from_registry(stored: str, registry: Path) -> Path:
    """Convert a stored path back to one that this process can open."""
    return Path(os.path.normpath(Path(os.path.abspath(registry)).parent / stored))


LIMIT = 1_000


def checked(text: str, field: str) -> str:
    """Strip the white space around `text` and check it.

    Raises:
        UsageError: `text` is empty, too long, or has characters that cannot be printed.
    """
    stripped = text.strip()
    if not stripped or len(stripped) > LIMIT or not stripped.isprintable():
        raise UsageError(
            f"{field} must be 1 to {LIMIT} printable characters, not {stripped[:80]!r}",
            remedy=f"Give --{field.replace('_', '-')} a plain text of one line.",
            field=field,
        )
    return stripped
