"""Named baselines and datasets: a name for a sealed run or a suite, pinned by digest, and its approvals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_eval.contracts import digest
from agent_eval.contracts.registry import Approval, BaselineEntry, DatasetEntry
from agent_eval.errors import InvalidInput, InvalidPack
from agent_eval.evidence.reader import Pack, open_pack, refuse_incomplete
from agent_eval.registry.store import RegistryStore, checked, path_for_registry, path_from_registry


@dataclass(frozen=True)
class ResolvedBaseline:
    """Pack that `--baseline` names, with its entry where the name is one of the registry."""

    path: Path
    entry: BaselineEntry | None = None

    def check(self, manifest_sha256: str) -> None:
        """Compare the digest of the opened pack with the pinned one; raise InvalidPack if it is another."""
        if self.entry is not None and manifest_sha256 != self.entry.manifest_sha256:
            raise InvalidPack(
                f"baseline {self.entry.name!r}: the pack at {self.path} is not the one that was registered",
                remedy="Restore the pack, or set the baseline again with `registry baseline-set`.",
                file=str(self.path),
                expected=self.entry.manifest_sha256,
                found=manifest_sha256,
            )


def set_baseline(
    store: RegistryStore, name: str, run: Path, *, at: str, dataset_id: str | None = None, notes: str = ""
) -> BaselineEntry:
    """Register a sealed run under a name; replaces an earlier entry.

    Raises:
        InvalidPack: The pack does not verify.
        InvalidInput: The run is of another data set than `dataset_id`, where one is stated.
    """
    entry = _entry(store, name, run, at=at, dataset_id=dataset_id, notes=notes)
    with store.change("baseline-set", at=at) as (registry, details):
        registry.baselines[entry.name] = entry
        details.update(_pinned(entry))
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
    opened: Pack | None = None,
) -> tuple[BaselineEntry, Approval]:
    """Do what `set_baseline` does, and record in the same change who approved it and why.

    `opened` is the pack of `run` where it was opened, and so verified, already.

    More than six parameters: they are the fields of the entry and of its approval.
    """
    entry = _entry(store, name, run, at=at, dataset_id=dataset_id, notes=notes, opened=opened)
    approver, why = checked(approved_by, "approved_by"), checked(rationale, "rationale")
    with store.change("baseline-promote", at=at) as (registry, details):
        identity = digest([registry.audit_length, registry.audit_head, _pinned(entry)])[:12]
        approval = Approval(
            approval_id=f"a-{identity}",
            name=entry.name,
            run_id=entry.run_id,
            manifest_sha256=entry.manifest_sha256,
            approved_by=approver,
            rationale=why,
            approved_at=at,
        )
        entry.approval_id = approval.approval_id
        registry.baselines[entry.name] = entry
        registry.approvals.append(approval)
        details.update(_pinned(entry), approval_id=approval.approval_id)
        details.update(approved_by=approver, rationale=why)
    return entry, approval


def show_baseline(store: RegistryStore, name: str) -> BaselineEntry:
    """Return the baseline of a name; raise InvalidInput if the registry has none."""
    baselines = store.read().baselines
    if name not in baselines:
        raise InvalidInput(
            f"{name!r} is neither a path nor a baseline registered in {store.path}",
            remedy="Name a pack or a registered baseline. "
            f"Registered: {', '.join(sorted(baselines)[:20]) or 'none'}.",
            file=str(store.path),
            field="baseline",
        )
    return baselines[name]


def resolve_baseline(store: RegistryStore, reference: str) -> ResolvedBaseline:
    """Find the pack that a user names as baseline: a path that exists, else a registered name.

    Raises:
        InvalidInput: `reference` is neither, or the registered run no longer exists.
    """
    path = Path(reference)
    if path.exists():
        return ResolvedBaseline(path)
    entry = show_baseline(store, reference)
    path = path_from_registry(entry.run_path, store.path)
    if not path.exists():
        raise InvalidInput(
            f"baseline {entry.name!r} is registered at {path}, where there is nothing",
            remedy="Restore the pack, or set the baseline again with `registry baseline-set`.",
            file=str(path),
        )
    return ResolvedBaseline(path, entry)


def _entry(
    store: RegistryStore,
    name: str,
    run: Path,
    *,
    at: str,
    dataset_id: str | None,
    notes: str,
    opened: Pack | None = None,
) -> BaselineEntry:
    """More than six parameters: they are the fields of the entry."""
    pack = opened or open_pack(run)
    refuse_incomplete(pack.name, pack.manifest)
    _refuse_other(dataset_id, pack.config.dataset_id, run, "run")
    return BaselineEntry(
        name=checked(name, "name"),
        run_path=path_for_registry(run, store.path),
        run_id=pack.config.run_id,
        dataset_id=pack.config.dataset_id,
        manifest_sha256=pack.manifest_sha256,
        notes=notes,
        set_at=at,
    )


def _pinned(entry: BaselineEntry) -> dict[str, object]:
    return {"name": entry.name, "run_id": entry.run_id, "manifest_sha256": entry.manifest_sha256}


def _refuse_other(wanted: str | None, stated: str, path: Path, what: str) -> None:
    if wanted is not None and wanted != stated:
        raise InvalidInput(
            f"{path} is of data set {stated!r}, not {wanted!r}",
            remedy=f"Leave --dataset-id out, or name the right {what}.",
            file=str(path),
            field="dataset_id",
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

    Raises:
        InvalidInput: The suite cannot be read, or has another dataset id than the stated one.
    """
    from agent_eval.suites.reader import open_suite  # a comparison reads no suite

    source = open_suite(suite)
    _refuse_other(dataset_id, source.header.dataset_id, suite, "suite")
    entry = DatasetEntry(
        dataset_id=checked(source.header.dataset_id, "dataset_id"),
        suite_path=path_for_registry(suite, store.path),
        sha256=source.digest,
        description=description,
        tags=sorted(set(tags)),
        case_count=sum(1 for _ in source.cases()),
        registered_at=at,
    )
    with store.change("dataset-add", at=at) as (registry, details):
        registry.datasets[entry.dataset_id] = entry
        details.update({name: getattr(entry, name) for name in ("dataset_id", "suite_path", "sha256")})
    return entry
