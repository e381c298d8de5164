"""Check that what a pack says twice agrees: index and verdicts with the trajectories.

The seal shows that files have not changed since it was made; a program that changes a file can also make a
new seal. A verdict cannot be derived from the pack alone, since judges may be any code, but much else can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import Case
from agent_eval.contracts.base import EARLIER
from agent_eval.evidence import layout as at
from agent_eval.evidence.index import index_row
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.rows import first_problem
from agent_eval.evidence.sources import invalid_pack

_REMEDY = "Do not trust this pack: get it again from where it was made, or run the suite again."


def check_agreement(pack: Pack) -> None:
    """Check each case of a verified pack against its trajectory.

    The index must have the digests, calls, models, tokens, cost and latency that follow from the trace of the
    deciding trial. Each trial must have a trace. Each verdict must refer to events that exist, and each judge
    must have judged each trial.

    Raises:
        InvalidPack: They disagree; the error names the case and the field.

    Example:
        >>> from pathlib import Path
        >>> from agent_eval.config.spec import Output, RunSpec
        >>> from agent_eval.evidence.reader import open_pack
        >>> from agent_eval.operations.run import run_suite
        >>> from agent_eval.storage.json import dumps
        >>> case = {"case_id": "refund", "input": "Refund it."}
        >>> size = Path("suite.json").write_bytes(dumps({"dataset_id": "shop", "cases": [case]}))
        >>> run = run_suite(RunSpec(suite=Path("suite.json"), output=Output(pack=Path("pack"))), environ={})
        >>> check_agreement(open_pack(run.pack))
    """
    judges = set(pack.summary.judge_counts)
    copies = _Copies(pack) if pack.manifest.layout == "files" else None
    for row, result, (raw, _) in zip(pack.index(), pack.results(), pack.trajectories(), strict=True):
        case_id = row["case_id"]
        for problem in _problems(row, result, raw, judges):
            what = f"case {case_id[:200]!r}: {problem}"
            raise invalid_pack(pack.name, at.INDEX, what, remedy=_REMEDY)
        if copies is not None:
            copies.add(raw, result)
    if copies is not None:
        copies.check()


class _Copies:
    """Digests of the files that repeat cases: all events, and the verdicts of each judge."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._events = hashlib.sha256()
        self._judges = {name: (hashlib.sha256(), at.IndentedList()) for name in pack.summary.judge_counts}

    def add(self, raw: dict[str, Any], result: Mapping[str, Any]) -> None:
        """Add what the files must have of a case."""
        manifest = self._pack.manifest
        for line in at.event_lines(manifest.run_id, manifest.dataset_id, raw):
            self._events.update(line)
        for verdict in result["verdicts"]:
            hasher, items = self._judges[verdict["judge_id"]]
            hasher.update(items.item(verdict))

    def check(self) -> None:
        """Refuse the pack if a file is not what it repeats.

        Raises:
            InvalidPack: A file differs.
        """
        expected = {at.EVENTS: self._events.hexdigest()}
        for name, (hasher, items) in self._judges.items():
            hasher.update(items.end())
            expected[at.judge_file(name)] = hasher.hexdigest()
        actual = {entry.path: entry.sha256 for entry in self._pack.run_files()}
        of_judges = {path for path in actual if path.startswith(f"{at.JUDGES}/")}
        for path in sorted({*expected, *of_judges}):
            if actual.get(path) != expected.get(path):
                what = "does not repeat what cases/ has"
                raise invalid_pack(self._pack.name, path, what, remedy=_REMEDY)


def _problems(
    row: Mapping[str, Any], result: Mapping[str, Any], raw: dict[str, Any], judges: set[str]
) -> Iterator[str]:
    """Yield what disagrees about a case."""
    try:
        case = Case.model_validate(raw, context=EARLIER)
    except ValidationError as error:
        yield f"its trajectory: {first_problem(error)}"
        return
    trials = result.get("trials") or [result]
    if case.trial_count != len(trials):
        yield f"it has {case.trial_count} trajectories and the verdicts of {len(trials)} trials"
        return
    for number, trial in enumerate(trials):
        yield from _verdict_problems(trial["verdicts"], case.of_trial(number), judges)
    deciding = case.of_trial(result["trial"])
    expected: Mapping[str, Any] = index_row(raw, deciding, deciding.recorded)
    if "topic" in row:
        expected = {"topic": None, **expected}
    for field, value in expected.items():
        # Versions before 1.2 knew no topics, so that a row without one says nothing.
        if row.get(field) != value and (field in row or field != "topic"):
            yield f"its {field} in the index does not follow from its trajectory"


def _verdict_problems(verdicts: list[Mapping[str, Any]], case: Case, judges: set[str]) -> Iterator[str]:
    events = {event.idx for event in case.trace}
    for verdict in verdicts:
        judge = str(verdict["judge_id"])[:100]
        if not events.issuperset(verdict["evidence_refs"]):
            yield f"the verdict of {judge} refers to an event that its trajectory does not have"
    for name in sorted(judges - {verdict["judge_id"] for verdict in verdicts}):
        yield f"judge {name[:100]!r} judged some cases or trials only"
