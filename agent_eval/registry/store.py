"""The two files of a registry, and how they change together.

`registry.json` is the current state. `registry.audit.jsonl` beside it has one line for each change, with the
hash of the line before. The store appends a change to the log first; it takes effect when the state is
replaced. The state records how many bytes of the log count, so the line of a writer that was killed in
between has no effect. One writer at a time holds `registry.lock`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import digest
from agent_eval.contracts.registry import AuditEntry, Registry
from agent_eval.errors import AgentEvalError, InvalidInput, UsageError
from agent_eval.evidence.reader import open_pack
from agent_eval.evidence.rows import first_problem
from agent_eval.storage.atomic import write_file
from agent_eval.storage.files import read_bytes, sha256_file
from agent_eval.storage.journal import append_at, exclusive
from agent_eval.storage.json import dumps, parse

DEFAULT_PATH = Path(".agent_eval") / "registry.json"
MAX_BYTES = 256 * 1024 * 1024
LIMIT = 1_000
"""Characters of a text that a person states."""


@dataclass(frozen=True)
class RegistryStore:
    """Registry on disk, in a `registry.json` at `path`; where there is no file, the registry is empty."""

    path: Path = DEFAULT_PATH

    @property
    def log_path(self) -> Path:
        """Path of the audit log."""
        return self.path.with_name(f"{self.path.stem}.audit.jsonl")

    def read(self) -> Registry:
        """Read the current state; raise InvalidInput if the file is not a registry."""
        if not self.path.exists():
            return Registry()
        return parse_registry(read_bytes(self.path, max_bytes=MAX_BYTES), str(self.path))

    @contextmanager
    def change(self, action: str, *, at: str) -> Iterator[tuple[Registry, dict[str, Any]]]:
        """Change the registry in a `with` block, and log it: both, or neither where the block raises.

        Yields the registry, and a dictionary for the details that the log keeps; the block changes both.

        Raises:
            InvalidInput: The registry or its log is broken.
            StorageError: The files could not be written; the old state is still in effect.
        """
        with exclusive(self.path.with_name(f"{self.path.stem}.lock")):
            registry, details = self.read(), dict[str, Any]()
            yield registry, details
            log = self._committed_log(registry)
            # The last line that counts must be the one that the registry names; a bad merge mixes them.
            if log and not log.endswith(b"\n"):
                raise self._broken_log("does not end where the registry says")
            entries = read_log(log[log[:-1].rfind(b"\n") + 1 :], str(self.log_path))
            if (entries[-1].hash if entries else "") != registry.audit_head:
                raise self._broken_log("does not end with the change the registry names")
            body = {"sequence": registry.audit_length, "at": at, "action": action}
            body |= {"details": details, "previous": registry.audit_head}
            entry = AuditEntry.model_validate({**body, "hash": digest(body)})
            line = dumps(entry.to_json()) + b"\n"
            append_at(self.log_path, line, position=registry.audit_bytes)
            registry.audit_head = entry.hash
            registry.audit_length += 1
            registry.audit_bytes += len(line)
            write_file(self.path, dumps(registry.to_json(), indent=True))

    def log(self) -> list[AuditEntry]:
        """List every change that took effect, oldest first, without verifying their hashes."""
        return read_log(self._committed_log(self.read()), str(self.log_path))

    def _committed_log(self, registry: Registry) -> bytes:
        if not registry.audit_bytes:
            return b""
        if not self.log_path.exists():
            raise self._broken_log("is not there")
        data = read_bytes(self.log_path, max_bytes=MAX_BYTES)
        if len(data) < registry.audit_bytes:
            raise self._broken_log(f"has {len(data)} bytes, the registry counts {registry.audit_bytes}")
        return data[: registry.audit_bytes]

    def _broken_log(self, problem: str) -> InvalidInput:
        return InvalidInput(
            f"the audit log {self.log_path} {problem}",
            remedy="Restore registry and log from version control; `registry verify` lists the problems.",
            file=str(self.log_path),
        )


def parse_registry(data: bytes, source: str) -> Registry:
    """Parse a registry from the bytes of the file `source`; raise InvalidInput if they are none."""
    value = parse(data, source=source)
    try:
        return Registry.model_validate(value)
    except ValidationError as error:
        raise InvalidInput(
            f"{source} is not a registry: {first_problem(error)}",
            remedy="Restore it from version control, or name another with --registry-path.",
            file=source,
        ) from None


def read_log(data: bytes, source: str) -> list[AuditEntry]:
    """Parse the lines of a log into entries; raise InvalidInput with the number of a line that is none."""
    entries = []
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            entries.append(AuditEntry.model_validate(parse(line, source=f"{source}:{number}")))
        except ValidationError as error:
            raise InvalidInput(
                f"{source}: line {number} is not an audit entry: {first_problem(error)}",
                remedy="Restore registry and log together from version control.",
                file=source,
                line=number,
            ) from None
    return entries


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


def verify_registry(store: RegistryStore) -> RegistryCheck:
    """Check the log's chain of hashes, and the digest of every pinned pack and suite.

    The chain reveals a changed, removed or inserted entry. It cannot reveal that the whole log was replaced;
    version control does.
    """
    registry = store.read()
    problems: list[str] = []
    entries: list[AuditEntry] = []
    try:
        entries = store.log()
    except AgentEvalError as error:
        problems.append(error.message)
    else:
        previous = ""
        for number, entry in enumerate(entries):
            body = entry.to_json()
            stated = body.pop("hash")
            if (entry.sequence, entry.previous, stated) != (number, previous, digest(body)):
                where = f"audit entry {number} ({entry.action})"
                problems.append(f"{where} was changed, or entries around it are missing")
                break
            previous = entry.hash
        else:
            length = registry.audit_length
            if (previous, len(entries)) != (registry.audit_head, length):
                problems.append(f"the registry counts {length} changes and the audit log ends differently")

    def check(what: str, stored: str, pinned: str, digest_of: Callable[[Path], str]) -> None:
        try:
            if digest_of(path_from_registry(stored, store.path)) != pinned:
                problems.append(f"{what}: {stored} is not what was registered")
        except AgentEvalError as error:
            problems.append(f"{what}: {error.message}")

    for name, baseline in registry.baselines.items():
        pin = baseline.run_path, baseline.manifest_sha256
        check(f"baseline {name!r}", *pin, lambda path: open_pack(path).manifest_sha256)
    for name, dataset in registry.datasets.items():
        check(f"data set {name!r}", dataset.suite_path, dataset.sha256, lambda path: sha256_file(path)[0])
    return RegistryCheck(len(entries), len(registry.baselines), len(registry.datasets), problems)


def path_for_registry(path: Path, registry: Path) -> str:
    """Convert a path to the form in which a registry stores it.

    It is relative to the registry's directory, with `/`, where both share a directory other than the root.
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


def checked(text: str, field: str) -> str:
    """Strip the white space around a text that a person states, and refuse what is no plain line."""
    stripped = text.strip()
    if not stripped or len(stripped) > LIMIT or not stripped.isprintable():
        raise UsageError(
            f"{field} must be 1 to {LIMIT} printable characters, not {stripped[:80]!r}",
            remedy=f"Give --{field.replace('_', '-')} a plain text of one line.",
            field=field,
        )
    return stripped
