"""A large suite is scored, and a large pack opened, by several processes, which leave nothing behind."""

import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.left import is_running, wait_until
from tests.e2e.program import Ended, agent_eval, start, tree
from tests.factories import make_case

CASES = 2_100
RUN = ("run", "suite.jsonl", "--out", "pack", "--run-id", "r")
PROCESSORS = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()

pytestmark = pytest.mark.skipif(len(PROCESSORS) < 2, reason="needs Linux and two processors")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite that is worth two processes."""
    place = tmp_path_factory.mktemp("large")
    cases = (make_case(f"case-{number}", *["lookup"] * 20) for number in range(CASES))
    lines = ({"dataset_id": "large"}, *cases)
    (place / "suite.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return place


@pytest.fixture
def processors() -> Iterator[Callable[[set[int]], None]]:
    """Sets which processors commands have that begin afterwards."""
    yield lambda usable: os.sched_setaffinity(0, usable)
    os.sched_setaffinity(0, PROCESSORS)


def workers(pid: int) -> set[int]:
    """The processes that do the work, once both are there."""
    found: list[str] = []
    while len(found) < 2:
        assert is_running(pid), "no other process did the work"
        time.sleep(0.005)
        with suppress(FileNotFoundError):
            found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return set(map(int, found))


def test_one_process_and_several_write_one_pack(place: Path, processors: Callable[[set[int]], None]) -> None:
    written = []
    for usable in ({min(PROCESSORS)}, PROCESSORS):
        processors(usable)
        assert agent_eval(*RUN, cwd=place, fresh=True).code == 0
        written.append(tree(place / "pack"))
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("ending", "code", "told"),
    [
        (signal.SIGINT, 130, "Interrupted by Ctrl-C."),
        (signal.SIGTERM, 143, "Ended by SIGTERM."),
        (signal.SIGKILL, -signal.SIGKILL, ""),
    ],
)
def test_an_ended_run_leaves_no_process(place: Path, ending: signal.Signals, code: int, told: str) -> None:
    process = start(*RUN, cwd=place, measured=False)
    scoring = workers(process.pid)
    process.send_signal(ending)
    _, err = process.communicate()
    assert process.returncode == code
    assert told in err.decode()
    wait_until(lambda: not any(map(is_running, scoring)), "they have ended")


def test_a_process_that_is_killed_ends_the_run_without_a_pack(place: Path) -> None:
    process = start("run", "suite.jsonl", "--out", "killed", cwd=place, measured=False)
    os.kill(min(workers(process.pid)), signal.SIGKILL)
    _, err = process.communicate()
    error = json.loads(err.splitlines()[-1])["error"]
    assert (process.returncode, error["code"]) == (4, "not_evaluable")
    assert "were not scored: a process that scores was ended" in error["message"]
    assert "memory" in error["details"]["remedy"]
    assert not (place / "killed").exists()


@pytest.fixture(scope="module")
def pack(place: Path) -> Path:
    """The pack of the suite."""
    run = ("run", "suite.jsonl", "--out", "sealed", "--judge", "loop_guard")
    assert agent_eval(*run, cwd=place).code == 0
    return place / "sealed"


@pytest.fixture
def copied(pack: Path, tmp_path: Path) -> Path:
    return shutil.copytree(pack, tmp_path / "pack")


def sealed_again(pack: Path) -> None:
    """Seal a pack that was changed as whoever changed it would."""
    manifest = json.loads((pack / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        data = (pack / entry["path"]).read_bytes()
        entry |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (pack / "manifest.json").write_text(json.dumps(manifest))


def by_one_and_by_several(
    processors: Callable[[set[int]], None], *arguments: str | Path, cwd: Path
) -> list[Ended]:
    ended = []
    for usable in ({min(PROCESSORS)}, PROCESSORS):
        processors(usable)
        ended.append(agent_eval(*arguments, cwd=cwd, fresh=True))
    return ended


def test_what_is_judged_otherwise_is_counted_over_all_processes(
    copied: Path, processors: Callable[[set[int]], None]
) -> None:
    config = json.loads((copied / "run/config.json").read_bytes())
    config["judge_configs"] = {"loop_guard": {"max_steps": 100, "max_cycle_repeats": 100}}
    (copied / "run/config.json").write_text(json.dumps(config))
    sealed_again(copied)
    alone, several = by_one_and_by_several(processors, "verify", copied, cwd=copied.parent)
    assert alone == several
    assert f"judges 'case-0' and {CASES - 1} more otherwise" in several.out


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda row: row | {"input_tokens": 7}, "its input_tokens in the index does not follow"),
        (lambda row: row | {"case_id": "case-0"}, "has case 'case-2090' where the index has 'case-0'"),
    ],
    ids=["a figure", "an id"],
)
def test_a_contradiction_in_a_late_part_is_refused_as_by_one_process(
    copied: Path,
    processors: Callable[[set[int]], None],
    change: Callable[[dict[str, object]], dict[str, object]],
    what: str,
) -> None:
    rows = (copied / "run/index.jsonl").read_bytes().splitlines()
    rows[2_090] = json.dumps(change(json.loads(rows[2_090]))).encode()
    (copied / "run/index.jsonl").write_bytes(b"".join(row + b"\n" for row in rows))
    sealed_again(copied)
    alone, several = by_one_and_by_several(processors, "verify", copied, cwd=copied.parent)
    assert alone == several
    assert (several.code, several.error["code"]) == (1, "invalid_pack")
    assert what in several.error["message"]


def test_a_case_that_two_parts_have_is_refused(copied: Path) -> None:
    """Each process sees it once."""
    for name in ("run/index.jsonl", "cases/trajectories-00008.jsonl", "cases/verdicts-00008.jsonl"):
        first = (copied / name.replace("00008", "00000")).read_bytes().splitlines()[0]
        rows = (copied / name).read_bytes().splitlines()
        rows[-1] = first
        (copied / name).write_bytes(b"".join(row + b"\n" for row in rows))
    sealed_again(copied)
    error = agent_eval("verify", copied, cwd=copied.parent, fresh=True).error
    assert "run/index.jsonl: has a case twice" in error["message"]


def test_a_pack_is_not_verified_where_a_process_is_killed(pack: Path) -> None:
    process = start("verify", pack, cwd=pack.parent, measured=False)
    os.kill(min(workers(process.pid)), signal.SIGKILL)
    out, err = process.communicate()
    error = json.loads(err.splitlines()[-1])["error"]
    assert (process.returncode, error["code"], out) == (4, "not_evaluable", b"")
    assert "sealed was not checked: a process that checks it was ended" in error["message"]


def test_an_error_in_a_late_shard_is_that_of_one_process(place: Path) -> None:
    lines = (place / "suite.jsonl").read_text().splitlines()
    lines[1_900] = "garbage"
    (place / "broken.jsonl").write_text("\n".join(lines))
    error = agent_eval("run", "broken.jsonl", "--out", "broken", cwd=place).error
    assert error["code"] == "validation_error"
    assert "line 1901" in error["message"]
    assert not (place / "broken").exists()
