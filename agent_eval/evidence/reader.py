"""Reading evidence packs. Opening a pack verifies all of it; nothing unverified is ever returned."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError
from typing_extensions import override

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
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.verdict import REPLAY_CONTRACT
from agent_eval.errors import InvalidInput
from agent_eval.evidence import layout as at
from agent_eval.evidence.agreement import check_agreement
from agent_eval.evidence.attachments import ArtifactReader
from agent_eval.evidence.rows import ResultChecker, Rows, RowsById, first_problem, index_lines, parse_json
from agent_eval.evidence.sources import DirectorySource, PackSource, invalid_pack
from agent_eval.evidence.verify import (
    Admit,
    Keeper,
    Seal,
    parse_contract,
    read_seal,
    read_verified,
    verify_files,
)
from agent_eval.storage.json import dumps
from agent_eval.text.spelling import nearest


def open_pack(where: Path | PackSource, *, admit: Admit | None = None) -> Pack:
    """Open and verify a pack. Use it whenever a decision depends on the content of the pack.

    It checks both manifests; that exactly the listed files exist, regular, reached without links, with the
    listed sizes and digests; that configuration, summary, index and verdicts belong together, case by case;
    that every outcome follows from its verdicts, and the summary from all of them; that index and verdicts
    fit the trajectories, which are hashed again whenever they are read. A seal alone shows accidents only:
    who changes a file can also make a new seal.

    `where` is the directory of the pack, or another source of its files, such as `ArchiveSource`. `admit`
    checks the pack's origin before its content is parsed.

    Raises:
        InvalidPack: The pack does not verify; the error names the file and the problem.
    """
    source = DirectorySource(where) if isinstance(where, Path) else where
    with source.shared(), without_collection():
        seal = read_seal(source, admit)
        contents = _Contents(source.name, seal.manifest)
        verify_files(source, seal, contents)
        pack = Pack(source, seal, contents)
        trajectories = map(pack.raw_trajectory, pack.case_ids())
        cases = zip(pack.index(), pack.results(), trajectories, strict=True)
        check_agreement(pack.name, seal, set(pack.summary.judge_counts), cases)
        pack._last_shard = ("", [])  # what is read later is hashed again
        return pack


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


@contextmanager
def without_collection() -> Iterator[None]:
    """Return a context without garbage collection.

    Opening a large pack makes hundreds of thousands of rows, none in a cycle. Collections that visit them
    take a third of the time of opening the pack, and of comparing it afterwards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Contents(Keeper):
    """Collect the content that a comparison needs while the files of a pack are verified."""

    def __init__(self, pack: str, manifest: Manifest) -> None:
        self._pack = pack
        self._layout = manifest.layout
        self.checker = ResultChecker(pack)
        self.small: dict[str, bytes] = {}
        self.results: dict[str, list[tuple[str, bytes]]] = {}
        self.line_counts: dict[str, int] = {}

    @override
    def wants(self, path: str) -> bool:
        if path in (at.CONFIG, at.SUMMARY, at.INDEX):
            return True
        parts = path.split("/")
        if parts[0] != at.CASES:
            return False
        if self._layout == "compact":
            return not path.startswith(at.ARTIFACT_SHARDS)
        return len(parts) == 3 and parts[2] == at.VERDICTS

    @override
    def take(self, path: str, data: bytes) -> None:
        if path in (at.CONFIG, at.SUMMARY, at.INDEX):
            self.small[path] = data
        elif self._layout == "files":
            self.results[path] = [self.checker.check(parse_json(data, pack=self._pack, path=path), path)]
        elif not path.startswith(_TRAJECTORIES):
            self.results[path] = self.checker.check_lines(data, path)
        else:
            if data and not data.endswith(b"\n"):
                raise invalid_pack(self._pack, path, "does not end with a line feed")
            self.line_counts[path] = data.count(b"\n")


_TRAJECTORIES = at.trajectories_shard(0)[: -len("00000.jsonl")]


