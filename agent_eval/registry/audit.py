"""Reading the audit log, and checking that nobody rewrote it."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent_eval.contracts.registry import AuditEntry
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.pack import open_pack
from agent_eval.registry import places
from agent_eval.registry.store import RegistryStore, entry_hash
from agent_eval.storage.digests import sha256_file


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
        found = open_pack(places.find(run_path, store.path)).manifest_sha256
    except AgentEvalError as error:
        return [f"baseline {name!r}: {error.message}"]
    return [] if found == pinned else [f"baseline {name!r}: another pack lies at {run_path}"]


def _dataset_problems(store: RegistryStore, dataset_id: str, suite_path: str, pinned: str) -> list[str]:
    try:
        found, _ = sha256_file(places.find(suite_path, store.path))
    except AgentEvalError as error:
        return [f"data set {dataset_id!r}: {error.message}"]
    return [] if found == pinned else [f"data set {dataset_id!r}: {suite_path} has changed"]
