"""Writing a pack: first its shards, then the seal.

`ShardWriter` writes the cases of one shard; each shard of a pack is written by itself.
`PackSealer` takes the finished shards in suite order, writes the files that span shards, and the
manifest last. The bytes do not depend on which process wrote which shard. Both work in a new directory that
no other process sees yet (`storage.atomic.new_directory`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from typing_extensions import override

from agent_eval.contracts import (
    SCHEMA_VERSION,
    CaseIndexRow,
    CaseResult,
    CaseResultRow,
    FileEntry,
    Manifest,
    Verdict,
    VerdictRow,
)
from agent_eval.contracts.verdict import without_own_fault
from agent_eval.errors import UsageError
from agent_eval.evidence import layout as at
from agent_eval.evidence.attachments import artifact_line, in_order
from agent_eval.evidence.sources import MAX_FILE_BYTES
from agent_eval.storage.atomic import HashedFile, write_unsynced
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps


@dataclass(frozen=True, slots=True)
class PackTarget:
    """Pack that is being written: its directory, layout and run. It can be sent to a cluster.

    Attributes:
        root: Directory that becomes the pack.
        layout: `files` or `compact`.
        run_id: Id of the run.
        dataset_id: Id of the run's dataset.
    """

    root: Path
    layout: at.Layout
    run_id: str
    dataset_id: str

    def prepare(self) -> None:
        """Create the directories that the writers need. Call it once, before the first shard."""
        for name in ("run", at.CASES, *([at.JUDGES] if self.layout == "files" else [])):
            (self.root / name).mkdir()


@dataclass(slots=True)
class WrittenShard:
    """Result of a `ShardWriter`, from which `PackSealer` adds the shard to the pack.

    Attributes:
        index: Number of the shard, from 0.
        files: `(path, size, sha256)` of every finished file.
        rows: Its part of the index.
        directories: `(case id, directory)` of every case, in the files layout; so are `events` and `judges`.
        events: Its part of the file of all events.
        judges: Its part of each judge's file.
    """

    index: int
    case_count: int = 0
    files: list[tuple[str, int, str]] = field(default_factory=list)
    rows: bytes = b""
    directories: list[tuple[str, str]] = field(default_factory=list)
    events: bytes = b""
    judges: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaseEvidence:
    """Everything that a pack stores of one case.

    Attributes:
        trajectory: The case as read from the suite, with its unknown fields.
        trajectory_line: As `storage.json.dumps` writes it; so is `result_line`.
        artifacts: By name, written unchanged. Redact those that are not from a pack, and then pass them
            through `attachments.storable`.
    """

    trajectory: dict[str, Any]
    trajectory_line: bytes
    result: CaseResultRow
    result_line: bytes
    row: CaseIndexRow
    artifacts: Mapping[str, bytes] = field(default_factory=dict)


class ShardWriter(ABC):
    """Write the cases of one shard, in suite order, without keeping them in memory. `open_shard` makes it.

    Raises:
        OSError: Any method can raise it; `new_directory` converts it to a StorageError.
    """

    def __init__(self, target: PackTarget, index: int) -> None:
        self._target = target
        self._written = WrittenShard(index)
        self._rows: list[bytes] = []

    def add(self, case: CaseEvidence) -> None:
        """Write the next case.

        Raises:
            InvalidInput: The name of an artifact leads out of the case's directory.
            UsageError: The artifacts of a shard are too large for the layout `compact`.
        """
        self._add(case)
        self._rows.append(dumps(case.row) + b"\n")
        self._written.case_count += 1

    def finish(self) -> WrittenShard:
        """Complete the files, and return what the sealer needs."""
        self._finish()
        self._written.rows = b"".join(self._rows)
        return self._written

    @abstractmethod
    def _add(self, case: CaseEvidence) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...

    def close(self) -> None:  # noqa: B027 - the layout without open files has nothing to do
        """Close open files. Does nothing after `finish`."""

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_shard(target: PackTarget, index: int) -> ShardWriter:
    """Open the writer of one shard, for a `with` statement."""
    return CompactShard(target, index) if target.layout == "compact" else FilesShard(target, index)


class CompactShard(ShardWriter):
    """Write a shard as files of lines: trajectories, case results, and artifacts where a case has any."""

    def __init__(self, target: PackTarget, index: int) -> None:
        super().__init__(target, index)
        self._paths = (at.trajectories_shard(index), at.verdicts_shard(index))
        self._trajectories = HashedFile(target.root / self._paths[0])
        self._results = HashedFile(target.root / self._paths[1])
        self._artifacts: HashedFile | None = None

    @override
    def _add(self, case: CaseEvidence) -> None:
        self._trajectories.write(case.trajectory_line + b"\n")
        self._results.write(case.result_line + b"\n")
        case_id = case.result["case_id"]
        for name, data in in_order(case_id, case.artifacts):
            self._add_artifact(artifact_line(case_id, name, data))

    def _add_artifact(self, line: bytes) -> None:
        if self._artifacts is None:
            path = self._target.root / at.artifacts_shard(self._written.index)
            self._artifacts = HashedFile(path)
        if self._artifacts.size + len(line) > MAX_FILE_BYTES:
            what = f"the artifacts of {self._written.case_count + 1} cases exceed {MAX_FILE_BYTES:,} bytes"
            raise UsageError(what, remedy="Use the layout files, which keeps each in a file of its own.")
        self._artifacts.write(line)

    @override
    def _finish(self) -> None:
        files = [*zip(self._paths, (self._trajectories, self._results), strict=True)]
        if self._artifacts is not None:
            files.append((at.artifacts_shard(self._written.index), self._artifacts))
        for path, file in files:
            file.close()
            self._written.files.append((path, file.size, file.sha256))

    @override
    def close(self) -> None:
        for file in (self._trajectories, self._results, self._artifacts):
            if file is not None:
                file.discard()


class FilesShard(ShardWriter):
    """Write a shard as a folder for each case, and parts of the files that span all cases."""

    def __init__(self, target: PackTarget, index: int) -> None:
        super().__init__(target, index)
        self._judges: dict[str, list[bytes]] = {}
        self._events: list[bytes] = []

    @override
    def _add(self, case: CaseEvidence) -> None:
        target, case_id = self._target, case.result["case_id"]
        directory = at.case_directory(case_id)
        self._written.directories.append((case_id, directory))
        # It exists where the suite has an id twice, which is refused when the shards are joined.
        (target.root / at.CASES / directory).mkdir(exist_ok=True)
        self._write(at.trajectory_file(directory), dumps(case.trajectory, indent=True))
        self._write(at.verdicts_file(directory), dumps(case.result, indent=True))
        for name, data in in_order(case_id, case.artifacts):
            path = at.artifact_file(directory, name)
            (target.root / path).parent.mkdir(parents=True, exist_ok=True)
            self._write(path, data)
        self._events.extend(at.event_lines(target.run_id, target.dataset_id, case.trajectory))
        for verdict in case.result["verdicts"]:
            self._judges.setdefault(verdict["judge_id"], []).append(at.indented_item(verdict))

    def _write(self, path: str, data: bytes) -> None:
        write_unsynced(self._target.root / path, data)
        self._written.files.append((path, len(data), sha256_bytes(data)))

    @override
    def _finish(self) -> None:
        self._written.events = b"".join(self._events)
        self._written.judges = {judge_id: b",\n".join(items) for judge_id, items in self._judges.items()}


class PackSealer:
    """Join the shards of a pack in suite order, and seal it.

    Raises:
        OSError: Any method can raise it; `new_directory` converts it to a StorageError.
    """

    def __init__(self, target: PackTarget) -> None:
        self._target = target
        self._files: list[FileEntry] = []
        self._directories: dict[str, str] = {}
        self._case_count = 0
        self._open: list[HashedFile] = []
        self._index = self._create(at.INDEX)
        self._events = self._create(at.EVENTS) if target.layout == "files" else None
        self._judges: dict[str, tuple[HashedFile, at.IndentedList]] = {}

    def _create(self, path: str) -> HashedFile:
        file = HashedFile(self._target.root / path)
        self._open.append(file)
        return file

    def append(self, shard: WrittenShard) -> None:
        """Add the next shard. Call it in suite order, once for each shard."""
        self._case_count += shard.case_count
        self._directories.update(shard.directories)
        self._files.extend(
            FileEntry(path=path, size=size, sha256=sha256) for path, size, sha256 in shard.files
        )
        self._index.write(shard.rows)
        if self._events is not None:
            self._events.write(shard.events)
        for judge_id, part in shard.judges.items():
            if judge_id not in self._judges:
                self._judges[judge_id] = (self._create(at.judge_file(judge_id)), at.IndentedList())
            file, items = self._judges[judge_id]
            file.write(items.separator() + part)

    def seal(
        self, config: Mapping[str, Any], summary: Mapping[str, Any], *, complete: bool = True
    ) -> Manifest:
        """Write configuration and summary, which are plain JSON, then the manifest over everything."""
        self._finish(at.INDEX, self._index)
        if self._events is not None:
            self._finish(at.EVENTS, self._events)
        for judge_id, (file, items) in self._judges.items():
            file.write(items.end())
            self._finish(at.judge_file(judge_id), file)
        self._write(at.CONFIG, config)
        self._write(at.SUMMARY, summary)
        manifest = Manifest(
            # A copy of a pack has the version of the pack, whichever version makes the copy.
            schema_version=config.get("schema_version", SCHEMA_VERSION),
            layout=self._target.layout,
            run_id=self._target.run_id,
            dataset_id=self._target.dataset_id,
            complete=complete,
            case_count=self._case_count,
            case_directories=self._directories,
            files=sorted(self._files, key=lambda entry: entry.path),
        )
        self._write(at.MANIFEST, manifest.to_json())
        return manifest

    def _finish(self, path: str, file: HashedFile) -> None:
        file.close()
        self._files.append(FileEntry(path=path, size=file.size, sha256=file.sha256))

    def _write(self, path: str, value: Any) -> None:
        with HashedFile(self._target.root / path) as file:
            file.write(dumps(value, indent=True))
        self._files.append(FileEntry(path=path, size=file.size, sha256=file.sha256))

    def close(self) -> None:
        """Close open files. Does nothing after `seal`."""
        for file in self._open:
            file.discard()

    def __enter__(self) -> PackSealer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def result_row(result: CaseResult) -> CaseResultRow:
    """Return a row whose JSON is that of `result.to_json()`, in a fraction of the time."""
    row: dict[str, Any] = {**result.__dict__, **(result.model_extra or {})}
    row["verdicts"] = [_verdict_row(verdict) for verdict in result.verdicts]
    if result.trials:
        row["trials"] = [
            {
                **trial.__dict__,
                **(trial.model_extra or {}),
                "verdicts": [_verdict_row(verdict) for verdict in trial.verdicts],
            }
            for trial in result.trials
        ]
    return cast(CaseResultRow, without_own_fault(row))


def _verdict_row(verdict: Verdict) -> VerdictRow:
    if verdict.model_extra:
        return cast(VerdictRow, {**verdict.__dict__, **verdict.model_extra})
    return cast(VerdictRow, verdict.__dict__)
