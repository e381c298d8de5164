"""The suites of a job, and what a change makes of the base's cases: altered, renamed, or removed.

A case that is altered or removed is run and judged by the base's version too, as a change could hide in it
what it breaks. What only main added since the base does not run. Cases are matched by what an agent meets in
them, not by name.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.ci.place import JobPlace, Versions
from agent_eval.ci.sides import write_files
from agent_eval.ci.workspace import as_code, is_of_the_job
from agent_eval.contracts.base import digest
from agent_eval.contracts.suite import asked_digest, definition_of
from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.storage.atomic import write_unsynced
from agent_eval.storage.files import safe_name
from agent_eval.storage.json import dumps
from agent_eval.suites.paths import SUITE_SUFFIXES, is_bundled_name, matching, suite_paths
from agent_eval.suites.reader import SuiteSource, looks_like_aui, open_suite

SAME_SUITE = 0.5
"""Share of a suite's cases that another one must have, to be the same suite under another name."""


@dataclass(frozen=True, slots=True)
class Target:
    """A suite to evaluate: the path as the user gave it, and the slug that names its pack and its baseline.

    The source is None where it is one of several, which together need not fit into memory.
    """

    path: Path
    slug: str
    source: SuiteSource | None = None
    dataset_id: str = ""


def find_targets(patterns: Sequence[str]) -> list[Target]:
    """Open the suites that the patterns name, in their order, globs sorted; `**` crosses directories.

    A glob must match, no two suites may have the same dataset, and `suites.paths.MAX_SUITES` bounds them.
    """
    paths = suite_paths(patterns)
    seen: dict[str, Path] = {}
    targets = []
    for path in paths:
        source = open_suite(path)
        slug = safe_name(source.header.dataset_id)
        if slug in seen or is_of_the_job(slug):
            other = seen.get(slug, "the job's own files")
            raise InvalidInput(
                f"{path} has the same dataset_id as {other}.",
                remedy="Give every suite a dataset_id of its own.",
                file=str(path),
                field="dataset_id",
            )
        seen[slug] = path
        targets.append(Target(path, slug, source if len(paths) == 1 else None, source.header.dataset_id))
    return targets


@dataclass(frozen=True, kw_only=True)
class Redefinition:
    """How a change defines the cases of one suite of the base.

    Attributes:
        dataset_id: The suite's name at the base.
        replaced: Cases of which it asks something else, or which it removes.
        renamed: The base's id of each case that it only calls otherwise, by the new one.
        of_base: The base's versions of `replaced`, as a suite; None without any, and for a suite of
            conversations, whose file has no cases.
    """

    dataset_id: str
    replaced: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    of_base: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Defined:
    """The suites of a job under the names that the base has for them; the notes are sentences.

    What the change only renamed is called as at the base, so that its history goes on. `redefinitions` says
    by slug what it makes of the base's cases.
    """

    targets: Sequence[Target]
    redefinitions: Mapping[str, Redefinition] = field(default_factory=dict)
    notes: Sequence[str] = ()


def define(targets: Sequence[Target], patterns: Sequence[str], versions: Versions) -> Defined:
    """Compare the suites of a change with those that the patterns of the rules name at its base."""
    place = versions.place
    if place is None or not versions.is_change:
        return Defined(targets=targets)
    sources = {target.slug: target.source or open_suite(target.path) for target in targets}
    mine = {slug: _raw_cases(source) for slug, source in sources.items()}
    redefinitions: dict[str, Redefinition] = {}
    renamed: dict[str, Target] = {}
    notes: list[str] = []
    of_base = list(_suites_of_base(patterns, place, versions.where(Path.cwd()) or "."))
    known = {safe_name(source.header.dataset_id) for source, _ in of_base}
    for source, before in of_base:
        old = source.header.dataset_id
        slug = of_main = safe_name(old)
        if of_main not in mine:
            # The one that asks the most alike may be this one under a new name. A suite that the base has too
            # is no other one; nor can it be two of them.
            asked = {asked_digest(raw) for raw in before.values()}
            shared = {
                name: len(asked & {asked_digest(raw) for raw in cases.values()})
                for name, cases in mine.items()
                if name not in known and name not in renamed
            }
            best = max(shared, key=lambda name: shared[name], default=None)
            if best is None or shared[best] < SAME_SUITE * len(asked):
                continue
            slug = best
        redefinition = _redefinition(source, before, mine[slug], place.clone.home)
        redefinitions[of_main] = redefinition
        if (slug != of_main or redefinition.renamed) and not looks_like_aui(source.document.raw_header):
            path = place.clone.home / "renamed" / f"{of_main}.json"
            _write(path, sources[slug], mine[slug], redefinition)
            renamed[slug] = Target(path, of_main, open_suite(path), old)
        if slug != of_main:
            notes.append(f"Suite {as_code(old)} is now {as_code(sources[slug].header.dataset_id)}.")
        notes += [f"Case {as_code(was)} is now {as_code(now)}." for now, was in redefinition.renamed.items()]
    return Defined(
        targets=[renamed.get(target.slug, target) for target in targets],
        redefinitions=redefinitions,
        notes=notes,
    )


