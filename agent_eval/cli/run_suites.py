"""The runs that one command line asks for, one for each suite, and what they leave and print."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import specified
from agent_eval.cli.output import emit, print_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from agent_eval.config.spec import RunSpec
    from agent_eval.contracts.conversation_result import ConversationResult

RUNS = "runs"
"""The directory of packs for which `--out` names no place."""
RESULTS = "results"
"""The directory of packs and reports of suites of conversations for which `--out` names no place."""
PACK = "pack"
"""Name of a pack beside which the reports on its conversations are written."""
SCORES, SUMMARY = "_results.json", "_summary.md"
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
        folders = zip(paths, _distinct(path.stem for path in paths), strict=True)
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
    from agent_eval.operations.resume import journal_path
    from agent_eval.storage.files import readable_name
    from agent_eval.suites.paths import is_of_conversations
    from agent_eval.suites.reader import open_suite

    moment = f"{clock.now(os.environ).astimezone(UTC):%Y%m%d-%H%M%S}"
    is_alone, pack = len(paths) == 1, ""
    if not is_of_conversations(paths[0]):
        place = Path(RUNS) / (f"{paths[0].stem}-{moment}" if is_alone else moment)
    elif is_alone:
        place, pack = Path(RESULTS) / readable_name(open_suite(paths[0]).header.dataset_id) / moment, PACK
    else:
        place = Path(RESULTS) / moment
    names = chain([place.name], (f"{place.name}-{number}" for number in count(2)))
    chosen = (place.with_name(name) / pack for name in names)
    return next(out for out in chosen if not (os.path.lexists(out) or os.path.lexists(journal_path(out))))


def _distinct(names: Iterable[str]) -> list[str]:
    """Add a number to a name that an earlier one has, also where letter case does not count.

    Example:
        >>> _distinct(["orders", "Orders", "orders"])
        ['orders', 'Orders-2', 'orders-3']
    """
    chosen: dict[str, str] = {}
    for name in names:
        numbered = chain([name], (f"{name}-{number}" for number in count(2)))
        own = next(each for each in numbered if each.casefold() not in chosen)
        chosen[own.casefold()] = own
    return list(chosen.values())


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


def report_conversations(pack: Path, *, debug: bool) -> tuple[dict[str, Any], list[str]]:
    """Score a run of conversations; write the reports if its pack is in a directory made for them.

    These are results, a summary and a page for each test, beside the pack. What they say is read from the
    pack, which holds no secret. With `debug`, the pages show the agent's raw responses.

    Returns the figures, for programs; and the lines that people read after the totals.
    """
    from agent_eval.operations.run_conversations import conversation_results
    from agent_eval.reports.conversations import conversation_markdown, percent_text, summary_markdown
    from agent_eval.storage.atomic import write_file
    from agent_eval.storage.files import readable_name
    from agent_eval.storage.json import dumps
    from agent_eval.text.escape import clean

    is_beside, folder, result = pack.name == PACK, pack.parent, conversation_results(pack)
    figures: dict[str, Any] = {
        "score": result.score,
        "pass_rate": result.pass_rate,
        "error_tests": result.error_tests,
        "reports": str(folder) if is_beside else None,
    }
    counts = ((result.error_tests, "ended in an error"), (result.not_evaluated, "not evaluated"))
    left_out = ", ".join(f"{number} {words}" for number, words in counts if number)
    lines = [f"Score: {percent_text(result.score)}" + (f" (without {left_out})" if left_out else "")]
    if is_beside:
        lines.append(f"Reports: {clean(str(folder / SUMMARY), limit=1000)}")
        by_test: dict[str, list[ConversationResult]] = {}
        for test in result.tests:
            by_test.setdefault(test.name, []).append(test)
        pages = _distinct(map(readable_name, by_test))
        files = {name: f"{page}.md" for name, page in zip(by_test, pages, strict=True)}
        for name, conversations in by_test.items():
            page = conversation_markdown(conversations, debug=debug)
            write_file(folder / files[name], page.encode())
        write_file(folder / SCORES, dumps(result.to_json(), indent=True))
        write_file(folder / SUMMARY, summary_markdown(result, files).encode())
    return figures, lines
