"""`agent-eval registry`: datasets, baselines, approvals, waivers and their log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agent_eval.cli.options import COUNT, TEXT, output_format
from agent_eval.cli.options import registry_path as with_registry
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode

if TYPE_CHECKING:
    from agent_eval.contracts import Contract
    from agent_eval.registry.store import RegistryStore

Command = TypeVar("Command", bound=Callable[..., Any])


@click.group()
def registry() -> None:
    """Keep datasets, baselines, approvals and waivers by name."""


def common(command: Command) -> Command:
    """`--registry-path` and `--format`, which every subcommand has."""
    return with_registry(output_format(command))


@registry.command("dataset-add")
@click.option("--suite", required=True, metavar="FILE", help="Suite to register.")
@click.option("--dataset-id", type=TEXT, help="Must be the suite's own when given.")
@click.option("--description", type=TEXT, help="For people.")
@click.option("--tag", "tags", type=TEXT, multiple=True, help="Repeat for several.")
@common
def dataset_add(
    suite: str,
    dataset_id: str | None,
    description: str | None,
    tags: Sequence[str],
    registry_path: str,
    output: str,
) -> None:
    """Register a suite, pinned by the digest of its bytes."""
    from pathlib import Path

    from agent_eval.registry.baselines import add_dataset

    entry = add_dataset(
        _store(registry_path),
        Path(suite),
        at=_now(),
        dataset_id=dataset_id,
        description=description or "",
        tags=tags,
    )
    _tell(output, registry_path, "dataset_registered", entry, lambda: f"Registered {entry.dataset_id}")


@registry.command("dataset-list")
@common
def dataset_list(registry_path: str, output: str) -> None:
    """List registered suites."""
    from agent_eval.registry.baselines import list_datasets

    _list(output, registry_path, "datasets", list_datasets(_store(registry_path)), "dataset_id", "suite_path")


def _run_options(command: Command) -> Command:
    for option in (
        click.option("--notes", type=TEXT, help="For people."),
        click.option("--dataset-id", type=TEXT, help="Must be the run's own when given."),
        click.option("--run", required=True, metavar="PACK", help="Evidence pack of the run."),
        click.option("--name", required=True, type=TEXT, help="Name of the baseline."),
    ):
        command = option(command)
    return command


@registry.command("baseline-set")
@_run_options
@common
def baseline_set(
    name: str, run: str, dataset_id: str | None, notes: str | None, registry_path: str, output: str
) -> None:
    """Let a name stand for a sealed run, pinned by its digest."""
    from pathlib import Path

    from agent_eval.registry.baselines import set_baseline

    entry = set_baseline(
        _store(registry_path), name, Path(run), at=_now(), dataset_id=dataset_id, notes=notes or ""
    )
    _tell(output, registry_path, "baseline_set", entry, lambda: f"{entry.name} is now run {entry.run_id}")


@registry.command("baseline-list")
@common
def baseline_list(registry_path: str, output: str) -> None:
    """List baselines."""
    from agent_eval.registry.baselines import list_baselines

    _list(
        output,
        registry_path,
        "baselines",
        list_baselines(_store(registry_path)),
        "name",
        "run_id",
        "run_path",
    )


@registry.command("baseline-show")
@click.option("--name", required=True, type=TEXT, help="Name of the baseline.")
@common
def baseline_show(name: str, registry_path: str, output: str) -> None:
    """Show one baseline."""
    from agent_eval.registry.baselines import show_baseline

    entry = show_baseline(_store(registry_path), name)
    _tell(output, registry_path, "baseline", entry, lambda: _lines(entry))


@registry.command("baseline-promote")
@_run_options
@click.option("--approved-by", required=True, type=TEXT, help="Who approves it.")
@click.option("--rationale", required=True, type=TEXT, help="Why.")
@common
def baseline_promote(
    name: str,
    run: str,
    dataset_id: str | None,
    notes: str | None,
    approved_by: str,
    rationale: str,
    registry_path: str,
    output: str,
) -> None:
    """Set a baseline and record who approved it and why."""
    from pathlib import Path

    from agent_eval.registry.baselines import promote_baseline

    entry, approval = promote_baseline(
        _store(registry_path),
        name,
        Path(run),
        approved_by=approved_by,
        rationale=rationale,
        at=_now(),
        dataset_id=dataset_id,
        notes=notes or "",
    )
    payload = {
        "promotion": {"baseline": entry.to_json(), "approval": approval.to_json()},
        "registry_path": registry_path,
    }
    emit(
        output,
        payload,
        lambda _colour: _clean(f"{entry.name} is now run {entry.run_id}, {approval.approval_id}"),
    )


@registry.command("approval-list")
@click.option("--name", type=TEXT, help="Only approvals of this baseline.")
@common
def approval_list(name: str | None, registry_path: str, output: str) -> None:
    """List promotions with who approved them, the newest first."""
    from agent_eval.registry.baselines import list_approvals

    rows = list_approvals(_store(registry_path), name)
    _list(
        output, registry_path, "approvals", rows, "approval_id", "name", "run_id", "approved_by", "rationale"
    )


@registry.command("waiver-add")
@click.option("--baseline-name", required=True, type=TEXT, help="Baseline the regression is against.")
@click.option("--approved-by", required=True, type=TEXT, help="Who accepts it.")
@click.option("--reason", required=True, type=TEXT, help="Why.")
@click.option("--case-id", help="Only this case.")
@click.option("--judge-id", help="Only this judge.")
@click.option("--regression-key", help="Only the regression with this key, from a comparison.")
@click.option("--expires-at", metavar="TIME", help="ISO 8601 with its offset; without it until revoked.")
@common
def waiver_add(registry_path: str, output: str, **fields: Any) -> None:
    """Accept a known regression; every scope that is given must match."""
    from agent_eval.registry.waivers import add_waiver

    waiver = add_waiver(_store(registry_path), at=_now(), **fields)
    _tell(output, registry_path, "waiver", waiver, lambda: f"Added {waiver.waiver_id}")


@registry.command("waiver-list")
@click.option("--baseline-name", type=TEXT, help="Only waivers of this baseline.")
@click.option("--active-only", is_flag=True, help="Leave out revoked and expired ones.")
@common
def waiver_list(baseline_name: str | None, active_only: bool, registry_path: str, output: str) -> None:
    """List waivers, the newest first."""
    from agent_eval.registry.waivers import list_waivers

    rows = list_waivers(
        _store(registry_path), at=_now(), baseline_name=baseline_name, active_only=active_only
    )
    shown = ("waiver_id", "baseline_name", "case_id", "judge_id", "regression_key", "expires_at", "reason")
    _list(output, registry_path, "waivers", rows, *shown)


@registry.command("waiver-revoke")
@click.option("--waiver-id", required=True, type=TEXT, help="From waiver-list.")
@click.option("--revoked-by", required=True, type=TEXT, help="Who revokes it.")
@common
def waiver_revoke(waiver_id: str, revoked_by: str, registry_path: str, output: str) -> None:
    """End a waiver now; it stays listed."""
    from agent_eval.registry.waivers import revoke_waiver

    waiver = revoke_waiver(_store(registry_path), waiver_id, revoked_by=revoked_by, at=_now())
    _tell(output, registry_path, "waiver", waiver, lambda: f"Revoked {waiver.waiver_id}")


@registry.command("audit-log")
@click.option("--limit", type=COUNT, default=100, show_default=True, help="How many changes.")
@common
def show_audit_log(limit: int, registry_path: str, output: str) -> None:
    """List changes of the registry, the newest first."""
    from agent_eval.registry.store import audit_log

    rows = audit_log(_store(registry_path), limit=limit)
    _list(output, registry_path, "audit_log", rows, "sequence", "at", "action", "hash")


@registry.command()
@common
def verify(registry_path: str, output: str) -> int:
    """Check the log's chain and everything pinned: exit 0 when whole, 1 when not."""
    from dataclasses import asdict

    from agent_eval.registry.store import verify_registry

    found = verify_registry(_store(registry_path))
    payload = {**asdict(found), "passed": found.passed, "registry_path": registry_path}
    said = [_clean(problem) for problem in found.problems] or [f"{found.changes} changes, all in order."]
    emit(output, payload, lambda _colour: "\n".join(said))
    return int(ExitCode.OK if found.passed else ExitCode.NO)


def _store(registry_path: str) -> RegistryStore:
    from pathlib import Path

    from agent_eval.registry.store import RegistryStore

    return RegistryStore(Path(registry_path))


def _now() -> str:
    import os

    from agent_eval.operations import clock

    return clock.timestamp(os.environ)


def _clean(text: str) -> str:
    from agent_eval.text.escape import clean

    return clean(text, limit=500)


def _tell(output: str, registry_path: str, name: str, entry: Contract, text: Callable[[], str]) -> None:
    payload = {name: entry.to_json(), "registry_path": registry_path}
    emit(output, payload, lambda _colour: "\n".join(map(_clean, text().split("\n"))))


def _lines(entry: Contract) -> str:
    return "\n".join(f"{name}: {value}" for name, value in entry.to_json().items() if value not in (None, ""))


def _list(output: str, registry_path: str, name: str, entries: Sequence[Contract], *shown: str) -> None:
    rows = [entry.to_json() for entry in entries]
    payload = {name: rows, "count": len(rows), "registry_path": registry_path}

    def text(_colour: bool) -> str:
        lines = [_clean("  ".join(str(row[key]) for key in shown if row[key] is not None)) for row in rows]
        return "\n".join(lines) or "None."

    emit(output, payload, text)
