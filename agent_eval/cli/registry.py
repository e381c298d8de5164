"""`agent-eval registry` and `bless`: datasets, baselines, approvals, waivers and their log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.operations.bless import Blessing
    from agent_eval.registry.store import RegistryStore


@click.command(cls=TableCommand, path="registry dataset-add")
def dataset_add(suite: Path, registry_path: Path, output_format: str, **fields: Any) -> None:
    """Register a suite, pinned by the digest of its bytes."""
    from agent_eval.registry.baselines import add_dataset

    entry = add_dataset(_store(registry_path), suite, at=_now(), **_stated(fields))
    _print(
        output_format,
        registry_path,
        {"dataset_registered": entry.to_json()},
        f"Registered {entry.dataset_id}",
    )


@click.command(cls=TableCommand, path="registry baseline-set")
def baseline_set(name: str, run: Path, registry_path: Path, output_format: str, **fields: Any) -> None:
    """Register a sealed run as a baseline under a name, pinned by its digest."""
    from agent_eval.registry.baselines import set_baseline

    entry = set_baseline(_store(registry_path), name, run, at=_now(), **_stated(fields))
    done = f"{entry.name} is now run {entry.run_id}"
    _print(output_format, registry_path, {"baseline_set": entry.to_json()}, done)


@click.command(cls=TableCommand, path="registry baseline-promote")
def baseline_promote(name: str, run: Path, registry_path: Path, output_format: str, **fields: Any) -> None:
    """Set a baseline and record who approved it and why."""
    from agent_eval.registry.baselines import promote_baseline

    entry, approval = promote_baseline(_store(registry_path), name, run, at=_now(), **_stated(fields))
    made = {"promotion": {"baseline": entry.to_json(), "approval": approval.to_json()}}
    done = f"{entry.name} is now run {entry.run_id}, {approval.approval_id}"
    _print(output_format, registry_path, made, done)


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
    lines = filter(None, (f"Added {waiver.waiver_id}, which ends {waiver.ends_at}", doubt))
    _print(output_format, registry_path, {"waiver": waiver.to_json(), "note": doubt}, *lines)


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
    baseline = None if name is None or only in ("approvals", "waivers") else show_baseline(store, name)
    if only == "baseline":
        if baseline is None:
            raise click.UsageError("Name the baseline.")
        stated = (f"{field}: {value}" for field, value in baseline.to_json().items() if value)
        _print(output_format, registry_path, {"baseline": baseline.to_json()}, *stated)
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
    lines = [line for kind in kinds for line in _listed(kind, rows[kind], with_heading=not only)]
    _print(output_format, registry_path, {**rows, **total}, *lines)


def _listed(kind: str, rows: Sequence[dict[str, Any]], *, with_heading: bool) -> list[str]:
    lines = ["  ".join(str(row[key]) for key in _COLUMNS[kind] if row[key] is not None) for row in rows]
    if not with_heading:
        return lines or ["None."]
    return [f"{kind}:", *(f"  {line}" for line in lines)] if lines else []


@click.command(cls=TableCommand, path="registry waiver-revoke")
@click.argument("waiver", metavar="[ID]", required=False)
def waiver_revoke(
    waiver: str | None, waiver_id: str | None, revoked_by: str, registry_path: Path, output_format: str
) -> None:
    """End a waiver now. It remains in the list."""
    from agent_eval.registry.waivers import revoke_waiver

    name = waiver or waiver_id
    if name is None:
        raise click.UsageError("Name the waiver: `registry list` has its id.")
    revoked = revoke_waiver(_store(registry_path), name, revoked_by=revoked_by, at=_now())
    _print(output_format, registry_path, {"waiver": revoked.to_json()}, f"Revoked {revoked.waiver_id}")


@click.command(cls=TableCommand, path="registry log")
def log(registry_path: Path, output_format: str) -> None:
    """List changes of the registry, the newest first."""
    rows = [entry.to_json() for entry in _store(registry_path).log()[::-1]]
    lines = ["  ".join(str(row[key]) for key in ("sequence", "at", "action", "hash")) for row in rows]
    payload = {"audit_log": rows, "count": len(rows)}
    _print(output_format, registry_path, payload, *(lines or ["None."]))


@click.command(cls=TableCommand, path="registry verify")
def verify(registry_path: Path, output_format: str) -> int:
    """Check the log's chain and all pinned digests: exit 0 when they hold, 1 when one does not."""
    from dataclasses import asdict

    from agent_eval.registry.store import verify_registry

    report = verify_registry(_store(registry_path))
    lines = report.problems or [f"{report.changes} changes, all in order."]
    payload = {**asdict(report), "passed": report.passed}
    _print(output_format, registry_path, payload, *lines)
    return int(ExitCode.OK if report.passed else ExitCode.NO)


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what was not stated, which has a default."""
    return {name: value for name, value in fields.items() if value is not None}


def _store(registry_path: Path) -> RegistryStore:
    from agent_eval.registry.store import RegistryStore

    return RegistryStore(registry_path)


def _now() -> str:
    import os

    from agent_eval.operations import clock

    return clock.timestamp(os.environ)


def _print(output_format: str, registry_path: Path, payload: Mapping[str, Any], *lines: str) -> None:
    """Print a result with the registry's path; of each line no more than a screen of text."""
    from agent_eval.text.escape import clean

    payload = {**payload, "registry_path": str(registry_path)}
    emit(output_format, payload, lambda _: [clean(line, limit=500) for line in lines])


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
    from agent_eval.operations import bless as operation

    acceptance = operation.Acceptance.stated(accept, approved_by, rationale)
    store, at = _store(registry_path), _now()
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
