"""Reading an evidence pack. Opening one verifies all of it; nothing unverified is ever returned."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
)
from agent_eval.errors import InvalidInput
from agent_eval.evidence import layout as at
from agent_eval.evidence.attachments import ArtifactReader
from agent_eval.evidence.row_cache import KeptIndex, KeptResult, KeptResults, LeanIndex, Rows, RowsById
from agent_eval.evidence.rows import ResultChecker, first_problem, index_rows, parse_json
from agent_eval.evidence.sources import DirectorySource, PackSource, invalid_pack
from agent_eval.evidence.verify import Seal, parse_contract, read_seal, read_verified, verify_files
from agent_eval.storage.json import dumps


def open_pack(where: Path | PackSource) -> Pack:
    """Open and verify a pack.

    Checked are: both manifests; that exactly the listed files are there, regular, reached without
    links, with the listed sizes and digests; that configuration, summary, index and verdicts belong
    together, case by case; that every outcome follows from its verdicts and the summary from all of
    them. Trajectories are hashed here and read again, and hashed again, when asked for.

    Args:
        where: The pack's directory, or another source of its files, such as `ArchiveSource`.

    Raises:
        InvalidPack: Naming the file and what is wrong with it.
    """
    source = DirectorySource(where) if isinstance(where, Path) else where
    with source.shared(), without_collection():
        seal = read_seal(source)
        contents = _Contents(source.name, seal.manifest)
        verify_files(source, seal, contents)
        return Pack(source, seal, contents)


def verify_pack(where: Path) -> Seal:
    """Check that a pack is as it was sealed, without reading what its files say.

    For what was made from a pack that `open_pack` had opened, and names its manifest's digest.

    Raises:
        InvalidPack: Naming the file and what is wrong with it.
    """
    source = DirectorySource(where)
    with source.shared():
        seal = read_seal(source)
        verify_files(source, seal)
        return seal


def refuse_incomplete(pack: str, manifest: Manifest) -> None:
    """Refuse a run that was broken off: what it did not get to might have failed.

    Raises:
        InvalidPack: The run is not complete.
    """
    if not manifest.complete:
        what = "belongs to a run that is not complete, so nothing can be decided on it"
        remedy = "Finish the run with the command that began it and --resume, or run the suite to its end."
        raise invalid_pack(pack, at.MANIFEST, what, remedy=remedy)


@contextmanager
def without_collection() -> Iterator[None]:
    """Spare the garbage collector.

    Opening a large pack makes hundreds of thousands of rows, none in a cycle; looking through them again
    and again takes a third of the time of opening it, and of comparing it afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Contents:
    """Collects what comparison needs while the files of a pack are verified."""

    def __init__(self, pack: str, manifest: Manifest) -> None:
        self._pack = pack
        self._layout = manifest.layout
        self.checker = ResultChecker(pack)
        self.small: dict[str, bytes] = {}
        self.index: list[bytes] = []
        self.results: dict[str, list[tuple[str, KeptResult]]] = {}
        self.line_counts: dict[str, int] = {}

    def wants(self, path: str) -> bool:
        """See `verify.Keeper`."""
        if path in (at.CONFIG, at.SUMMARY, at.INDEX):
            return True
        parts = path.split("/")
        if parts[0] != at.CASES:
            return False
        if self._layout == "compact":
            return not path.startswith(at.ARTIFACT_SHARDS)
        return len(parts) == 3 and parts[2] == at.VERDICTS

    def take(self, path: str, pieces: list[bytes]) -> None:
        """See `verify.Keeper`."""
        if path == at.INDEX:
            self.index = pieces
            return
        data = b"".join(pieces)
        if path in (at.CONFIG, at.SUMMARY):
            self.small[path] = data
        elif self._layout == "compact" and path.startswith(_TRAJECTORIES):
            if data and not data.endswith(b"\n"):
                raise invalid_pack(self._pack, path, "does not end with a line feed")
            self.line_counts[path] = data.count(b"\n")
        else:
            self.results[path] = self._rows(path, data)

    def _rows(self, path: str, data: bytes) -> list[tuple[str, KeptResult]]:
        if self._layout == "compact":
            return self.checker.read_lines(data, path)
        return [self.checker.check(parse_json(data, pack=self._pack, path=path), path)]


_TRAJECTORIES = at.trajectories_shard(0)[: -len("00000.jsonl")]


