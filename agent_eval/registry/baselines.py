"""Named baselines and datasets: a name for a sealed run or a suite, pinned by digest, and its approvals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.contracts import digest
from agent_eval.contracts.registry import Approval, BaselineEntry, DatasetEntry, Registry
from agent_eval.errors import InvalidInput, InvalidPack
from agent_eval.evidence.reader import Pack, open_pack, refuse_incomplete
from agent_eval.registry.store import RegistryStore, checked, path_for_registry, path_from_registry


@dataclass(frozen=True)
class ResolvedBaseline:
    """Pack that `--baseline` names, with its entry where the name is one of the registry.

    Use `resolve_baseline` to make one, open the pack at `path`, and check what was opened.
    """

    path: Path
    entry: BaselineEntry | None = None

    def check(self, manifest_sha256: str) -> None:
        """Compare the digest of the opened pack with the pinned one.

        Raises:
            InvalidPack: The pack at `path` is not the registered one.
        """
        if self.entry is not None and manifest_sha256 != self.entry.manifest_sha256:
            raise InvalidPack(
                f"baseline {self.entry.name!r}: the pack at {self.path} is not the one that was registered",
                remedy="Restore the pack, or set the baseline again with `registry baseline-set`.",
                file=str(self.path),
                expected=self.entry.manifest_sha256,
                found=manifest_sha256,
            )


def set_baseline(
    store: RegistryStore,
    name: str,
    run: Path,
    *,
    at: str,
    dataset_id: str | None = None,
    notes: str = "",
) -> BaselineEntry:
    """Register a sealed run under a name; replaces an earlier entry.

    Args:
        store: The registry.
        name: Name of the baseline.
        run: Pack of the run.
        at: ISO 8601 time of the change.
        dataset_id: Id that the run's data set must have; None for any.
        notes: Remarks for people.

    Raises:
        InvalidPack: The pack does not verify.
        InvalidInput: The run is of another data set than `dataset_id`.
        UsageError: The name is empty or unprintable.
        StorageError: The registry could not be written.
    """
    entry = _entry(store, name, run, at=at, dataset_id=dataset_id, notes=notes)

    def edit(registry: Registry) -> tuple[str, dict[str, object]]:
        registry.baselines[entry.name] = entry
        return "baseline-set", _audit_details(entry)

    store.change(edit, at=at)
    return entry


def promote_baseline(
    store: RegistryStore,
    name: str,
    run: Path,
    *,
    approved_by: str,
    rationale: str,
    at: str,
    dataset_id: str | None = None,
    notes: str = "",
) -> tuple[BaselineEntry, Approval]:
    """Do what `set_baseline` does, and record in the same change who approved it and why.

    More than six parameters: they are the fields of the entry and of its approval.

    Args:
        store: The registry.
        name: Name of the baseline.
        run: Pack of the run.
        approved_by: Person who approves it.
        rationale: Reason of the approval.
        at: ISO 8601 time of the change.
        dataset_id: Id that the run's data set must have; None for any.
        notes: Remarks for people.

    Raises:
        InvalidPack: The pack does not verify.
        InvalidInput: The run is of another data set than `dataset_id`.
        UsageError: Name, approver or rationale is empty or unprintable.
        StorageError: The registry could not be written.
    """
    proposed = _entry(store, name, run, at=at, dataset_id=dataset_id, notes=notes)
    approver, why = checked(approved_by, "approved_by"), checked(rationale, "rationale")
    made: list[tuple[BaselineEntry, Approval]] = []

    def edit(registry: Registry) -> tuple[str, dict[str, object]]:
        identity = digest([registry.audit_length, registry.audit_head, _audit_details(proposed)])[:12]
        approval = Approval(
            approval_id=f"a-{identity}",
            name=proposed.name,
            run_id=proposed.run_id,
            manifest_sha256=proposed.manifest_sha256,
            approved_by=approver,
            rationale=why,
            approved_at=at,
        )
        entry = proposed.model_copy(update={"approval_id": approval.approval_id})
        registry.baselines[entry.name] = entry
        registry.approvals.append(approval)
        made.append((entry, approval))
        approved = {"approval_id": approval.approval_id, "approved_by": approver, "rationale": why}
        return "baseline-promote", {**_audit_details(entry), **approved}

    store.change(edit, at=at)
    return made[0]


def list_baselines(store: RegistryStore) -> list[BaselineEntry]:
    """List the baselines by name."""
    registry = store.read()
    return [registry.baselines[name] for name in sorted(registry.baselines)]


def show_baseline(store: RegistryStore, name: str) -> BaselineEntry:
    """Return the baseline of a name.

    Raises:
        InvalidInput: The registry has no baseline of that name.
    """
    entry = store.read().baselines.get(name)
    if entry is None:
        raise _unknown(store, name)
    return entry


def list_approvals(store: RegistryStore, name: str | None = None) -> list[Approval]:
    """List approvals, newest first; with `name`, only those of this baseline."""
    approvals = store.read().approvals
    return [approval for approval in reversed(approvals) if name is None or approval.name == name]


def resolve_baseline(store: RegistryStore, reference: str) -> ResolvedBaseline:
    """Find the pack that a user names as baseline: a path that exists, else a registered name.

    Raises:
        InvalidInput: `reference` is neither, or the registered run no longer exists.
    """
    path = Path(reference)
    if path.exists():
        return ResolvedBaseline(path)
    entry = store.read().baselines.get(reference)
    if entry is None:
        raise _unknown(store, reference)
    path = path_from_registry(entry.run_path, store.path)
    if not path.exists():
        raise InvalidInput(
            f"baseline {entry.name!r} is registered at {path}, where there is nothing",
            remedy="Restore the pack, or set the baseline again with `registry baseline-set`.",
            file=str(path),
        )
    return ResolvedBaseline(path, entry)


def _entry(
    store: RegistryStore, name: str, run: Path, *, at: str, dataset_id: str | None, notes: str
) -> BaselineEntry:
    pack: Pack = open_pack(run)
    refuse_incomplete(pack.name, pack.manifest)
    if dataset_id is not None and dataset_id != pack.config.dataset_id:
        raise InvalidInput(
            f"{run} evaluated data set {pack.config.dataset_id!r}, not {dataset_id!r}",
            remedy="Leave --dataset-id out, or name the right run.",
            file=str(run),
            field="dataset_id",
        )
    return BaselineEntry(
        name=checked(name, "name"),
        run_path=path_for_registry(run, store.path),
        run_id=pack.config.run_id,
        dataset_id=pack.config.dataset_id,
        manifest_sha256=pack.manifest_sha256,
        notes=notes,
        set_at=at,
    )


def _audit_details(entry: BaselineEntry) -> dict[str, object]:
    return {"name": entry.name, "run_id": entry.run_id, "manifest_sha256": entry.manifest_sha256}


def _unknown(store: RegistryStore, name: str) -> InvalidInput:
    known = ", ".join(sorted(store.read().baselines)[:20]) or "none"
    return InvalidInput(
        f"{name!r} is neither a path nor a baseline registered in {store.path}",
        remedy=f"Name a pack or a registered baseline. Registered: {known}.",
        file=str(store.path),
        field="baseline",
    )


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
        dataset_id: Id that the suite must have; None for any.
        description: Description for people.
        tags: Tags; stored sorted, without repetitions.

    Raises:
        InvalidInput: The suite cannot be read, or has another dataset id.
        StorageError: The registry could not be written.
    """
    from agent_eval.suites.reader import open_suite  # a comparison reads no suite

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
        suite_path=path_for_registry(suite, store.path),
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
    """List the registered suites by dataset id."""
    registry = store.read()
    return [registry.datasets[name] for name in sorted(registry.datasets)]