def _raw_cases(source: SuiteSource) -> dict[str, dict[str, Any]]:
    return {case.case_id: raw for raw, case in source.cases()}


def _suites_of_base(
    patterns: Sequence[str], place: JobPlace, directory: str
) -> Iterator[tuple[SuiteSource, dict[str, dict[str, Any]]]]:
    """Write the suites that the patterns name at the base beside the private clone, and read their raw cases.

    One that cannot be read says nothing: what the change has in its place is new. Raises `CannotCheckOut` for
    one that LFS has and does not give.
    """
    top = place.clone.home / "suites-of-base"
    root = top / directory
    of_base = {name for name in place.clone.files(place.base) if Path(name).suffix.lower() in SUITE_SUFFIXES}
    for name in of_base:
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        write_unsynced(top / name, b"")
    names = [
        os.path.normpath(root / name)
        for pattern in patterns
        if not is_bundled_name(pattern) and not Path(pattern).is_absolute()
        for name in (matching(pattern, root=root) or [pattern])
    ]
    chosen = [name for name in dict.fromkeys(os.path.relpath(name, top) for name in names) if name in of_base]
    if chosen:
        write_files(place.clone, place.base, chosen, top)
    for name in chosen:
        try:
            source = open_suite(top / name)
            cases = _raw_cases(source)
        except AgentEvalError:
            continue
        yield source, cases


def _redefinition(
    source: SuiteSource, before: Mapping[str, dict[str, Any]], mine: Mapping[str, dict[str, Any]], home: Path
) -> Redefinition:
    new = {_meaning(raw): case_id for case_id, raw in mine.items() if case_id not in before}
    replaced, renamed = [], {}
    for case_id, raw in before.items():
        now = mine.get(case_id)
        if now is not None and asked_digest(now) == asked_digest(raw):
            continue  # the same, or judged by either expectation
        if now is None and (other := new.pop(_meaning(raw), None)) is not None:
            renamed[other] = case_id
        else:
            replaced.append(case_id)
    of_base = None
    if replaced and not looks_like_aui(source.document.raw_header):
        of_base = home / "of-base" / f"{safe_name(source.header.dataset_id)}.json"
        _write(of_base, source, {case_id: before[case_id] for case_id in replaced})
    return Redefinition(
        dataset_id=source.header.dataset_id, replaced=replaced, renamed=renamed, of_base=of_base
    )


def _meaning(raw: Mapping[str, Any]) -> str:
    """Digest of what a case asks and expects; its id is left out, so that a renamed case has the same."""
    return digest({key: value for key, value in definition_of(dict(raw)).items() if key != "case_id"})


def _write(
    path: Path, source: SuiteSource, cases: Mapping[str, Mapping[str, Any]], names: Redefinition | None = None
) -> None:
    """Write cases as a suite of their own, under the names of the base where they are given."""
    header = dict(source.document.raw_header)
    if names is not None:
        header["dataset_id"] = names.dataset_id
    renamed = names.renamed if names is not None else {}
    listed = [{**raw, "case_id": renamed.get(case_id, case_id)} for case_id, raw in cases.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_unsynced(path, dumps({**header, "cases": listed}))
