"""What a change makes of the cases that the base has: altered, given another input, renamed, or removed.

Such a case is run and judged by the base's version too, as a change could hide in it what it breaks. What
only main added since the base does not run. Cases are told by what an agent meets in them, not by their names.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.ci.rules import Versions
from agent_eval.ci.suites import Target
from agent_eval.contracts.base import digest
from agent_eval.contracts.suite import asked_digest, definition_of
from agent_eval.errors import AgentEvalError
from agent_eval.storage.files import safe_name
from agent_eval.storage.json import dumps
from agent_eval.suites.paths import is_bundled_name
from agent_eval.suites.reader import SUITE_SUFFIXES, SuiteSource, looks_like_aui, open_suite

SAME_SUITE = 0.5
"""Share of a suite's cases that another one must have, to be the same suite under another name."""


@dataclass(frozen=True, kw_only=True)
class Redefinition:
    """How a change defines the cases of one suite of the base.

    Attributes:
        dataset_id: The suite's name at the base.
        altered: Cases of which it expects something else of the same input.
        replaced: Cases of which it asks something else, or which it removes.
        renamed: The new id of each case that it only calls otherwise, by the old one.
        of_base: The base's versions of those of `replaced`, as a suite; None without any, and for a suite of
            conversations, whose file has no cases.
    """

    dataset_id: str
    altered: Sequence[str] = ()
    replaced: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    of_base: Path | None = None


def redefinitions(
    targets: Sequence[Target], patterns: Sequence[str], versions: Versions
) -> dict[str, Redefinition]:
    """Compare the suites of a change with those of its base.

    Args:
        targets: Suites of what is checked out.
        patterns: The paths and globs that the rules name as suites.
        versions: Knows the base and the private clone.

    Returns:
        By slug of the suite of the change; of one that it has no more, by the slug at the base.
    """
    if not versions.is_change:
        return {}
    mine = {target.slug: _raw_cases(target.source or open_suite(target.path)) for target in targets}
    found = {}
    for source in _suites_of_base(patterns, versions):
        before = _raw_cases(source)
        slug = _same_suite(safe_name(source.header.dataset_id), before, mine)
        found[slug] = _redefinition(source, before, mine.get(slug, {}), versions)
    return found


def _raw_cases(source: SuiteSource) -> dict[str, dict[str, Any]]:
    return {case.case_id: raw for raw, case in source.cases()}


def _suites_of_base(patterns: Sequence[str], versions: Versions) -> Iterator[SuiteSource]:
    """Write the suites that the patterns name at the base beside the private clone, and open them.

    One that cannot be read says nothing: what the change has in its place is new.
    """
    clone, place = versions.clone, versions.place
    if clone is None or place is None:
        return
    top = clone.home / "suites-of-base"
    here = versions.where(Path.cwd()) or "."
    for name in clone.files(place.base):
        is_suite = Path(name).suffix.lower() in SUITE_SUFFIXES
        if is_suite and (data := clone.file(name, place.base)) is not None:
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            (top / name).write_bytes(data)
    root = top / here
    names = [
        name
        for pattern in patterns
        if not is_bundled_name(pattern) and not Path(pattern).is_absolute()
        for name in (sorted(glob.glob(pattern, root_dir=root, recursive=True)) or [pattern])
    ]
    for name in dict.fromkeys(names):
        if (root / name).is_file():
            try:
                yield open_suite(root / name)
            except AgentEvalError:
                continue


def _same_suite(
    slug: str, before: Mapping[str, dict[str, Any]], mine: Mapping[str, Mapping[str, dict[str, Any]]]
) -> str:
    """Find the change's suite that is this one: of the same name, else the one that asks the most alike."""
    if slug in mine or not before:
        return slug
    asked = {asked_digest(raw) for raw in before.values()}
    shared = {
        name: len(asked & {asked_digest(raw) for raw in cases.values()}) for name, cases in mine.items()
    }
    best = max(shared, key=lambda name: shared[name], default=None)
    return best if best is not None and shared[best] >= SAME_SUITE * len(asked) else slug


def _redefinition(
    source: SuiteSource,
    before: Mapping[str, dict[str, Any]],
    mine: Mapping[str, dict[str, Any]],
    versions: Versions,
) -> Redefinition:
    new = {_meaning(mine[case_id]): case_id for case_id in mine if case_id not in before}
    altered, replaced, renamed = [], [], {}
    for case_id, raw in before.items():
        now = mine.get(case_id)
        if now is not None and _meaning(now) == _meaning(raw):
            continue
        if now is not None and asked_digest(now) == asked_digest(raw):
            altered.append(case_id)
        elif (other := new.get(_meaning(raw))) is not None:
            renamed[case_id] = other
        else:
            replaced.append(case_id)
    return Redefinition(
        dataset_id=source.header.dataset_id,
        altered=altered,
        replaced=replaced,
        renamed=renamed,
        of_base=_write(source, [before[case_id] for case_id in replaced], versions) if replaced else None,
    )


def _meaning(raw: Mapping[str, Any]) -> str:
    """Digest of what a case asks and expects, whatever it is called."""
    return digest({key: value for key, value in definition_of(dict(raw)).items() if key != "case_id"})


def _write(source: SuiteSource, cases: Sequence[Mapping[str, Any]], versions: Versions) -> Path | None:
    """Write cases of the base as a suite of their own."""
    header = source.document.raw_header
    if versions.clone is None or looks_like_aui(header):
        return None
    path = versions.clone.home / "of-base" / f"{safe_name(source.header.dataset_id)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dumps({**header, "cases": list(cases)}))
    return path
