"""Commands that are killed at any moment leave the previous evidence whole, or the new one."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_eval.cli.main import main
from agent_eval.registry.store import RegistryStore, verify_registry
from tests.e2e.program import agent_eval, start, tree
from tests.extent import amount
from tests.factories import make_case, make_suite

MOMENTS = amount(3, 4, 8)
CASES = 260

RUN = "run --suite b.json --out candidate --run-id c --set evidence.layout="
COMMANDS = {
    "run, files": f"{RUN}files",
    "run, compact": f"{RUN}compact",
    "compare": "compare --baseline baseline --candidate candidate",
    "gate": "gate --compare candidate/compare/baseline_delta.json --max-regressed-cases 9",
    "ci": "ci --suite b.json --baseline baseline --out out --fail-on never",
}
PACKS = ("baseline", "candidate", "out/shop")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two compared runs of the same suite, of which the second is a little worse."""
    place = tmp_path_factory.mktemp("compared")
    for name, out, tool in (("a", "baseline", "lookup"), ("b", "candidate", "search")):
        called = {number: tool if number < 5 else "lookup" for number in range(CASES)}
        policy = {"required_tools": ["lookup"]}
        cases = [make_case(f"case-{number}", each, policy=policy) for number, each in called.items()]
        (place / f"{name}.json").write_text(json.dumps(make_suite(*cases)))
        assert agent_eval("run", "--suite", f"{name}.json", "--out", out, cwd=place).code == 0
    assert agent_eval(*COMMANDS["compare"].split(), cwd=place).code == 0
    return place


@pytest.fixture
def place(compared: Path, tmp_path: Path) -> Path:
    """A copy of the compared runs."""
    return Path(shutil.copytree(compared, tmp_path / "place"))


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_what_is_there_is_whole_whenever_it_is_killed(command: str, place: Path) -> None:
    words = command.split()
    begun = time.monotonic()
    usual = agent_eval(*words, cwd=place)
    duration = time.monotonic() - begun
    assert usual.code == 0, usual.err
    expected = tree(place)
    for moment in range(1, MOMENTS + 1):
        process = start(*words, cwd=place)
        time.sleep(duration * moment / MOMENTS)
        process.kill()
        process.communicate()
        for pack in PACKS:
            if (place / pack).exists():
                assert main(["pack", "verify", "--run", str(place / pack)]) == 0, (moment, pack)
    again = agent_eval(*words, cwd=place)
    assert (again.code, again.err) == (0, "")
    # Workers notice soon that nobody waits for them any more; what they held is removed after that.
    for _ in range(20):
        if tree(place) == expected:
            break
        time.sleep(0.2)
        assert agent_eval(*words, cwd=place).code == 0
    assert tree(place) == expected


# Nothing that was acknowledged is lost, and nothing is corrupt, however many write and are killed

WRITER = Path(__file__).with_name("registry_writer.py")


def start_writer(store: RegistryStore, *words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WRITER), str(store.path), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def acknowledged(process: subprocess.Popen[bytes]) -> list[str]:
    out, _ = process.communicate()
    return out.decode().split()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    number, waivers = amount(4, 8, 16), amount(10, 25, 100)
    store = RegistryStore(tmp_path / "registry.json")
    writers = [start_writer(store, f"writer-{one}", waivers) for one in range(number)]
    told = [waiver_id for writer in writers for waiver_id in acknowledged(writer)]
    assert all(writer.returncode == 0 for writer in writers)
    kept = [waiver.waiver_id for waiver in store.read().waivers]
    assert len(kept) == len(set(kept)) == number * waivers
    assert sorted(told) == sorted(kept)
    assert verify_registry(store).problems == []


def test_killed_writers_leave_a_whole_registry_with_everything_acknowledged(tmp_path: Path) -> None:
    kills = amount(20, 60, 200)
    store = RegistryStore(tmp_path / "registry.json")
    told = acknowledged(start_writer(store, "writer", "kill", kills, 7))
    assert told
    kept = [waiver.waiver_id for waiver in store.read().waivers]
    assert set(told) <= set(kept)
    # A killed writer may have written without having told.
    assert len(kept) - len(told) <= kills
    assert verify_registry(store).problems == []
    assert acknowledged(start_writer(store, "next", 1))
    assert verify_registry(store).problems == []
