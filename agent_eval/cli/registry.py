"""`agent-eval registry` and `bless`: datasets, baselines, approvals, waivers and their log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.errors import ExitCode, InvalidInput, NotEvaluable, UsageError
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.contracts import Comparison
    from agent_eval.evidence.reader import Pack
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
_DIGEST_LENGTH = 12


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
    from agent_eval.contracts import digest
    from agent_eval.operations.compare import compared
    from agent_eval.operations.packs import open_run, paired
    from agent_eval.registry.baselines import promote_baseline, resolve_baseline

    if accept is None and (approved_by or rationale):
        raise UsageError(
            "nothing is accepted without --accept",
            remedy="Call it without approver and reason, read the differences, and add --accept DIGEST.",
            field="accept",
        )
    for field, value in (("approved-by", approved_by), ("rationale", rationale)):
        if accept is not None and not value:
            remedy = f"Add --{field}: the log states who and why."
            raise UsageError(f"--accept needs --{field}", remedy=remedy, field=field)
    store, at = _store(registry_path), _now()
    registered = resolve_baseline(store, name)
    if registered.entry is None:
        raise InvalidInput(
            f"there is no baseline {name[:200]!r} in the registry",
            remedy="Register one with `agent-eval registry baseline-promote`.",
            field="name",
        )
    before, after = open_run(registered.path), open_run(run)
    registered.check(before.manifest_sha256)
    _refuse_as_baseline(after)
    comparison = compared(before, after, generated_at=at, with_traces=False)
    differences = _differences(comparison, paired(before, after), after)
    identity = digest([before.manifest_sha256, after.manifest_sha256, differences])[:_DIGEST_LENGTH]
    lines = [f"{count(len(differences), 'case')} of {name} would change", ""]
    for kind, rows in groupby(differences, key=lambda row: row["kind"]):
        lines.append(f"{kind}:")
        for row in rows:
            outcomes = f"{row['before'] or '-'} -> {row['now'] or '-'}"
            lines.append(f"  {row['case_id']}  {outcomes}  {row['reason']}".rstrip())
    approval = None
    if accept is None:
        lines += ["", f"Accept exactly this with --accept {identity} --approved-by WHO --rationale WHY"]
    elif accept != identity:
        raise UsageError(
            f"--accept {accept[:40]!r} is not the digest of these differences, {identity}",
            remedy="Read the differences again, and accept the digest blessing with them.",
            field="accept",
        )
    else:
        _, approval = promote_baseline(
            store,
            name,
            run,
            approved_by=approved_by or "",
            rationale=f"{rationale} (differences {identity})",
            at=at,
            dataset_id=before.config.dataset_id,
            opened=after,
        )
        lines += ["", f"{name} is now run {after.config.run_id}, {approval.approval_id}"]
        lines += [line.format(name=name) for line in _IN_CI]
    payload = {
        "baseline": name,
        "run_id": after.config.run_id,
        "differences": differences,
        "digest": identity,
        "approval": None if approval is None else approval.to_json(),
    }
    emit(output_format, payload, lambda _colour: lines)


def _refuse_as_baseline(pack: Pack) -> None:
    """Refuse a run that is no baseline: its name would stand for less than a whole, judged commit."""
    config, summary = pack.config, pack.summary
    models = (row["models"] for row in pack.index_by_id().values())
    problems = [
        (bool(config.execution_config.selected_cases), "it ran only the cases that were asked for"),
        (config.execution_config.shard is not None, "it is one part of a divided run"),
        (summary.error_cases > 0, f"{summary.error_cases} of its cases ended in an error"),
        ((config.execution_config.damaged_records or 0) > 0, "records of its trials were damaged"),
        (bool(config.git_dirty), "it was made of changes that are not committed"),
        (config.git_commit is None, "it does not know its commit"),
        (config.model == "unknown" and not any(models), "neither --model nor its traces name its model"),
    ]
    if stated := [problem for holds, problem in problems if holds]:
        raise NotEvaluable(
            f"run {config.run_id!r} cannot be a baseline: {'; '.join(stated)}",
            remedy="Run the suite again from one commit, with --model, until every case is judged.",
        )


def _differences(comparison: Comparison, before: Pack, after: Pack) -> list[dict[str, Any]]:
    """List every case that differs: by its result, by its definition, or because only one side has it."""
    listed: list[tuple[str, str, str | None, str | None, str]] = []
    for case in comparison.case_regressions:
        kind = "regressed" if case.regressed else "fixed" if case.improved else "judged otherwise"
        worst = next((judge for judge in case.judges if judge.reason), None)
        reason = "" if worst is None else f"{worst.judge_id}: {worst.reason}"
        outcomes = case.baseline_outcome.value, case.candidate_outcome.value
        listed.append((case.case_id, kind, *outcomes, reason))
    was, is_now = before.results_by_id(), after.results_by_id()
    sets = comparison.cases
    for kind, names in (("new", sets.new), ("removed", sets.removed), ("asks something else", sets.changed)):
        for case_id in names:
            first, second = was.get(case_id), is_now.get(case_id)
            listed.append((case_id, kind, first and first["outcome"], second and second["outcome"], ""))
    order = ("regressed", "removed", "asks something else", "judged otherwise", "new", "fixed")
    listed.sort(key=lambda row: (order.index(row[1]), row[0]))
    return [dict(zip(("case_id", "kind", "before", "now", "reason"), row, strict=True)) for row in listed]
