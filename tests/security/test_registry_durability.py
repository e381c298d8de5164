"""Nothing that was acknowledged is lost, and nothing is corrupt, whoever writes and whoever is killed.

`AGENT_EVAL_STRESS=1` runs the whole measure: 16 writers x 100, 200 kills.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agent_eval.registry.store import RegistryStore, verify_registry

WRITER = Path(__file__).with_name("registry_writer.py")
FULL = os.environ.get("AGENT_EVAL_STRESS") == "1"
WRITERS, WAIVERS = (16, 100) if FULL else (16, 5)
KILLS = 200 if FULL else 30


def start(store: RegistryStore, *words: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(WRITER), str(store.path), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def acknowledged(process: subprocess.Popen[bytes]) -> list[str]:
    out, _ = process.communicate()
    return out.decode().split()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    store = RegistryStore(tmp_path / "registry.json")
    writers = [start(store, f"writer-{number}", WAIVERS) for number in range(WRITERS)]
    told = [waiver_id for writer in writers for waiver_id in acknowledged(writer)]
    assert all(writer.returncode == 0 for writer in writers)
    kept = [waiver.waiver_id for waiver in store.read().waivers]
    assert len(kept) == len(set(kept)) == WRITERS * WAIVERS
    assert sorted(told) == sorted(kept)
    assert verify_registry(store).problems == []


def test_killed_writers_leave_a_whole_registry_with_everything_acknowledged(tmp_path: Path) -> None:
    store = RegistryStore(tmp_path / "registry.json")
    told = acknowledged(start(store, "writer", "kill", KILLS, 7))
    assert told
    kept = [waiver.waiver_id for waiver in store.read().waivers]
    assert set(told) <= set(kept)
    # A killed writer may have written without having told.
    assert len(kept) - len(told) <= KILLS
    assert verify_registry(store).problems == []
    assert acknowledged(start(store, "next", 1))
    assert verify_registry(store).problems == []
