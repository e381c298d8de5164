"""`compare`: compare two packs and write the comparison; and check that one follows from its packs.

A comparison is a file that anybody can edit. A decision rests on the packs: they are found, opened, verified
and compared again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent_eval.comparison.compare import compare
from agent_eval.contracts import Comparison
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.derived import clear_unfinished, write_output
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.operations import clock
from agent_eval.operations.environment import redactor_for
from agent_eval.operations.judged_twice import judge_twice
from agent_eval.operations.packs import (
    DEFAULT_PATH_IN_PACK,
    ReadComparison,
    pack_around,
    paired,
    path_in_pack,
    view,
)
from agent_eval.operations.trust import UNSIGNED, SignerKeys, open_signed
from agent_eval.registry.baselines import resolve_baseline
from agent_eval.registry.store import DEFAULT_PATH, RegistryStore, path_from_registry
from agent_eval.storage.json import dumps


class CompareResult(NamedTuple):
    """A comparison and the file it was written to. Returned by `compare_packs`."""

    comparison: Comparison
    path: Path


def compare_packs(
    baseline: str | Path,
    candidate: Path,
    *,
    registry: Path = DEFAULT_PATH,
    allow_incompatible: bool = False,
    out: Path | None = None,
    keys: SignerKeys = UNSIGNED,
    environ: Mapping[str, str],
) -> CompareResult:
    """Verify two packs, compare them, and write the comparison.

    More than six parameters: two packs and the environment are needed, each of the others replaces a default.

    Args:
        baseline: Pack or archive to compare with, or the name of a registered one.
        allow_incompatible: Whether to compare all common cases, also of runs of different datasets and where
            they ask something else. Otherwise these are listed and left out.
        out: File to write; None for `compare/baseline_delta.json` in the candidate's pack.
        environ: May pin the clock; its secrets are replaced.

    Raises:
        InvalidInput: The baseline is neither a path nor a registered name.
        UntrustedPack: A pack was not signed with the key that it must have been signed with.
        InvalidPack: A pack does not verify, or the registered baseline was replaced by another pack.
        IncompatibleRuns: The runs are of different datasets; nothing has been written.
        UsageError: The candidate is an archive and `out` is None.
    """
    registered = resolve_baseline(RegistryStore(registry), str(baseline))
    path = candidate / DEFAULT_PATH_IN_PACK if out is None and candidate.is_dir() else out
    if path is not None:
        clear_unfinished(path)
    before = open_signed(registered.path, keys.baseline)
    after = open_signed(candidate, keys.candidate)
    registered.check(before.manifest_sha256)
    now = clock.timestamp(environ)
    comparison = compared(before, after, generated_at=now, allow_incompatible=allow_incompatible)
    comparison = without_secrets(comparison, redactor_for(environ))
    path = path if path is not None else path_in_pack(candidate, DEFAULT_PATH_IN_PACK)
    comparison.baseline_path, comparison.candidate_path = (
        Path(os.path.relpath(pack, path.parent)).as_posix() for pack in (registered.path, candidate)
    )
    write_output(path, dumps(comparison.to_json(), indent=True))
    return CompareResult(comparison, path)


def compared(
    before: Pack,
    after: Pack,
    *,
    generated_at: str,
    allow_incompatible: bool = False,
    with_traces: bool = True,
) -> Comparison:
    """Compare two verified packs; cases that only their ids tell apart are `paired`.

    `with_traces` tells whether to describe how the behaviour of cases changed; a decision does not need it.

    Raises:
        IncompatibleRuns: The runs are of different datasets.
        NothingMeasured: A run has no case, or the runs share none that was to be compared.
    """
    before = paired(before, after)
    return compare(
        view(before),
        view(after),
        generated_at=generated_at,
        allow_incompatible=allow_incompatible,
        traces=(lambda case_id: (before.trajectory(case_id), after.trajectory(case_id)))
        if with_traces
        else None,
        judged_twice=judge_twice(before, after),
    )


_FIGURES = (
    *("baseline_run_id", "candidate_run_id", "dataset_id", "baseline", "candidate", "cases", "metrics"),
    *("judge_metrics", "case_regressions", "new_hard_fail_case_ids", "resolved_hard_fail_case_ids"),
    *("trials", "new_expectations", "more_help"),
)
"""The fields of a comparison that a decision rests on. The others are for readers."""


@dataclass(frozen=True)
class PackSources:
    """Where the packs of a comparison are looked up.

    Attributes:
        baseline: A pack, an archive, or the name of a registered baseline; None for the registered one with
            the digest that the comparison names, else for the place that it names.
        candidate: A pack or an archive; None for the pack that holds the comparison, else for the place that
            it names.
    """

    baseline: str | None = None
    candidate: Path | None = None
    registry: Path = DEFAULT_PATH
    keys: SignerKeys = UNSIGNED


class ComparedPacks(NamedTuple):
    """The two packs of a comparison, verified, and what follows from them.

    `chosen` are the sides, `baseline` and `candidate`, whose pack only the comparison's file names.
    """

    baseline: Pack
    candidate: Pack
    comparison: Comparison
    chosen: tuple[str, ...]


def find_compared(
    path: Path, read: ReadComparison, sources: PackSources, *, is_release: bool
) -> ComparedPacks:
    """Find, open and verify the packs of the comparison at `path`, and compare them as it says.

    Raises:
        InvalidInput: A pack cannot be found, is another run's than the comparison names, or a figure of the
            comparison does not follow from the packs.
        UsageError: `is_release`, and only the file of the comparison, which can name any, names a pack.
    """
    stated, keys = read.comparison, sources.keys
    named: dict[str, Path | None] = {"baseline": None, "candidate": sources.candidate or pack_around(path)}
    store = RegistryStore(sources.registry)
    if sources.baseline is not None:
        named["baseline"] = resolve_baseline(store, sources.baseline).path
    elif sources.registry.exists():
        for entry in store.read().baselines.values():
            if entry.manifest_sha256 == stated.baseline.manifest_sha256:
                named["baseline"] = path_from_registry(entry.run_path, store.path)
                break
    packs, chosen = [], []
    for side, beside, digest, key in (
        ("baseline", stated.baseline_path, stated.baseline.manifest_sha256, keys.baseline),
        ("candidate", stated.candidate_path, stated.candidate.manifest_sha256, keys.candidate),
    ):
        place = named[side] or (None if beside is None else Path(os.path.normpath(path.parent / beside)))
        if place is None or not place.exists():
            where = "" if place is None else f" at {place}"
            raise InvalidInput(
                f"the {side} of {path} cannot be found{where}, and without its pack nothing is decided",
                remedy=_name_it(side),
                file=str(path),
                field=side,
            )
        pack = open_signed(place, key)
        if pack.manifest_sha256 != digest:
            raise InvalidInput(
                f"{place} is not the {side} that {path} compares",
                remedy=f"Name the right one with --{side}, or run `agent-eval compare` again.",
                file=str(place),
            )
        packs.append(pack)
        if named[side] is None and key is None:
            chosen.append(side)
    if is_release and chosen:
        raise UsageError(
            f"a release is not decided on a {chosen[0]} that only {path} names",
            remedy=_name_it(chosen[0]),
            field=chosen[0],
        )
    return ComparedPacks(packs[0], packs[1], _followed(stated, *packs), tuple(chosen))


def _followed(stated: Comparison, before: Pack, after: Pack) -> Comparison:
    """Compare the packs as the comparison says they were, and check every figure that it states.

    An older version compared otherwise: its comparisons only say which packs, and what follows from these is
    decided on.
    """
    enforced = {check.name: check.enforced for check in stated.compatibility.checks}
    comparison = compared(
        before,
        after,
        generated_at=stated.generated_at,
        # Whether it compared the cases that differ between the runs as well.
        allow_incompatible=enforced.get("case_definition_match", True),
        with_traces=False,
    )
    if "new_expectations" not in stated.model_fields_set:
        return comparison
    figures, follows = stated.to_json(), comparison.to_json()
    # A version before counted no new cases.
    counted = ["new_cases"] if stated.new_cases is not None else []
    for name in (*_FIGURES, *counted):
        if figures[name] != follows[name]:
            raise InvalidInput(
                f"the comparison does not follow from its packs in {name}",
                remedy="Make it again with `agent-eval compare`; a comparison is never edited by hand.",
                field=name,
            )
    return comparison


def _name_it(side: str) -> str:
    register = ", or register it with `registry baseline-set`" if side == "baseline" else ""
    return f"Name the evidence pack with --{side}{register}."