class Pack:
    """Verified pack, for reading. `open_pack` makes it.

    Attributes:
        manifest_sha256: Digest of the bytes of `manifest.json`, which identifies the pack.
        derived: Manifest of the files that were written into it after the run; None without any.
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
        self._index = index_lines(small[at.INDEX], pack=self.name, path=at.INDEX)
        self._check_run()
        self._positions = {case_id: number for number, case_id in enumerate(self._index)}
        self._shards = self._shard_starts(contents.line_counts)
        self._results = dict(zip(self._index, self._ordered(contents), strict=True))
        self._check_summary(contents.checker.tally())
        self._check_judges()
        self._last_shard: tuple[str, list[bytes]] = ("", [])
        self._artifacts = ArtifactReader(self.name, self.manifest, seal.run_files)

    @property
    def directory(self) -> Path:
        """The pack's directory; of one within an archive there is none."""
        assert isinstance(self._source, DirectorySource)
        return self._source.root

    def index(self) -> Rows[CaseIndexRow]:
        """Return the rows of the index, in suite order; each is built on access."""
        return Rows(self._index)

    def results(self) -> Rows[CaseResultRow]:
        """Return the result of every case, in the order of `index`; each is built on access."""
        return Rows(self._results)

    def index_by_id(self) -> Mapping[str, CaseIndexRow]:
        """Return the rows of the index by the id of their case; each is built on access."""
        return RowsById(self._index)

    def results_by_id(self) -> Mapping[str, CaseResultRow]:
        """Return the result of every case by the id of the case; each is built on access."""
        return RowsById(self._results)

    def case_ids(self) -> list[str]:
        """List the ids of all cases, in suite order."""
        return list(self._positions)

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
        return read_verified(self._source, entry, self._seal)

    def trajectory(self, case_id: str, trial: int | None = None) -> Case:
        """Read a case with the trace of one of its trials, as it was judged.

        `trial` is the number of the trial, from 0; None for the one that decides the case.

        Raises:
            InvalidInput: The pack has no such case.
            InvalidPack: The file changed since the pack was opened, or does not contain this case or trial.
        """
        raw, path = self._raw_trajectory(case_id)
        if trial is None:
            trial = orjson.loads(self._results[case_id])["trial"]
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
        shard = self._shard_of(position) if self.manifest.layout == "compact" else 0
        return self._artifacts.of_case(case_id, shard, self.read)

    def raw_trajectory(self, case_id: str) -> dict[str, Any]:
        """Read a case like `trajectory`, but as the JSON of the pack, with fields that no contract has."""
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
        """Yield every case in suite order: its JSON, and its bytes as `storage.json.dumps` writes them."""
        for case_id in self._positions:
            raw = self.raw_trajectory(case_id)
            yield raw, dumps(raw)

    def _position(self, case_id: str) -> int:
        position = self._positions.get(case_id)
        if position is None:
            near = nearest(case_id[:200], self._positions.keys(), 0.6)
            hint = f"Did you mean {near!r}? " if near is not None else ""
            remedy = f"{hint}List the cases with the pack's run/index.jsonl."
            raise InvalidInput(f"{self.name}: no case {case_id[:200]!r}", remedy=remedy, case_id=case_id)
        return position

    def _shard_of(self, position: int) -> int:
        """Return the number of a case's shard. Every case has one, as `open_pack` has checked."""
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
        """List `(path, position of its first case, number of cases)` of every shard, in order."""
        shards, start = [], 0
        for path in sorted(line_counts):
            shards.append((path, start, line_counts[path]))
            start += line_counts[path]
        if shards and start != len(self._index):
            what = f"and the other shards have {start} cases, {at.INDEX} has {len(self._index)}"
            raise invalid_pack(self.name, shards[-1][0], what)
        return shards

    def _ordered(self, contents: _Contents) -> list[bytes]:
        """List all results in suite order; check that each belongs to the case that the index has there."""
        if self.manifest.layout == "compact":
            return self._ordered_shards(contents)
        directories = self.manifest.case_directories
        results: list[bytes] = []
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

    def _ordered_shards(self, contents: _Contents) -> list[bytes]:
        results: list[bytes] = []
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

    def _of_cases(self, path: str, rows: list[tuple[str, bytes]], case_ids: list[str]) -> Iterator[bytes]:
        """Yield the results of a file, which must belong to these cases."""
        for (actual_id, result), case_id in zip(rows, case_ids, strict=True):
            if actual_id != case_id:
                what = f"has case {actual_id[:200]!r} where the index has {case_id[:200]!r}"
                raise invalid_pack(self.name, path, what)
            yield result

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
