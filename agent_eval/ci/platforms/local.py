"""A job outside CI, or on a service that no other platform detects: its runs are files in a directory.

STORE/runs/17/run.json        commit, branch, time; size and digest of the evidence
STORE/runs/17/evidence.zip    the evidence archive
STORE/runs/17/outputs.json    the job's outputs

Several jobs may use one store at once. Report and comment are in the output directory. It is also the example
to write another platform from.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import NoReturn

from pydantic import BaseModel, ConfigDict, ValidationError

from agent_eval.ci.clone import COMMIT
from agent_eval.ci.comment import Marker, Published
from agent_eval.ci.earlier import (
    Asked,
    EarlierRun,
    NoHistory,
    Skipped,
    Withheld,
    checked_archive,
    refuse_large_archive,
)
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, Platform
from agent_eval.ci.platforms.spec import PlatformSpec, Words, own_input
from agent_eval.ci.workspace import COMMENT_NAME
from agent_eval.errors import AgentEvalError, StorageError
from agent_eval.operations import clock
from agent_eval.storage.atomic import new_file, write_file, writing_failed
from agent_eval.storage.files import read_bytes, sha256_file
from agent_eval.storage.json import Limits, dumps, parse

LOCAL = PlatformSpec(
    name="local",
    detect=lambda _: True,
    words=Words(change="change", full_report="full report"),
    inputs=(
        own_input(
            "baseline-store",
            "path",
            "Outside CI: directory of earlier runs, which finds the baseline.",
            metavar="DIRECTORY",
        ),
    ),
)

MAX_RUNS = 1_000
"""Newest runs that are looked at."""

_ROW_LIMITS = Limits(max_bytes=1 << 20)
_BRANCH, _ORIGIN = "refs/heads/", "refs/remotes/origin/"


class LocalDirectory(Platform):
    """A developer's machine, or a CI service that no other platform detects."""

    spec = LOCAL

    def begin(self) -> None:
        """Open the store, where there is one."""
        where: Path | None = self._own["baseline_store"]
        self._runs = where / "runs" if where is not None else None
        self._outputs: dict[str, str] = {}
        self._archive: Path | None = None
        self._is_service = self._environ.get("CI", "").lower() not in ("", "0", "false")

    @cached_property
    def run(self) -> CiRun:
        """The commit where runs are stored."""
        return CiRun(head_sha=self._commit if self._runs is not None else None)

    @cached_property
    def refs(self) -> Refs | None:
        """The branches of the checkout, which on a developer's machine says which one is the default.

        None where there is no checkout, or no commit in it; and on a developer's machine without git.
        """
        if self._commit is None or not (self._is_service or self._git("rev-parse", "HEAD")):
            return None
        return Refs(default_branch=self._default_branch, branch=self._checked_out, remote=self._origin)

    @property
    def _heads(self) -> str | None:
        """Where the checkout says to what branches point; None where a server is asked.

        On a service a checkout may have been tampered with. On a developer's machine it is theirs, and where
        nothing of `origin` is there, nothing was pushed or fetched yet: as if there were no `origin`.
        """
        if self._origin is None or not (self._is_service or self._git("for-each-ref", "--count=1", _ORIGIN)):
            return _BRANCH
        return None if self._is_service else _ORIGIN

    @property
    def _default_branch(self) -> str | None:
        heads = self._heads
        if heads == _ORIGIN:
            of_origin = self._git("symbolic-ref", "--quiet", f"{_ORIGIN}HEAD")
            if of_origin.startswith(_ORIGIN):
                return of_origin.removeprefix(_ORIGIN)
        usual = next((name for name in ("main", "master") if self.tip(name) is not None), None)
        return (usual or self._checked_out or "main") if heads == _BRANCH else usual

    @cached_property
    def _checked_out(self) -> str | None:
        reference = self._git("symbolic-ref", "--quiet", "HEAD")
        return reference.removeprefix(_BRANCH) if reference.startswith(_BRANCH) else None

    def tip(self, branch: str) -> str | None:
        """Read where a branch points, as last fetched where there is a server; None where that is asked."""
        heads = self._heads
        commit = self._git("rev-parse", "--verify", "--quiet", f"{heads}{branch}^0") if heads else ""
        return commit if COMMIT.fullmatch(commit) else None

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield stored runs, the newest first; `NoHistory` where there is no store."""
        if self._runs is None:
            raise NoHistory(
                "Outside CI there are no earlier runs: give `--baseline PATH` to compare, or keep runs with "
                "`--baseline-store DIRECTORY`."
            )
        unread: list[Withheld] = []
        for number in self._numbers(self._runs)[:MAX_RUNS]:
            place = self._runs / str(number)
            if not (place / "run.json").is_file():
                continue  # not finished
            try:
                data = read_bytes(place / "run.json", max_bytes=_ROW_LIMITS.max_bytes)
                run = StoredRun.model_validate(parse(data, source=str(place), limits=_ROW_LIMITS))
            except (AgentEvalError, ValidationError):
                unread.append(Withheld(f"Run {number} was passed over: its `run.json` cannot be read."))
                continue
            if run.number != number:
                unread.append(Withheld(f"Run {number} was passed over: its `run.json` is of another run."))
                continue
            yield EarlierRun(
                number=number,
                label=f"run {number}",
                commits=frozenset({run.commit} if run.commit is not None else ()),
                branch=run.branch,
                created_at=run.created_at,
                fetch=partial(self._fetch, place / "evidence.zip", run),
            )
        # Any of these may be the run that is wanted: without another one, the baseline is withheld.
        for number, why in enumerate(unread, start=1):
            yield EarlierRun(
                number=-number,
                label="a run that cannot be read",
                commits=frozenset({asked.commit} if asked.commit is not None else ()),
                fetch=partial(_withhold, why),
            )

    def _fetch(self, archive: Path, run: StoredRun) -> bytes:
        wanted, label = self._settings.evidence_name, f"run {run.number}"
        if run.artifact != wanted:
            raise Skipped(f"Run {run.number} left no evidence `{wanted}`.")
        refuse_large_archive(run.size, label)
        try:
            data = read_bytes(archive, max_bytes=run.size)
        except AgentEvalError as error:
            raise Withheld(f"The evidence of {label} cannot be read: {error.message}") from error
        return checked_archive(data, run.sha256, label)

    def keep_evidence(self, archive: Path) -> None:
        """Store the evidence for later runs, where there is a store, unless it is too large to be read again.

        The run counts as finished once its `run.json` is there.
        """
        self._archive = archive
        if self._runs is None:
            return
        try:
            place, (sha256, size) = self._directory, sha256_file(archive)
            refuse_large_archive(size, f"run {place.name}")
            with archive.open("rb") as source, new_file(place / "evidence.zip") as copy:
                shutil.copyfileobj(source, copy)
            run = StoredRun(
                number=int(place.name),
                artifact=self._settings.evidence_name,
                branch=self._checked_out,
                commit=self._commit,
                created_at=clock.timestamp(self._environ),
                sha256=sha256,
                size=size,
            )
            write_file(place / "run.json", dumps(run.model_dump(), indent=True))
        except (AgentEvalError, Withheld) as error:
            self.warn(f"The evidence was not stored: {error}")

    def keep_outputs(self, values: Mapping[str, str]) -> None:
        """Write the run's `outputs.json`; without a store no step reads outputs."""
        self._outputs.update(values)
        if self._runs is not None:
            try:
                write_file(self._directory / "outputs.json", dumps(self._outputs, indent=True))
            except StorageError as error:
                self.warn(f"The outputs could not be written: {error.message}")

    def write_comment(self, body: Callable[[str], str]) -> Published:
        """Write the comment into the output directory; without a store say where."""
        if self._archive is None:
            # The output directory may be the very thing that is wrong.
            return Published("none")
        text = body(str(Marker(self._settings.comment_id, self.run.head_sha, 0, 0)))
        path = self._settings.out / COMMENT_NAME
        try:
            write_file(path, text.encode("utf-8", "replace"))
        except AgentEvalError as error:
            return Published("refused", warning=f"The comment could not be written: {error.message}")
        if self._runs is None:
            self.say(f"The comment, as it would be posted: {path}")
        return Published("created", str(path))

    @cached_property
    def _directory(self) -> Path:
        """The directory of this run, numbered after the newest, and made when the first file is written."""
        assert self._runs is not None
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
            for number in itertools.count(max(self._numbers(self._runs), default=0) + 1):
                with suppress(FileExistsError):  # another job took the number
                    (self._runs / str(number)).mkdir()
                    break
        except OSError as error:
            raise writing_failed(self._runs, error) from error
        return self._runs / str(number)

    @staticmethod
    def _numbers(runs: Path) -> list[int]:
        """The numbers of all runs, finished or not, the newest first."""
        names = [entry.name for entry in runs.iterdir()] if runs.is_dir() else []
        digits = (name for name in names if name.isascii() and name.isdigit() and len(name) <= 9)
        return sorted((int(name) for name in digits if str(int(name)) == name), reverse=True)


def _withhold(why: Withheld) -> NoReturn:
    raise why


class StoredRun(BaseModel):
    """A finished run of the store, as its `run.json` describes it.

    Attributes:
        number: Grows with time; names the directory.
        artifact: Name of the evaluation's evidence.
        branch: The branch that was checked out; None where none was.
        commit: The commit that was checked out; None when unknown.
        created_at: ISO 8601.
        sha256: Digest of the evidence archive.
        size: Its bytes.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    number: int
    artifact: str
    branch: str | None
    commit: str | None
    created_at: str
    sha256: str
    size: int
