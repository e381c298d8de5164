"""Check that what a pack says twice agrees: index and verdicts with the trajectories.

The seal shows that files have not changed since it was made; a program that changes a file can also make a
new seal. A verdict cannot be derived from the pack alone, since judges may be any code, but much else can.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import Case, Manifest
from agent_eval.contracts.base import EARLIER
from agent_eval.evidence import layout as at
from agent_eval.evidence.index import index_row
from agent_eval.evidence.rows import first_problem
from agent_eval.evidence.sources import invalid_pack
from agent_eval.evidence.verify import Seal

_REMEDY = "Do not trust this pack: get it again from where it was made, or run the suite again."


CaseRows = tuple[Mapping[str, Any], Mapping[str, Any], dict[str, Any]]
"""What a pack has of a case: its row of the index, its result, and its trajectory as plain JSON."""


def check_agreement(pack: str, seal: Seal, judges: set[str], cases: Iterable[CaseRows]) -> None:
    """Check each case of a pack against its trajectory; `open_pack` does this.

    The index must have the digests, calls, models, tokens, cost and latency that follow from the trace of the
    deciding trial. Each trial must have a trace. Each verdict must refer to events that exist, and each judge
    must have judged each trial. Files that repeat cases must repeat what they are.

    Raises:
        InvalidPack: They disagree; the error names the case and the field.
    """
    copies = _Copies(seal.manifest, judges) if seal.manifest.layout == "files" else None
    for row, result, raw in cases:
        for problem in _problems(row, result, raw, judges):
            what = f"case {row['case_id'][:200]!r}: {problem}"
            raise invalid_pack(pack, at.INDEX, what, remedy=_REMEDY)
        if copies is not None:
            copies.add(raw, result)
    if copies is not None and (path := copies.differing(seal)) is not None:
        raise invalid_pack(pack, path, "does not repeat what cases/ has", remedy=_REMEDY)


class _Copies:
    """Digests of the files that repeat cases: all events, and the verdicts of each judge."""

    def __init__(self, manifest: Manifest, judges: set[str]) -> None:
        self._manifest = manifest
        self._events = hashlib.sha256()
        self._judges = {name: (hashlib.sha256(), at.IndentedList()) for name in judges}

    def add(self, raw: dict[str, Any], result: Mapping[str, Any]) -> None:
        """Add what the files must have of a case."""
        for line in at.event_lines(self._manifest.run_id, self._manifest.dataset_id, raw):
            self._events.update(line)
        for verdict in result["verdicts"]:
            hasher, items = self._judges[verdict["judge_id"]]
            hasher.update(items.item(verdict))

    def differing(self, seal: Seal) -> str | None:
        """Find the first file that is not what it repeats; None without any."""
        expected = {at.EVENTS: self._events.hexdigest()}
        for name, (hasher, items) in self._judges.items():
            hasher.update(items.end())
            expected[at.judge_file(name)] = hasher.hexdigest()
        of_judges = {path for path in seal.run_files if path.startswith(f"{at.JUDGES}/")}
        for path in sorted({*expected, *of_judges}):
            entry = seal.run_files.get(path)
            if entry is None or entry.sha256 != expected.get(path):
                return path
        return None


def _problems(
    row: Mapping[str, Any], result: Mapping[str, Any], raw: dict[str, Any], judges: set[str]
) -> Iterator[str]:
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
    for field, value in index_row(raw, deciding, deciding.recorded).items():
        if row.get(field) != value:
            yield f"its {field} in the index does not follow from its trajectory"


def _verdict_problems(verdicts: list[Mapping[str, Any]], case: Case, judges: set[str]) -> Iterator[str]:
    events = {event.idx for event in case.trace}
    for verdict in verdicts:
        judge = str(verdict["judge_id"])[:100]
        if not events.issuperset(verdict["evidence_refs"]):
            yield f"the verdict of {judge} refers to an event that its trajectory does not have"
    for name in sorted(judges - {verdict["judge_id"] for verdict in verdicts}):
        yield f"judge {name[:100]!r} judged some cases or trials only"
