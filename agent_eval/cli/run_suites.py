"""The runs that one command line asks for: one for each suite, each with an evidence pack of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import specified
from agent_eval.cli.output import emit, print_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_eval.config.spec import RunSpec

RUNS = "runs"
"""The directory of packs for which `--out` names no place."""
RESULTS = "results"
"""The directory of packs and reports of suites of conversations for which `--out` names no place."""
PACK = "pack"
"""Name of a pack beside which the reports on its conversations are written."""
OUT = "agent_eval.out"
"""Key of the context's `meta`: what `--out` says, or the place that was chosen instead."""

_OF_ONE_SUITE = {
    "cases": "--case",
    "shard": "--shard",
    "identity__run_id": "--run-id",
    "agent__cassette_mode": "--cassette with live tools",
}
"""Parameters that mean something for one suite only, with their flags."""


def requested_runs(suites: Sequence[str], values: Mapping[str, Any]) -> list[RunSpec]:
    """Build the specification of a run of each suite that the command line names.

    `--suite` may name more suites than the arguments.

    Raises:
        UsageError: No suite is named, or several with an option that is about one.
    """
    from agent_eval.cli.suites import allowed_keys
    from agent_eval.config.spec import RunSpec
    from agent_eval.suites.paths import is_of_conversations, overlooked, suite_paths

    allowed_keys(values.get("agent__key_variables") or ())
    named = (*values["suite"], *suites)
    if not named:
        raise click.UsageError("Name a suite, or several, as arguments or with --suite.")
    paths = suite_paths(named)
    for sentence in overlooked(named):
        print_error(sentence)
    options = {name: value for name, value in values.items() if name not in ("suite", "output__pack")}
    for parameter, flag in _OF_ONE_SUITE.items():
        if len(paths) > 1 and options.get(parameter):
            raise click.UsageError(f"{flag} is about one suite, and several are named.")
    if options.get("agent__resume") and values["output__pack"] is None:
        raise click.UsageError("--resume needs --out: the message of the run that stopped names its pack.")
    out = values["output__pack"] or _chosen_out(paths)
    click.get_current_context().meta[OUT] = out
    packs = [out]
    if len(paths) > 1:  # beside the packs of conversations are their reports
        folders = _names(paths).items()
        packs = [out / name / PACK if is_of_conversations(path) else out / name for path, name in folders]
    return [
        RunSpec(
            **specified(
                {**options, "suite": path, "output__pack": pack}, agent_is_known=is_of_conversations(path)
            )
        )
        for path, pack in zip(paths, packs, strict=True)
    ]


def _chosen_out(paths: Sequence[Path]) -> Path:
    """Choose where the evidence goes: a place of its own for each run."""
    from datetime import UTC
    from pathlib import Path

    from agent_eval.operations import clock
    from agent_eval.suites.paths import is_of_conversations

    moment = f"{clock.now(os.environ).astimezone(UTC):%Y%m%d-%H%M%S}"
    if is_of_conversations(paths[0]):
        place = Path(RESULTS) / (_suite_name(paths[0]) if len(paths) == 1 else "") / moment
        places = (folder / PACK if len(paths) == 1 else folder for folder in _numbered(place))
    else:
        name = f"{paths[0].stem}-{moment}" if len(paths) == 1 else moment
        places = (place for place in _numbered(Path(RUNS) / name))
    return next(place for place in places if not _is_used(place))


def _suite_name(path: Path) -> str:
    """Return the name of a suite of conversations, as the name of a directory."""
    from agent_eval.storage.files import readable_name
    from agent_eval.suites.reader import open_suite

    return readable_name(open_suite(path).header.dataset_id)


def _numbered(place: Path) -> Iterable[Path]:
    yield place
    yield from (place.with_name(f"{place.name}-{number}") for number in count(2))


def _is_used(place: Path) -> bool:
    from agent_eval.operations.resume import journal_path

    return os.path.lexists(place) or os.path.lexists(journal_path(place))


def _names(paths: Sequence[Path]) -> dict[Path, str]:
    """Name the pack of each suite after its file; a second suite of that name gets a number."""
    names: dict[Path, str] = {}
    for path in paths:
        numbered = (path.stem, *(f"{path.stem}-{number}" for number in range(2, len(paths) + 1)))
        names[path] = next(name for name in numbered if name not in names.values())
    return names


class Results:
    """Prints the results of the runs: prose after each, JSON as one object at the end. A context manager.

    `output` is the value of `--format`; `suites` are in the order of their runs.
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
        if self._output != "json":
            emit(self._output, {}, lambda colour: [f"{suite}:", *_lines(text(colour)), ""])

    def __enter__(self) -> Results:
        return self

    def __exit__(self, *_: object) -> None:
        if len(self._suites) == 1:
            return
        missing = list(self._suites[len(self._payloads) :])
        if self._output == "json":
            emit(self._output, {"runs": self._payloads, "not_run": missing}, lambda _colour: [])
        elif missing:
            emit(self._output, {}, lambda _colour: [f"Not run: {', '.join(missing)}"])


def _lines(text: str | Sequence[str]) -> Sequence[str]:
    return text.rstrip("\n").split("\n") if isinstance(text, str) else text
