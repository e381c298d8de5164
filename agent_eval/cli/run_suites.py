"""The runs that one command line asks for: one for each suite, each with an evidence pack of its own."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import specified
from agent_eval.cli.output import emit, wants_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_eval.config.spec import RunSpec

RUNS = "runs"
"""The directory of packs for which `--out` names no place."""
OUT = "agent_eval.out"
"""Key of the context's `meta`: what `--out` says, or the place that was chosen instead."""

_OF_ONE_SUITE = {
    "cases": "--case",
    "shard": "--shard",
    "identity__run_id": "--run-id",
    "output__summary_json": "--summary-json",
    "agent__record": "--record",
    "agent__update": "--update",
}
"""Parameters that mean something for one suite only, with their flags."""


def requested_runs(suites: Sequence[str], values: Mapping[str, Any]) -> list[RunSpec]:
    """Build the specification of a run of each suite that the command line names.

    Args:
        suites: Suites named as arguments; `--suite` may name more.
        values: The other parameters of the command.

    Raises:
        UsageError: No suite is named, or several with an option that is about one.
    """
    from agent_eval.config.spec import RunSpec
    from agent_eval.suites.paths import suite_paths

    named = (*values["suite"], *suites)
    if not named:
        raise click.UsageError("Name a suite, or several, as arguments or with --suite.")
    paths = suite_paths(named)
    options = {name: value for name, value in values.items() if name not in ("suite", "output__pack")}
    if len(paths) > 1:
        _refuse_what_is_about_one(options)
    out = values["output__pack"] or _chosen_out(paths, resume=bool(options.get("agent__resume")))
    click.get_current_context().meta[OUT] = out
    packs = [out] if len(paths) == 1 else [out / name for name in _names(paths)]
    return [
        RunSpec(**specified({**options, "suite": path, "output__pack": pack}))
        for path, pack in zip(paths, packs, strict=True)
    ]


def _refuse_what_is_about_one(options: Mapping[str, Any]) -> None:
    for parameter, flag in _OF_ONE_SUITE.items():
        if options.get(parameter):
            raise click.UsageError(f"{flag} is about one suite, and several are named.")


def _chosen_out(paths: Sequence[Path], *, resume: bool) -> Path:
    """Choose where the evidence goes: a place of its own for each run, or that of the run to resume."""
    from datetime import UTC
    from pathlib import Path

    from agent_eval.operations import clock

    runs = Path(RUNS)
    if resume:
        return _unfinished(runs, paths)
    moment = f"{clock.now(os.environ).astimezone(UTC):%Y%m%d-%H%M%S}"
    name = f"{paths[0].stem}-{moment}" if len(paths) == 1 else moment
    return next(place for place in _numbered(runs / name) if not _is_used(place))


def _numbered(place: Path) -> Iterable[Path]:
    yield place
    yield from (place.with_name(f"{place.name}-{number}") for number in count(2))


def _is_used(place: Path) -> bool:
    from agent_eval.operations.resume import journal_path

    return os.path.lexists(place) or os.path.lexists(journal_path(place))


def _unfinished(runs: Path, paths: Sequence[Path]) -> Path:
    """Return the place of the newest run of these suites that was not finished.

    Raises:
        UsageError: There is none.
    """
    is_one_suite = len(paths) == 1
    pattern = f"{glob.escape(paths[0].stem)}-*.journal" if is_one_suite else "*/*.journal"
    journals = sorted(runs.glob(pattern), key=lambda journal: (journal.stat().st_mtime, journal.name))
    if not journals:
        raise click.UsageError(
            f"--resume finds no unfinished run of {paths[0]} below {RUNS}/; name the pack with --out."
        )
    return journals[-1].with_suffix("") if is_one_suite else journals[-1].parent


def _names(paths: Sequence[Path]) -> list[str]:
    """Name the pack of each suite after its file; a second suite of that name gets a number."""
    names: list[str] = []
    for path in paths:
        numbered = (path.stem, *(f"{path.stem}-{number}" for number in range(2, len(paths) + 1)))
        names.append(next(name for name in numbered if name not in names))
    return names


class Results:
    """Prints the results of the runs: prose after each, JSON as one object at the end. A context manager.

    Args:
        output: The value of `--format`.
        suites: The suites, in the order of their runs.

    Example:
        >>> with Results("text", ["orders.json"]) as results:
        ...     results.add({}, lambda _colour: ["3 of 3 cases passed."])
        3 of 3 cases passed.
    """

    def __init__(self, output: str, suites: Sequence[str]) -> None:
        self._output, self._suites = output, suites
        self._payloads: list[dict[str, Any]] = []

    def add(self, payload: dict[str, Any], text: Callable[[bool], str | Sequence[str]]) -> None:
        """Add the result of the next run; the arguments are those of `output.emit`."""
        if len(self._suites) == 1:
            emit(self._output, payload, text)
            return
        suite = self._suites[len(self._payloads)]
        self._payloads.append({"suite": suite, **payload})
        if not wants_json(self._output):
            emit(self._output, {}, lambda colour: [f"{suite}:", *_lines(text(colour)), ""])

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        if len(self._suites) == 1:
            return
        missing = list(self._suites[len(self._payloads) :])
        if wants_json(self._output):
            emit(self._output, {"runs": self._payloads, "not_run": missing}, lambda _colour: [])
        elif missing:
            emit(self._output, {}, lambda _colour: [f"Not run: {', '.join(missing)}"])


def _lines(text: str | Sequence[str]) -> Sequence[str]:
    return text.rstrip("\n").split("\n") if isinstance(text, str) else text
