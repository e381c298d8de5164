"""`agent-eval registry` and `bless`: datasets, baselines, approvals, waivers and their log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.contracts import Contract
    from agent_eval.operations.bless import Blessing
    from agent_eval.registry.store import RegistryStore


@click.command(cls=TableCommand, path="registry dataset-add")
def dataset_add(
    suite: Path,
    dataset_id: str | None,
    description: str | None,
    tags: Sequence[str],
    registry_path: Path,
    output_format: str,
) -> None:
    """Register a suite, pinned by the digest of its bytes."""
    from agent_eval.registry.baselines import add_dataset

    entry = add_dataset(
        _store(registry_path),
        suite,
        at=_now(),
        dataset_id=dataset_id,
        description=description or "",
        tags=tags,
    )
    _print_entry(
        output_format, registry_path, "dataset_registered", entry, lambda: f"Registered {entry.dataset_id}"
    )


@click.command(cls=TableCommand, path="registry baseline-set")
def baseline_set(
    name: str, run: Path, dataset_id: str | None, notes: str | None, registry_path: Path, output_format: str
) -> None:
    """Register a sealed run as a baseline under a name, pinned by its digest."""
    from agent_eval.registry.baselines import set_baseline

    entry = set_baseline(
        _store(registry_path), name, run, at=_now(), dataset_id=dataset_id, notes=notes or ""
    )
    _print_entry(
        output_format, registry_path, "baseline_set", entry, lambda: f"{entry.name} is now run {entry.run_id}"
    )


@click.command(cls=TableCommand, path="registry baseline-promote")
def baseline_promote(
    name: str,
    run: Path,
    dataset_id: str | None,
    notes: str | None,
    approved_by: str,
    rationale: str,
    registry_path: Path,
    output_format: str,
) -> None:
    """Set a baseline and record who approved it and why."""
    from agent_eval.registry.baselines import promote_baseline

    entry, approval = promote_baseline(
        _store(registry_path),
        name,
        run,
        approved_by=approved_by,
        rationale=rationale,
        at=_now(),
        dataset_id=dataset_id,
        notes=notes or "",
    )
    payload = {
        "promotion": {"baseline": entry.to_json(), "approval": approval.to_json()},
        "registry_path": str(registry_path),
    }
    emit(
        output_format,
        payload,
        lambda _colour: _clean(f"{entry.name} is now run {entry.run_id}, {approval.approval_id}"),
    )


@click.command(cls=TableCommand, path="registry waiver-add")
def waiver_add(registry_path: Path, output_format: str, **fields: Any) -> None:
    """Accept a known regression. The waiver applies where every scope that it names matches.

    Where the registry knows the baseline's cases, one that is not among them is refused if its name resembles
    one of theirs, and said otherwise.
    """
    from agent_eval.registry.waivers import add_waiver, check_case_id

    store, case_id = _store(registry_path), fields["case_id"]
    is_known = check_case_id(store, fields["baseline_name"], case_id) if case_id else True
    waiver = add_waiver(store, at=_now(), **fields)
    doubt = {
        None: f"Not checked: whether {case_id!r} exists; no pack or suite of the baseline is here.",
        False: f"The baseline has no case {case_id!r}: the waiver applies to nothing yet.",
        True: "",
    }[is_known]
    emit(
        output_format,
        {"waiver": waiver.to_json(), "note": doubt, "registry_path": str(registry_path)},
        lambda _colour: _clean_lines(
            f"Added {waiver.waiver_id}, which ends {waiver.ends_at}\n{doubt}".strip()
        ),
    )


_COLUMNS = {
    "datasets": ("dataset_id", "suite_path"),
    "baselines": ("name", "run_id", "run_path"),
    "approvals": ("approval_id", "name", "run_id", "approved_by", "rationale"),
    "waivers": (
        *("waiver_id", "baseline_name", "case_id", "judge_id", "regression_key", "expires_at", "reason"),
    ),
}
"""What is listed of the entries of each kind."""


@click.command(cls=TableCommand, path="registry list")
@click.argument("name", required=False)
def list_entries(
    name: str | None,
    of: str | None,
    only: str | None,
    with_ended: bool,
    registry_path: Path,
    output_format: str,
) -> None:
    """List datasets, baselines, approvals and the waivers that hold; with NAME, of that baseline alone.

    Datasets and baselines are in the order of their names, approvals and waivers the newest first.
    """
    from agent_eval.registry.baselines import show_baseline
    from agent_eval.registry.waivers import list_waivers

    store, name = _store(registry_path), name or of
    where = {"registry_path": str(registry_path)}
    baseline = None if name is None or only in ("approvals", "waivers") else show_baseline(store, name)
    if only == "baseline":
        if baseline is None:
            raise click.UsageError("Name the baseline.")
        emit(
            output_format, {"baseline": baseline.to_json(), **where}, lambda _: _clean_lines(_lines(baseline))
        )
        return
    content, at = store.read(), _now()
    entries: dict[str, list[Any]] = {
        "datasets": sorted(content.datasets.values(), key=lambda entry: entry.dataset_id),
        "baselines": sorted(content.baselines.values(), key=lambda entry: entry.name),
        "approvals": [each for each in content.approvals[::-1] if name in (None, each.name)],
        "waivers": [*list_waivers(store, at=at, baseline_name=name, active_only=not with_ended)],
    }
    if baseline is not None:
        entries |= {"datasets": [], "baselines": [baseline]}
    kinds = [only] if only else list(entries)
    rows = {kind: [entry.to_json() for entry in entries[kind]] for kind in kinds}
    total = {"count": len(rows[only])} if only else {}
    emit(
        output_format,
        {**rows, **total, **where},
        lambda _: [line for kind in kinds for line in _listed(kind, rows[kind], with_heading=not only)],
    )


def _listed(kind: str, rows: Sequence[dict[str, Any]], *, with_heading: bool) -> list[str]:
    lines = [
        _clean("  ".join(str(row[key]) for key in _COLUMNS[kind] if row[key] is not None)) for row in rows
    ]
    if not with_heading:
        return lines or ["None."]
    return [f"{kind}:", *(f"  {line}" for line in lines)] if lines else []


@click.command(cls=TableCommand, path="registry waiver-revoke")
@click.argument("waiver", metavar="[ID]", required=False)
def waiver_revoke(
    waiver: str | None, waiver_id: str | None, approved_by: str, registry_path: Path, output_format: str
) -> None:
    """End a waiver now. It remains in the list."""
    from agent_eval.registry.waivers import revoke_waiver

    name = waiver or waiver_id
    if name is None:
        raise click.UsageError("Name the waiver: `registry list` has its id.")
    revoked = revoke_waiver(_store(registry_path), name, revoked_by=approved_by, at=_now())
    _print_entry(output_format, registry_path, "waiver", revoked, lambda: f"Revoked {revoked.waiver_id}")


@click.command(cls=TableCommand, path="registry log")
def log(registry_path: Path, output_format: str) -> None:
    """List changes of the registry, the newest first."""
    rows = [entry.to_json() for entry in _store(registry_path).log()[::-1]]
    payload = {"audit_log": rows, "count": len(rows), "registry_path": str(registry_path)}
    columns = ("sequence", "at", "action", "hash")
    emit(
        output_format,
        payload,
        lambda _: [_clean("  ".join(str(row[key]) for key in columns)) for row in rows] or ["None."],
    )


@click.command(cls=TableCommand, path="registry verify")
def verify(registry_path: Path, output_format: str) -> int:
    """Check the log's chain and all pinned digests: exit 0 when they hold, 1 when one does not."""
    from dataclasses import asdict

    from agent_eval.registry.store import verify_registry

    report = verify_registry(_store(registry_path))
    payload = {**asdict(report), "passed": report.passed, "registry_path": str(registry_path)}
    lines = [_clean(problem) for problem in report.problems] or [f"{report.changes} changes, all in order."]
    emit(output_format, payload, lambda _colour: "\n".join(lines))
    return int(ExitCode.OK if report.passed else ExitCode.NO)


