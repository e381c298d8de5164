"""Registered suites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_eval.contracts.registry import DatasetEntry, Registry
from agent_eval.errors import InvalidInput
from agent_eval.registry import places
from agent_eval.registry.names import checked
from agent_eval.registry.store import RegistryStore
from agent_eval.suites.reader import open_suite


def add_dataset(
    store: RegistryStore,
    suite: Path,
    *,
    at: str,
    dataset_id: str | None = None,
    description: str = "",
    tags: Sequence[str] = (),
) -> DatasetEntry:
    """Register a suite under its dataset id, pinned by the digest of its bytes; replaces an earlier entry.

    Args:
        store: The registry.
        suite: The suite file; it must be readable.
        at: ISO 8601 time of the change.
        dataset_id: Must be the suite's own when given.
        description: For people.
        tags: Kept sorted, each once.

    Raises:
        InvalidInput: The suite cannot be read, or it is another data set.
        StorageError: The registry could not be written.
    """
    source = open_suite(suite)
    name = source.header.dataset_id
    if dataset_id is not None and dataset_id != name:
        raise InvalidInput(
            f"{suite} is data set {name!r}, not {dataset_id!r}",
            remedy="Leave --dataset-id out, or name the right suite.",
            file=str(suite),
            field="dataset_id",
        )
    entry = DatasetEntry(
        dataset_id=checked(name, "dataset_id"),
        suite_path=places.keep(suite, store.path),
        sha256=source.digest,
        description=description,
        tags=sorted(set(tags)),
        case_count=sum(1 for _ in source.cases()),
        registered_at=at,
    )

    def edit(registry: Registry) -> tuple[str, dict[str, object]]:
        registry.datasets[entry.dataset_id] = entry
        return "dataset-add", {
            "dataset_id": entry.dataset_id,
            "suite_path": entry.suite_path,
            "sha256": entry.sha256,
        }

    store.change(edit, at=at)
    return entry


def list_datasets(store: RegistryStore) -> list[DatasetEntry]:
    """Registered suites by dataset id."""
    registry = store.read()
    return [registry.datasets[name] for name in sorted(registry.datasets)]
