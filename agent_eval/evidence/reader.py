"""Reading evidence packs. Opening a pack verifies all of it; nothing unverified is ever returned.

The seal shows that files have not changed since it was made; a program that changes a file can also make a
new seal. A verdict cannot be derived from the pack alone, since judges may be any code, but much else can,
and opening checks it. Cases are checked one after the other, and read again when they are asked for: a pack
takes little memory until its rows are asked for, and hardly more than its index then.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from copy import copy
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import orjson
from pydantic import ValidationError

from agent_eval.contracts import (
    Case,
    CaseIndexRow,
    CaseResultRow,
    DerivedManifest,
    FileEntry,
    Manifest,
    RunConfig,
    RunSummary,
    Tally,
    definition_digest,
)
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.verdict import REPLAY_CONTRACT
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.evidence import layout as at
from agent_eval.evidence.attachments import artifacts_in
from agent_eval.evidence.index import index_row
from agent_eval.evidence.rows import (
    ResultChecker,
    Rows,
    RowsById,
    first_problem,
    index_rows,
    lines_in,
    lines_of,
    parse_json,
)
from agent_eval.evidence.sources import DirectorySource, PackSource, invalid_pack
from agent_eval.evidence.verify import Admit, Seal, parse_contract, read_seal, read_verified, verify_files
from agent_eval.processes.forked import forked_processes, processes_for
from agent_eval.storage.json import dumps, parse
from agent_eval.text.spelling import nearest

_DO_NOT_TRUST = "Do not trust this pack: get it again from where it was made, or run the suite again."
_FILES_OF_LINES = 2
"""Files of lines that are kept after reading: a shard's trajectories and its verdicts."""


class Watch(Protocol):
    """Gets each case of a pack as soon as `open_pack` has checked it, which spares a second reading.

    Of the pack, only the manifest, the configuration and the summary may be read by then. What it notes
    counts for nothing where `open_pack` raises in the end. Processes may each see a part of the cases: then
    `add` gets what each of them noted, in the order of the suite.
    """

    noted: Any
    """What was made of the cases so far: something that another process can be sent."""

    def __call__(self, pack: Pack, case: Case, result: CaseResultRow) -> None:
        """Look at a case."""
        ...

    def add(self, noted: Any) -> None:
        """Add what was noted of the cases that follow."""
        ...


class _Checked(NamedTuple):
    """What checking a part of the cases gives: counts, 64 bits of the digest of each id, what was noted."""

    tally: Tally
    ids: array[int]
    copies: _Copies | None
    noted: Any


def open_pack(where: Path | PackSource, *, admit: Admit | None = None, watch: Watch | None = None) -> Pack:
    """Open and verify a pack. Use it whenever a decision depends on the content of the pack.

    It checks both manifests; that exactly the listed files exist, regular, reached without links, with the
    listed sizes and digests; that configuration, summary, index and verdicts belong together, case by case;
    that every outcome follows from its verdicts, and the summary from all of them; that index and verdicts
    fit the trajectories. What is read later is hashed again.

    `where` is the directory of the pack, or another source of its files, such as `ArchiveSource`. `admit`
    checks the pack's origin before its content is parsed. `watch` gets every case, which spares who needs all
    of them a second reading.

    Raises:
        InvalidPack: The pack does not verify; the error names the file and the problem.
    """
    source = DirectorySource(where) if isinstance(where, Path) else where
    with source.shared():
        seal = read_seal(source, admit)
        verify_files(source, seal)
        return Pack(source, seal, watch)


def verify_pack(where: Path) -> Seal:
    """Check that the files of a pack have not changed since it was sealed, without parsing them.

    Use it where `open_pack` opened the pack earlier, for a result that names the digest of its manifest.

    Raises:
        InvalidPack: The pack does not verify; the error names the file and the problem.
    """
    source = DirectorySource(where)
    with source.shared():
        seal = read_seal(source)
        verify_files(source, seal)
        return seal


