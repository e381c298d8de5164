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


@click.group()
def registry() -> None:
    """Keep datasets, baselines, approvals and waivers by name."""


@registry.command("dataset-add", cls=TableCommand, path="registry dataset-add")
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


@registry.command("dataset-list", cls=TableCommand, path="registry dataset-list")
def dataset_list(registry_path: Path, output_format: str) -> None:
    """List registered suites."""
    rows = sorted(_store(registry_path).read().datasets.values(), key=lambda entry: entry.dataset_id)
    _print_rows(output_format, registry_path, "datasets", rows, "dataset_id", "suite_path")


@registry.command("baseline-set", cls=TableCommand, path="registry baseline-set")
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


@registry.command("baseline-list", cls=TableCommand, path="registry baseline-list")
def baseline_list(registry_path: Path, output_format: str) -> None:
    """List baselines."""
    rows = sorted(_store(registry_path).read().baselines.values(), key=lambda entry: entry.name)
    _print_rows(output_format, registry_path, "baselines", rows, "name", "run_id", "run_path")


@registry.command("baseline-show", cls=TableCommand, path="registry baseline-show")
def baseline_show(name: str, registry_path: Path, output_format: str) -> None:
    """Show one baseline."""
    from agent_eval.registry.baselines import show_baseline

    entry = show_baseline(_store(registry_path), name)
    _print_entry(output_format, registry_path, "baseline", entry, lambda: _lines(entry))


@registry.command("baseline-promote", cls=TableCommand, path="registry baseline-promote")
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


@registry.command("approval-list", cls=TableCommand, path="registry approval-list")
def approval_list(name: str | None, registry_path: Path, output_format: str) -> None:
    """List promotions with who approved them, the newest first."""
    approvals = _store(registry_path).read().approvals[::-1]
    rows = [approval for approval in approvals if name in (None, approval.name)]
    columns = ("approval_id", "name", "run_id", "approved_by", "rationale")
    _print_rows(output_format, registry_path, "approvals", rows, *columns)


@registry.command("waiver-add", cls=TableCommand, path="registry waiver-add")
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


@registry.command("waiver-list", cls=TableCommand, path="registry waiver-list")
def waiver_list(
    baseline_name: str | None, active_only: bool, registry_path: Path, output_format: str
) -> None:
    """List waivers, the newest first."""
    from agent_eval.registry.waivers import list_waivers

    rows = list_waivers(
        _store(registry_path), at=_now(), baseline_name=baseline_name, active_only=active_only
    )
    columns = ("waiver_id", "baseline_name", "case_id", "judge_id", "regression_key", "expires_at", "reason")
    _print_rows(output_format, registry_path, "waivers", rows, *columns)


@registry.command("waiver-revoke", cls=TableCommand, path="registry waiver-revoke")
def waiver_revoke(waiver_id: str, revoked_by: str, registry_path: Path, output_format: str) -> None:
    """End a waiver now. It remains in the list."""
    from agent_eval.registry.waivers import revoke_waiver

    waiver = revoke_waiver(_store(registry_path), waiver_id, revoked_by=revoked_by, at=_now())
    _print_entry(output_format, registry_path, "waiver", waiver, lambda: f"Revoked {waiver.waiver_id}")


@registry.command("audit-log", cls=TableCommand, path="registry audit-log")
def show_audit_log(limit: int, registry_path: Path, output_format: str) -> None:
    """List changes of the registry, the newest first."""
    rows = _store(registry_path).log()[::-1][:limit]
    _print_rows(output_format, registry_path, "audit_log", rows, "sequence", "at", "action", "hash")


@registry.command(cls=TableCommand, path="registry verify")
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


def _print_rows(
    output_format: str, registry_path: Path, name: str, entries: Sequence[Contract], *columns: str
) -> None:
    rows = [entry.to_json() for entry in entries]
    payload = {name: rows, "count": len(rows), "registry_path": str(registry_path)}

    def text(_colour: bool) -> str:
        lines = [_clean("  ".join(str(row[key]) for key in columns if row[key] is not None)) for row in rows]
        return "\n".join(lines) or "None."

    emit(output_format, payload, text)


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