def _store(registry_path: Path) -> RegistryStore:
    from agent_eval.registry.store import RegistryStore

    return RegistryStore(registry_path)


def _now() -> str:
    import os

    from agent_eval.operations import clock

    return clock.timestamp(os.environ)


def _clean(text: str) -> str:
    from agent_eval.text.escape import clean

    return clean(text, limit=500)


def _print_entry(
    output_format: str, registry_path: Path, name: str, entry: Contract, text: Callable[[], str]
) -> None:
    payload = {name: entry.to_json(), "registry_path": str(registry_path)}
    emit(output_format, payload, lambda _colour: _clean_lines(text()))


def _clean_lines(text: str) -> str:
    return "\n".join(map(_clean, text.split("\n")))


def _lines(entry: Contract) -> str:
    return "\n".join(f"{name}: {value}" for name, value in entry.to_json().items() if value not in (None, ""))


_IN_CI = (
    "`agent-eval ci` compares with it where agent-eval.yml says `baseline: {name}`, and the registry and the",
    "pack are in the checkout. The default, `baseline: auto`, never reads the registry.",
)


@click.command(cls=TableCommand, path="bless")
def bless(  # more than six parameters: one for each option
    name: str,
    run: Path,
    accept: str | None,
    approved_by: str | None,
    rationale: str | None,
    registry_path: Path,
    output_format: str,
) -> None:
    """Show every case that a run changes against a baseline, and with --accept make it the baseline.

    The first call lists the differences and their digest. The second, with that digest, accepts exactly them.
    Only a complete run is accepted: every case judged, of one commit, with its model known.
    """
    import os

    from agent_eval.operations import bless as operation
    from agent_eval.operations import clock
    from agent_eval.registry.store import RegistryStore

    acceptance = operation.Acceptance.stated(accept, approved_by, rationale)
    store, at = RegistryStore(registry_path), clock.timestamp(os.environ)
    blessing = operation.changes(store, name, run, at=at)
    if acceptance is not None:
        blessing = operation.bless(store, blessing, run, acceptance, at=at)
    emit(output_format, blessing.to_json(), lambda _colour: _blessing_lines(blessing))


def _blessing_lines(blessing: Blessing) -> list[str]:
    lines = [f"{count(len(blessing.differences), 'case')} of {blessing.name} would change", ""]
    kind = ""
    for difference in blessing.differences:
        if difference.kind != kind:
            kind = difference.kind
            lines.append(f"{kind}:")
        outcomes = f"{difference.before or '-'} -> {difference.now or '-'}"
        lines.append(f"  {difference.case_id}  {outcomes}  {difference.reason}".rstrip())
    if blessing.approval is not None:
        done = f"{blessing.name} is now run {blessing.run_id}, {blessing.approval.approval_id}"
        return [*lines, "", done, *(line.format(name=blessing.name) for line in _IN_CI)]
    words = f"--accept {blessing.digest} --approved-by WHO --rationale WHY"
    return [*lines, "", f"Accept exactly this with {words}"]