def refuse_incomplete(pack: str, manifest: Manifest) -> None:
    """Refuse the pack of a run that was stopped: cases that did not run might have failed."""
    if not manifest.complete:
        what = "belongs to a run that is not complete, so nothing can be decided on it"
        remedy = "Finish the run with the command that began it and --resume, or run the suite to its end."
        raise invalid_pack(pack, at.MANIFEST, what, remedy=remedy)


class CaseName(NamedTuple):
    """The id under which a case is read, that of the pack, and the digest of its definition by the former."""

    case_id: str
    stored: str
    definition: str


class Pack:
    """Verified pack, for reading. `open_pack` makes it.

    Attributes:
        manifest_sha256: Digest of the bytes of `manifest.json`, which identifies the pack.
        derived: Manifest of the files that were written into it after the run; None without any.
    """

    def __init__(self, source: PackSource, seal: Seal, watch: Watch | None = None) -> None:
        self._source = source
        self._seal = seal
        self._lines_read: dict[str, list[bytes]] = {}
        self._renamed: dict[str, CaseName] = {}
        self.name = source.name
        self.manifest: Manifest = seal.manifest
        self.manifest_sha256 = seal.manifest_sha256
        self.derived: DerivedManifest | None = seal.derived
        self.config = parse_contract(RunConfig, self.read(at.CONFIG), pack=self.name, path=at.CONFIG)
        self.summary = parse_contract(RunSummary, self.read(at.SUMMARY), pack=self.name, path=at.SUMMARY)
        self._starts: list[int] = []
        """Position of the first case of each shard, in the compact layout."""
        self._in_folders: list[bytes] = []
        """The result of each case, in the layout with a folder for each."""
        self._artifacts: tuple[str, dict[str, dict[str, bytes]]] = ("", {})
        self._paths = list(seal.run_files)
        self._check_run()
        self._check_summary(self._check_cases(watch))
        self._check_judges()
        self._lines_read.clear()

    @cached_property
    def _index(self) -> list[bytes]:
        return lines_of(self.read(at.INDEX), pack=self.name, path=at.INDEX)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {orjson.loads(line)["case_id"]: position for position, line in enumerate(self._index)}

    @property
    def directory(self) -> Path:
        """The pack's directory; of one within an archive there is none."""
        assert isinstance(self._source, DirectorySource)
        return self._source.root

    def index(self) -> Rows[CaseIndexRow]:
        """Return the rows of the index, in suite order; each is built on access."""
        return Rows(self.manifest.case_count, self._index_row)

    def results(self) -> Rows[CaseResultRow]:
        """Return the result of every case, in the order of `index`; each is read on access."""
        return Rows(self.manifest.case_count, self._result_row)

    def index_by_id(self) -> Mapping[str, CaseIndexRow]:
        """Return the rows of the index by the id of their case; each is built on access."""
        return RowsById(self._positions, self._index_row)

    def results_by_id(self) -> Mapping[str, CaseResultRow]:
        """Return the result of every case by the id of the case; each is read on access."""
        return RowsById(self._positions, self._result_row)

    def case_ids(self) -> list[str]:
        """List the ids of all cases, in suite order."""
        return list(self._positions)

    def under_names(self, names: Mapping[str, str]) -> Self:
        """Return this pack with other ids for some cases: `names` has the new ones by those of the pack."""
        pack = copy(self)
        pack._positions = {names.get(name, name): position for name, position in self._positions.items()}
        pack._renamed = dict(self._renamed)
        for stored, case_id in names.items():
            definition = definition_digest({**self.raw_trajectory(stored), "case_id": case_id})
            pack._renamed[case_id] = pack._renamed[stored] = CaseName(case_id, stored, definition)
        return pack

    def renamed(self) -> list[CaseName]:
        """List the cases that are read under another id, in suite order."""
        return [self._renamed[case_id] for case_id in self._positions if case_id in self._renamed]

    def files(self) -> list[FileEntry]:
        """List every file but the manifests: those of the run, then those that were written later."""
        return self._seal.files()

    def run_files(self) -> list[FileEntry]:
        """List the files of the run part, which `manifest.json` seals; it is not among them."""
        return list(self._seal.run_files.values())

    def read(self, path: str) -> bytes:
        """Read a listed file, and verify it again.

        Raises:
            InvalidInput: The pack has no such file.
            InvalidPack: The file changed since the pack was opened.
        """
        entry = self._seal.run_files.get(path) or self._seal.derived_files.get(path)
        if entry is None:
            raise InvalidInput(f"{self.name}: no file {path[:300]!r}", file=path, pack=self.name)
        return b"".join(read_verified(self._source, entry, self._seal))

    def trajectory(self, case_id: str, trial: int | None = None) -> Case:
        """Read a case with the trace of one of its trials, as it was judged.

        `trial` is the number of the trial, from 0; None for the one that decides the case.

        Raises:
            InvalidInput: The pack has no such case.
            InvalidPack: The file changed since the pack was opened, or does not contain this case or trial.
        """
        raw, path = self._raw_trajectory(case_id)
        if trial is None:
            trial = self._result_row(self._positions[case_id])["trial"]
        try:
            return Case.model_validate(raw, context=EARLIER).of_trial(trial)
        except ValidationError as error:
            what = f"case {case_id[:200]!r}: {first_problem(error)}"
            raise invalid_pack(self.name, path, what) from error
        except IndexError as error:
            what = f"case {case_id[:200]!r}: has no trial {trial}, which its result names"
            raise invalid_pack(self.name, path, what) from error

    def artifacts(self, case_id: str) -> dict[str, bytes]:
        """Read the artifacts of a case: its further files by name, sorted by name.

        Names are paths below the `artifacts/` of the case, and are checked not to lead out of it.

        Raises:
            InvalidInput: The pack has no such case.
            InvalidPack: A file changed since the pack was opened, or does not contain artifacts.
        """
        position = self._position(case_id)
        if self.manifest.layout == "compact":
            path = at.artifacts_shard(self._shard_of(position))
            if path not in self._seal.run_files:
                return {}
            if self._artifacts[0] != path:
                self._artifacts = (path, artifacts_in(self.read(path), pack=self.name, path=path))
            return self._artifacts[1].get(self._stored(case_id), {})
        prefix = at.artifact_file(self.manifest.case_directories[self._stored(case_id)], "")
        artifacts: dict[str, bytes] = {}
        for path in self._paths[bisect_left(self._paths, prefix) :]:
            if not path.startswith(prefix):
                break
            artifacts[path.removeprefix(prefix)] = self.read(path)
        return artifacts

    def raw_trajectory(self, case_id: str) -> dict[str, Any]:
        """Read a case like `trajectory`, but as the JSON of the pack, with fields that no contract has."""
        return self._raw_trajectory(case_id)[0]

    def _raw_trajectory(self, case_id: str) -> tuple[dict[str, Any], str]:
        stored = self._stored(case_id)
        raw, path = self._read_case(self._position(case_id), stored)
        return {**raw, "case_id": case_id} if stored != case_id else raw, path

    def _read_case(self, position: int, stored: str) -> tuple[dict[str, Any], str]:
        """Read the case at a position, which the pack has under this id; return it and its file."""
        if self.manifest.layout == "compact":
            shard = self._shard_of(position)
            path, line = at.trajectories_shard(shard), position - self._starts[shard]
            raw = parse_json(self._lines(path)[line], pack=self.name, path=path, first_line=line + 1)
        else:
            path = at.trajectory_file(self.manifest.case_directories[stored])
            raw = parse_json(self.read(path), pack=self.name, path=path)
        if not isinstance(raw, dict) or raw.get("case_id") != stored:
            what = f"does not hold case {stored[:200]!r} where the index has it"
            raise invalid_pack(self.name, path, what)
        return raw, path

    def cases(self) -> Iterator[tuple[Case, CaseResultRow]]:
        """Yield every case in suite order, with all of its trials, and its result."""
        for case_id, result in zip(self._positions, self.results(), strict=True):
            yield Case.model_validate(self.raw_trajectory(case_id), context=EARLIER), result

    def trajectories(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Yield every case in suite order: its JSON, and its bytes as `storage.json.dumps` writes them."""
        for case_id in self._positions:
            raw = self.raw_trajectory(case_id)
            yield raw, dumps(raw)

    def _index_row(self, position: int) -> CaseIndexRow:
        row: CaseIndexRow = orjson.loads(self._index[position])
        if (name := self._renamed.get(row["case_id"])) is not None:
            row["case_id"], row["definition_digest"] = name.case_id, name.definition
        return row

    def _result_row(self, position: int) -> CaseResultRow:
        if self.manifest.layout == "compact":
            shard = self._shard_of(position)
            line = self._lines(at.verdicts_shard(shard))[position - self._starts[shard]]
        else:
            line = self._in_folders[position]
        row: CaseResultRow = orjson.loads(line)
        if (name := self._renamed.get(row["case_id"])) is not None:
            for result in (row, *(row.get("trials") or ())):
                result["case_id"] = name.case_id
                for verdict in result["verdicts"]:
                    verdict["case_id"] = name.case_id
        return row

    def _stored(self, case_id: str) -> str:
        return self._renamed[case_id].stored if case_id in self._renamed else case_id

    def _position(self, case_id: str) -> int:
        position = self._positions.get(case_id)
        if position is None:
            near = nearest(case_id[:200], self._positions.keys(), 0.6)
            hint = f"Did you mean {near!r}? " if near is not None else ""
            remedy = f"{hint}List the cases with the pack's run/index.jsonl."
            raise InvalidInput(f"{self.name}: no case {case_id[:200]!r}", remedy=remedy, case_id=case_id)
        return position

    def _shard_of(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    def _lines(self, path: str) -> list[bytes]:
        if path not in self._lines_read:
            if len(self._lines_read) == _FILES_OF_LINES:
                del self._lines_read[next(iter(self._lines_read))]
            self._lines_read[path] = lines_of(self.read(path), pack=self.name, path=path)
        return self._lines_read[path]

    def _check_run(self) -> None:
        manifest = self.manifest
        for path, part in ((at.CONFIG, self.config), (at.SUMMARY, self.summary)):
            if (part.run_id, part.dataset_id) != (manifest.run_id, manifest.dataset_id):
                raise invalid_pack(self.name, path, "names another run or dataset than manifest.json")
        if manifest.layout == "files":
            return
        start = 0
        for shard in range(sum(path.startswith(at.TRAJECTORY_SHARDS) for path in self._paths)):
            self._starts.append(start)
            if not (verdicts := self._lines(at.verdicts_shard(shard))):
                self._verdicts_of(shard)  # of a shard without any, no case would ask for them
            start += len(verdicts)
            if start > manifest.case_count:
                what = f"and the shards before it have {start} cases, {at.INDEX} has {manifest.case_count}"
                raise invalid_pack(self.name, at.verdicts_shard(shard), what)

    def _check_cases(self, watch: Watch | None) -> Tally:
        """Check each case, those of a large pack by several processes; return what the results count."""
        shards, count = len(self._starts), self.manifest.case_count
        # An archive is one open file, whose position all would share.
        number = processes_for(shards) if isinstance(self._source, DirectorySource) else 1
        if number == 1:
            checked = [self._check_part((0, count), watch)]
        else:
            from concurrent.futures import BrokenExecutor  # few packs need it

            starts = self._starts[:: -(-shards // number)]
            try:
                with forked_processes(number, _forked.append, (self, watch)) as pool:
                    checked = list(pool.map(_check_forked, zip(starts, [*starts[1:], count], strict=True)))
            except BrokenExecutor as error:
                raise NotEvaluable(
                    f"{self.name} was not checked: a process that checks it was ended",
                    remedy="Give the command more memory, and look who ended it.",
                ) from error
            if watch is not None:
                for part in checked:
                    watch.add(part.noted)
        ids, tally = array("Q"), Tally()
        for part in checked:
            ids += part.ids
            tally.merge(part.tally)
        if len(set(ids)) < len(ids):
            raise invalid_pack(self.name, at.INDEX, "has a case twice")
        if (copies := checked[0].copies) is not None:
            if len(self.manifest.case_directories) != len(ids):
                what = "has directories for cases that the index does not list"
                raise invalid_pack(self.name, at.MANIFEST, what)
            if (path_of_copy := copies.differing(self._seal)) is not None:
                what = "does not repeat what cases/ has"
                raise invalid_pack(self.name, path_of_copy, what, remedy=_DO_NOT_TRUST)
        return tally

    def _check_part(self, part: tuple[int, int], watch: Watch | None) -> _Checked:
        """Check cases from one position up to another against their rows of the index and trajectories."""
        first, end = part
        checker, judges, ids = ResultChecker(self.name), set(self.summary.judge_counts), array("Q")
        copies = _Copies(self.manifest, judges) if self.manifest.layout == "files" else None
        index = read_verified(self._source, self._seal.run_files[at.INDEX], self._seal)
        lines = lines_in(index, pack=self.name, path=at.INDEX)
        count = sum(1 for _ in islice(lines, first))
        rows = index_rows(islice(lines, end - first), pack=self.name, path=at.INDEX, first_line=first + 1)
        for position, row in enumerate(rows, first):
            count = position + 1
            case_id = row["case_id"]
            # 64 bits an id: all ids of a large run would take most of the memory.
            ids.append(int.from_bytes(hashlib.blake2b(case_id.encode(), digest_size=8).digest(), "little"))
            result, path, number = self._parsed_result(position, case_id)
            checker.check(result, path, number)
            if result["case_id"] != case_id:
                what = f"has case {result['case_id'][:200]!r} where the index has {case_id[:200]!r}"
                raise invalid_pack(self.name, path, what)
            raw, _ = self._read_case(position, case_id)
            try:
                case = Case.model_validate(raw, context=EARLIER)
                problem = next(_problems(row, result, raw, case, judges), None)
            except ValidationError as error:
                problem = f"its trajectory: {first_problem(error)}"
            if problem is not None:
                what = f"case {case_id[:200]!r}: {problem}"
                raise invalid_pack(self.name, at.INDEX, what, remedy=_DO_NOT_TRUST)
            if copies is not None:
                copies.add(raw, result)
            if watch is not None:
                watch(self, case, result)
        count += sum(1 for _ in lines)
        if count != self.manifest.case_count:
            what = f"has {count} cases, manifest.json says {self.manifest.case_count}"
            raise invalid_pack(self.name, at.INDEX, what)
        return _Checked(checker.tally(), ids, copies, None if watch is None else watch.noted)

    def _parsed_result(self, position: int, case_id: str) -> tuple[Any, str, int]:
        """Read the result of a case; return it, its file, and its number in that."""
        if self.manifest.layout == "compact":
            if (shard := self._shard_of(position)) < 0:  # there is none
                raise invalid_pack(self.name, at.INDEX, "has cases without verdicts")
            path, number = at.verdicts_shard(shard), position - self._starts[shard] + 1
            lines = self._verdicts_of(shard)
            if number > len(lines):
                raise invalid_pack(self.name, at.INDEX, "has cases without verdicts")
            line = lines[number - 1]
        elif case_id not in self.manifest.case_directories:
            what = f"has no directory for case {case_id[:200]!r}"
            raise invalid_pack(self.name, at.MANIFEST, what)
        else:
            path, number = at.verdicts_file(self.manifest.case_directories[case_id]), 1
            line = self.read(path)
            self._in_folders.append(line)
        return parse_json(line, pack=self.name, path=path, first_line=number), path, number

    def _verdicts_of(self, shard: int) -> list[bytes]:
        """Return the lines of a shard's verdicts, of which there must be as many as of its trajectories."""
        path = at.verdicts_shard(shard)
        lines, expected = self._lines(path), len(self._lines(at.trajectories_shard(shard)))
        if len(lines) != expected:
            what = f"has {len(lines)} cases, its trajectories have {expected}"
            raise invalid_pack(self.name, path, what)
        return lines

    def _check_summary(self, tally: Tally) -> None:
        of_run = self.manifest.run_id, self.manifest.dataset_id
        expected, older = tally.summary(*of_run), tally.summary(*of_run, count_skipped=True)
        for field in RunSummary.model_fields:
            stated = getattr(self.summary, field)
            if field != "schema_version" and stated not in (getattr(expected, field), getattr(older, field)):
                what = f"summary disagrees with verdicts: {field} does not follow from them"
                raise invalid_pack(self.name, at.SUMMARY, what)

    def _check_judges(self) -> None:
        """Check that the configured judges are those with verdicts; the name of a plug-in may differ."""
        if not self.manifest.case_count:
            return
        named = {name for name in self.config.judges if ":" not in name} | {REPLAY_CONTRACT}
        counted = set(self.summary.judge_counts)
        plugins = sum(":" in name for name in self.config.judges)
        if not named <= counted or len(counted - named) != plugins:
            what = f"names other judges than those with verdicts: {', '.join(sorted(counted))[:300]}"
            raise invalid_pack(self.name, at.CONFIG, what)


_forked: list[tuple[Pack, Watch | None]] = []
"""What a forked process checks: it has it from the process that it was forked from."""


def _check_forked(part: tuple[int, int]) -> _Checked:
    [(pack, watch)] = _forked
    return pack._check_part(part, watch)


class _Copies:
    """Digests of the files that repeat cases: all events, and the verdicts of each judge."""

    def __init__(self, manifest: Manifest, judges: set[str]) -> None:
        self._run = (manifest.run_id, manifest.dataset_id)
        self._events = hashlib.sha256()
        self._judges = {name: (hashlib.sha256(), at.IndentedList()) for name in judges}

    def add(self, raw: dict[str, Any], result: Mapping[str, Any]) -> None:
        for line in at.event_lines(*self._run, raw):
            self._events.update(line)
        for verdict in result["verdicts"]:
            # A judge that the summary does not count: the summary is checked after the cases.
            hasher, items = self._judges.setdefault(
                verdict["judge_id"], (hashlib.sha256(), at.IndentedList())
            )
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
    row: Mapping[str, Any], result: Mapping[str, Any], raw: dict[str, Any], case: Case, judges: set[str]
) -> Iterator[str]:
    """Yield what of a case does not follow from its trajectory.

    The index must have the digests, calls, models, tokens, cost and latency that follow from the trace of the
    deciding trial. Each trial must have a trace. Each verdict must refer to events that exist, and each judge
    must have judged each trial.
    """
    trials = result.get("trials") or [result]
    if case.trial_count != len(trials):
        yield f"it has {case.trial_count} trajectories and the verdicts of {len(trials)} trials"
        return
    for number, trial in enumerate(trials):
        events = {event.idx for event in case.of_trial(number).trace}
        for verdict in trial["verdicts"]:
            if not events.issuperset(verdict["evidence_refs"]):
                judge = str(verdict["judge_id"])[:100]
                yield f"the verdict of {judge} refers to an event that its trajectory does not have"
        for name in sorted(judges - {verdict["judge_id"] for verdict in trial["verdicts"]}):
            yield f"judge {name[:100]!r} judged some cases or trials only"
    deciding = case.of_trial(result["trial"])
    for field, value in index_row(raw, deciding, deciding.recorded).items():
        if row.get(field) != value:
            yield f"its {field} in the index does not follow from its trajectory"


def failing_cases(pack: Path) -> Iterator[tuple[CaseResultRow, str]]:
    """Yield the result of every case that did not pass, in suite order, with the path of its trajectory.

    The pack is trusted: use this only for one that this process wrote. `open_pack` verifies others.

    Reads no further than it yields; a pack that is not finished yields nothing.
    """
    if not (pack / at.INDEX).exists():
        return
    if not (pack / at.verdicts_shard(0)).exists():
        for line in (pack / at.INDEX).read_bytes().splitlines():
            directory = at.case_directory(orjson.loads(line)["case_id"])
            path = pack / at.verdicts_file(directory)
            row = parse(path.read_bytes(), source=str(path))
            if not row["passed"]:
                yield row, at.trajectory_file(directory)
        return
    shard = 0
    while (path := pack / at.verdicts_shard(shard)).exists():
        for line in path.read_bytes().splitlines():
            row = parse(line, source=str(path))
            if not row["passed"]:
                yield row, at.trajectories_shard(shard)
        shard += 1