class Pack:
    """A verified pack. Made by `open_pack`.

    Attributes:
        name: What errors call it: its path.
        manifest: The run manifest.
        manifest_sha256: Digest of the bytes of `manifest.json`: this pack's identity.
        derived: What was written into it after the run, None where nothing was.
        config: The run's configuration.
        summary: The run's summary; it follows from the verdicts.
    """

    def __init__(self, source: PackSource, seal: Seal, contents: _Contents) -> None:
        self._source = source
        self._seal = seal
        self.name = source.name
        self.manifest: Manifest = seal.manifest
        self.manifest_sha256 = seal.manifest_sha256
        self.derived: DerivedManifest | None = seal.derived
        small = contents.small
        self.config = parse_contract(RunConfig, small[at.CONFIG], pack=self.name, path=at.CONFIG)
        self.summary = parse_contract(RunSummary, small[at.SUMMARY], pack=self.name, path=at.SUMMARY)
        self._index = KeptIndex(index_rows(contents.index, pack=self.name, path=at.INDEX))
        self._check_run()
        self._positions = {row.case_id: number for number, row in enumerate(self._index.rows)}
        self._shards = self._shard_starts(contents.line_counts)
        self._results = KeptResults(self.case_ids(), self._ordered(contents))
        self._check_summary(contents.checker.tally())
        self._last_shard: tuple[str, list[bytes]] = ("", [])
        self._artifacts = ArtifactReader(self.name, self.manifest, seal.run_files)

    def index(self) -> Rows[CaseIndexRow]:
        """A row for every case, in suite order; each is made when it is asked for."""
        return Rows(self._index)

    def results(self) -> Rows[CaseResultRow]:
        """Every case's verdicts, in suite order: the same cases as `index`. Each is made when asked for."""
        return Rows(self._results)

    def index_by_id(self) -> Mapping[str, CaseIndexRow]:
        """The rows of the index by the id of their case, for looking at a few fields of many of them.

        They are read like dictionaries but are none: `dict(row)` makes one.
        """
        return RowsById(self._positions, LeanIndex(self._index))

    def results_by_id(self) -> Mapping[str, CaseResultRow]:
        """Every case's verdicts by the id of the case; each is made when it is asked for."""
        return RowsById(self._positions, self._results)

    def case_ids(self) -> list[str]:
        """Ids of all cases, in suite order."""
        return list(self._positions)

    def files(self) -> list[FileEntry]:
        """Every file but the manifests: those of the run, then those written later."""
        return self._seal.files()

    def run_files(self) -> list[FileEntry]:
        """The files of the run part, sealed by `manifest.json`, which is not among them."""
        return list(self._seal.run_files.values())

    def read(self, path: str) -> bytes:
        """The bytes of a listed file, verified again.

        Raises:
            InvalidInput: The pack has no such file.
            InvalidPack: It changed since the pack was opened.
        """
        entry = self._seal.run_files.get(path) or self._seal.derived_files.get(path)
        if entry is None:
            raise InvalidInput(f"{self.name}: no file {path[:300]!r}", file=path, pack=self.name)
        return read_verified(self._source, entry, self._seal)

    def trajectory(self, case_id: str) -> Case:
        """A case with the trace of the trial that decides it, as it was judged.

        Raises:
            InvalidInput: No such case.
            InvalidPack: The file changed since the pack was opened, or does not hold this case or trial.
        """
        raw, path = self._raw_trajectory(case_id)
        trial = self._results.row(self._positions[case_id])["trial"]
        try:
            return Case.model_validate(raw).of_trial(trial)
        except ValidationError as error:
            what = f"case {case_id[:200]!r}: {first_problem(error)}"
            raise invalid_pack(self.name, path, what) from error
        except IndexError as error:
            what = f"case {case_id[:200]!r}: has no trial {trial}, which decides it"
            raise invalid_pack(self.name, path, what) from error

    def artifacts(self, case_id: str) -> dict[str, bytes]:
        """The files that belong to a case beside trajectory and verdicts, by name, in order of name.

        Names are paths below the case's `artifacts/`, checked to stay there.

        Raises:
            InvalidInput: No such case.
            InvalidPack: A file changed since the pack was opened, or does not hold artifacts.
        """
        position = self._position(case_id)
        shard = self._shard_of(position) if self.manifest.layout == "compact" else 0
        return self._artifacts.of_case(case_id, shard, self.read)

    def raw_trajectory(self, case_id: str) -> dict[str, Any]:
        """`trajectory` as the JSON that stands in the pack, fields that no contract knows included."""
        return self._raw_trajectory(case_id)[0]

    def _raw_trajectory(self, case_id: str) -> tuple[dict[str, Any], str]:
        position = self._position(case_id)
        if self.manifest.layout == "compact":
            path, start, _ = self._shards[self._shard_of(position)]
            line = position - start
            data = self._shard_lines(path)[line]
            raw = parse_json(data, pack=self.name, path=path, first_line=line + 1)
        else:
            path = at.trajectory_file(self.manifest.case_directories[case_id])
            raw = parse_json(self.read(path), pack=self.name, path=path)
        if not isinstance(raw, dict) or raw.get("case_id") != case_id:
            what = f"does not hold case {case_id[:200]!r} where the index has it"
            raise invalid_pack(self.name, path, what)
        return raw, path

    def trajectories(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """Every case in suite order: its JSON, and the same as `json_writer.dumps` writes it."""
        for case_id in self._positions:
            raw = self.raw_trajectory(case_id)
            yield raw, dumps(raw)

    def _position(self, case_id: str) -> int:
        position = self._positions.get(case_id)
        if position is None:
            remedy = "List the cases with the pack's run/index.jsonl."
            raise InvalidInput(f"{self.name}: no case {case_id[:200]!r}", remedy=remedy, case_id=case_id)
        return position

    def _shard_of(self, position: int) -> int:
        """Number of the shard in which a case lies; every case lies in one, which opening has checked."""
        return bisect_right(self._shards, position, key=lambda shard: shard[1]) - 1

    def _shard_lines(self, path: str) -> list[bytes]:
        if self._last_shard[0] != path:
            self._last_shard = (path, self.read(path).split(b"\n"))
        return self._last_shard[1]

    def _check_run(self) -> None:
        manifest = self.manifest
        for path, part in ((at.CONFIG, self.config), (at.SUMMARY, self.summary)):
            if (part.run_id, part.dataset_id) != (manifest.run_id, manifest.dataset_id):
                raise invalid_pack(self.name, path, "names another run or dataset than manifest.json")
        if len(self._index) != manifest.case_count:
            what = f"has {len(self._index)} cases, manifest.json says {manifest.case_count}"
            raise invalid_pack(self.name, at.INDEX, what)

    def _shard_starts(self, line_counts: dict[str, int]) -> list[tuple[str, int, int]]:
        """`(path, position of its first case, number of cases)` of every shard, in order."""
        shards, start = [], 0
        for path in sorted(line_counts):
            shards.append((path, start, line_counts[path]))
            start += line_counts[path]
        if shards and start != len(self._index):
            what = f"and the other shards have {start} cases, {at.INDEX} has {len(self._index)}"
            raise invalid_pack(self.name, shards[-1][0], what)
        return shards

    def _ordered(self, contents: _Contents) -> list[KeptResult]:
        """All results in suite order, each checked to be of the case that the index has there."""
        if self.manifest.layout == "compact":
            return self._ordered_shards(contents)
        directories = self.manifest.case_directories
        results: list[KeptResult] = []
        for case_id in self._positions:
            directory = directories.get(case_id)
            if directory is None:
                what = f"has no directory for case {case_id[:200]!r}"
                raise invalid_pack(self.name, at.MANIFEST, what)
            path = at.verdicts_file(directory)
            results += self._of_cases(path, contents.results[path], [case_id])
        if len(directories) != len(results):
            raise invalid_pack(
                self.name, at.MANIFEST, "has directories for cases that the index does not list"
            )
        return results

    def _ordered_shards(self, contents: _Contents) -> list[KeptResult]:
        results: list[KeptResult] = []
        case_ids = self.case_ids()
        for number, (_, start, count) in enumerate(self._shards):
            path = at.verdicts_shard(number)
            rows = contents.results[path]
            if len(rows) != count:
                what = f"has {len(rows)} cases, its trajectories have {count}"
                raise invalid_pack(self.name, path, what)
            results += self._of_cases(path, rows, case_ids[start : start + count])
        if len(results) != len(case_ids):
            raise invalid_pack(self.name, at.INDEX, "has cases without verdicts")
        return results

    def _of_cases(
        self, path: str, rows: list[tuple[str, KeptResult]], case_ids: list[str]
    ) -> Iterator[KeptResult]:
        """What is kept of a file's case results, which must be those of these cases."""
        for (found, kept), case_id in zip(rows, case_ids, strict=True):
            if found != case_id:
                what = f"has case {found[:200]!r} where the index has {case_id[:200]!r}"
                raise invalid_pack(self.name, path, what)
            yield kept

    def _check_summary(self, tally: Tally) -> None:
        expected = tally.summary(self.manifest.run_id, self.manifest.dataset_id)
        for field in RunSummary.model_fields:
            if field != "schema_version" and getattr(self.summary, field) != getattr(expected, field):
                what = f"summary disagrees with verdicts: {field} does not follow from them"
                raise invalid_pack(self.name, at.SUMMARY, what)
