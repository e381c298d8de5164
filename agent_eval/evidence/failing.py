"""Find the cases of a pack that did not pass, without reading the rest of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agent_eval.contracts import CaseResultRow
from agent_eval.evidence import layout
from agent_eval.storage.json import parse


class FailingCase(NamedTuple):
    """The result of a case that did not pass."""

    result: CaseResultRow
    path: str


def failing_cases(pack: Path) -> Iterator[FailingCase]:
    """Yield the cases that did not pass, in suite order, reading no more than is asked for.

    The pack is trusted: use this only for one that this process wrote. `open_pack` verifies others.

    A pack that is not finished yields nothing.
    """
    if not (pack / layout.INDEX).exists():
        return iter(())
    compact = (pack / layout.verdicts_shard(0)).exists()
    return _in_shards(pack) if compact else _in_folders(pack)


def _in_shards(pack: Path) -> Iterator[FailingCase]:
    shard = 0
    while (path := pack / layout.verdicts_shard(shard)).exists():
        with path.open("rb") as lines:
            for line in lines:
                if not _passed(line, b'"outcome":', b'"passed"'):
                    yield FailingCase(parse(line, source=str(path)), layout.trajectories_shard(shard))
        shard += 1


def _in_folders(pack: Path) -> Iterator[FailingCase]:
    with (pack / layout.INDEX).open("rb") as lines:
        for line in lines:
            directory = layout.case_directory(parse(line, source=layout.INDEX)["case_id"])
            path = pack / layout.verdicts_file(directory)
            data = path.read_bytes()
            if not _passed(data, b'"outcome": ', b'"passed"'):
                yield FailingCase(parse(data, source=str(path)), layout.trajectory_file(directory))


def _passed(result: bytes, key: bytes, value: bytes) -> bool:
    """Tell whether a result is a pass. Its own outcome comes before those of its verdicts.

    Most cases pass: parsing only the others keeps this as fast as the disk.
    """
    return result.startswith(key + value, result.find(key))
