"""`merge`: join the packs of a run that was divided with `--shard` into one."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from agent_eval.config.spec import Output
from agent_eval.contracts import SHARD_CASES, SuiteShard, Tally
from agent_eval.errors import IncompatibleRuns, InvalidPack, UsageError
from agent_eval.evidence.layout import choose_layout, may_be_replaced
from agent_eval.evidence.reader import Pack, refuse_incomplete
from agent_eval.evidence.writer import CaseEvidence, PackSealer, PackTarget, open_shard
from agent_eval.operations.packs import open_run
from agent_eval.operations.resume import refuse_to_lose
from agent_eval.operations.run import RunResult
from agent_eval.storage.atomic import new_directory
from agent_eval.storage.json import dumps
from agent_eval.suites.select import decode_positions

_NO_PART = 2**32 - 1
_MAY_DIFFER = ("run_id", "started_at", "execution_config")


@dataclass(frozen=True)
class _Part:
    """The pack of one shard, with the positions of its cases in the whole suite."""

    pack: Pack
    shard: SuiteShard
    positions: list[int]


def merge_packs(packs: Sequence[Path], output: Output, *, run_id: str | None = None) -> RunResult:
    """Join the packs of all shards of a run into one pack.

    The result has the same bytes as the pack of the same run without `--shard`: cases are in suite order, and
    its start is that of the shard that started first.

    `packs` may be in any order. `run_id` is the id of the new run; None for that of the first shard.

    Raises:
        IncompatibleRuns: Settings differ, or a shard is named twice or missing.
        InvalidPack: A pack does not verify, or its run is not complete.
        UsageError: One of the packs, or something that must not be lost or is no pack, is at `output.pack`.
    """
    out, place = output.pack, output.pack.resolve()
    for path in packs:
        source = path.resolve()
        if source == place or source in place.parents or place in source.parents:
            raise UsageError(
                f"{out} is {path}, one of the packs to merge, or one is in the other",
                remedy="Give --out another path; the packs stay as they are.",
                file=str(out),
                field="out",
            )
    refuse_to_lose(output)
    parts = sorted((_part(open_run(path)) for path in packs), key=lambda part: part.shard.number)
    _refuse_other_runs(parts)
    owners = _owners(parts)
    first, configs = parts[0].pack.config, [part.pack.config for part in parts]
    executions = [config.execution_config for config in configs]
    execution = first.execution_config.of_whole_suite(
        redacted_cases=sum(execution.redacted_cases or 0 for execution in executions),
        redactions=sum(execution.redactions or 0 for execution in executions),
        damaged_records=sum(execution.damaged_records or 0 for execution in executions),
    )
    started = min(config.started_at for config in configs)
    config = first.model_copy(
        update={"execution_config": execution, "started_at": started, "run_id": run_id or first.run_id}
    )
    with new_directory(out, replace=may_be_replaced(out)) as root:
        target = PackTarget(root, choose_layout(output.layout, len(owners)), config.run_id, config.dataset_id)
        target.prepare()
        with PackSealer(target) as sealer:
            tally = _write(parts, owners, target, sealer)
            summary = tally.summary(config.run_id, config.dataset_id)
            version = {"schema_version": config.schema_version}
            sealer.seal(config.to_json(), summary.model_copy(update=version).to_json())
    return RunResult(config, summary, out)


def _part(pack: Pack) -> _Part:
    refuse_incomplete(pack.name, pack.manifest)
    shard = pack.config.execution_config.shard
    if shard is None:
        raise IncompatibleRuns(
            f"{pack.name} is the pack of a whole run, not of a shard",
            remedy="Make the packs with --shard 1/N to --shard N/N.",
            file=pack.name,
        )
    try:
        positions = decode_positions(shard.positions, shard.total)
    except ValueError as error:
        raise _invalid(pack, f"its shard cannot be read: {error}") from None
    if len(positions) != pack.manifest.case_count:
        raise _invalid(pack, f"it has {pack.manifest.case_count} cases and says that it has {len(positions)}")
    return _Part(pack, shard, positions)


def _invalid(pack: Pack, problem: str) -> InvalidPack:
    return InvalidPack(f"{pack.name}: {problem}", remedy="Run the shard again.", file=pack.name)


def _refuse_other_runs(parts: Sequence[_Part]) -> None:
    """Refuse parts of different runs: all settings must be the same but those that say which part it is."""
    stated: list[dict[str, Any]] = []
    for part in parts:
        config = part.pack.config
        execution = config.execution_config.of_whole_suite().to_json()
        stated.append(
            {name: value for name, value in config.to_json().items() if name not in _MAY_DIFFER}
            | {f"execution_config.{name}": value for name, value in execution.items()}
            | {"number of shards": part.shard.count, "number of cases": part.shard.total}
        )
    for part, settings in zip(parts[1:], stated[1:], strict=True):
        names = stated[0].keys() | settings.keys()
        differing = sorted(name for name in names if stated[0].get(name) != settings.get(name))
        if differing:
            raise IncompatibleRuns(
                f"{part.pack.name} and {parts[0].pack.name} are not shards of one run: they differ in "
                f"{', '.join(differing)}",
                remedy="Run every shard with the same suite and settings.",
                file=part.pack.name,
                differences=differing,
            )


def _owners(parts: Sequence[_Part]) -> array[int]:
    """Map each position of the suite to the index of the part that has its case."""
    total = parts[0].shard.total
    owners = array("L", [_NO_PART]) * total
    for owner, part in enumerate(parts):
        for position in part.positions:
            if owners[position] != _NO_PART:
                other = parts[owners[position]].pack
                raise IncompatibleRuns(
                    f"{other.name} and {part.pack.name} overlap: both have the case at position {position}",
                    remedy="Name every shard once.",
                    file=part.pack.name,
                )
            owners[position] = owner
    missing = owners.count(_NO_PART)
    if missing:
        numbers = ", ".join(str(part.shard.number) for part in parts)
        raise IncompatibleRuns(
            f"{missing} of {total} cases are missing: shards {numbers} of {parts[0].shard.count} were named",
            remedy="Name the packs of all shards. One without any case is no pack and not needed.",
        )
    return owners


def _write(parts: Sequence[_Part], owners: array[int], target: PackTarget, sealer: PackSealer) -> Tally:
    cases = [
        zip(part.pack.trajectories(), part.pack.results(), part.pack.index(), strict=True) for part in parts
    ]
    tally = Tally()
    remaining = iter(owners)
    for shard in range(-(-len(owners) // SHARD_CASES)):
        with open_shard(target, shard) as writer:
            for owner in islice(remaining, SHARD_CASES):
                (raw, encoded), result, row = next(cases[owner])
                tally.add_row(result)
                artifacts = parts[owner].pack.artifacts(row["case_id"])
                writer.add(CaseEvidence(raw, encoded, result, dumps(result), row, artifacts))
            written = writer.finish()
        sealer.append(written)
    return tally
