"""Nothing that was acknowledged is lost, and nothing is corrupt, however many write and are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from agent_eval.registry.store import RegistryStore, verify_registry
from tests.extent import amount

WRITER = Path(__file__).with_name("registry_writer.py")


def start(store: RegistryStore, *words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WRITER), str(store.path), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def acknowledged(process: subprocess.Popen[bytes]) -> list[str]:
    out, _ = process.communicate()
    return out.decode().split()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    number, waivers = amount(4, 8, 16), amount(10, 25, 100)
    store = RegistryStore(tmp_path / "registry.json")
    writers = [start(store, f"writer-{one}", waivers) for one in range(number)]
    told = [waiver_id for writer in writers for waiver_id in acknowledged(writer)]
    assert all(writer.returncode == 0 for writer in writers)
    kept = [waiver.waiver_id for waiver in store.read().waivers]
    assert len(kept) == len(set(kept)) == number * waivers
    assert sorted(told) == sorted(kept)
    assert verify_registry(store).problems == []


def test_killed_writers_leave_a_whole_registry_with_everything_acknowledged(tmp_path: Path) -> None:
    kills = amount(20, 60, 200)
    store = RegistryStore(tmp_path / "registry.json")
    told = acknowledged(start(store, "writer", "kill", kills, 7))
    assert told
    kept = [waiver.waiver_id for waiver in store.read().waivers]
    assert set(told) <= set(kept)
    # A killed writer may have written without having told.
    assert len(kept) - len(told) <= kills
    assert verify_registry(store).problems == []
    assert acknowledged(start(store, "next", 1))
    assert verify_registry(store).problems == []
