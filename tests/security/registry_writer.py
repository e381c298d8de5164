"""Writes waivers until it is told to stop or killed, printing each that was acknowledged.

python registry_writer.py REGISTRY NAME COUNT
python registry_writer.py REGISTRY NAME kill COUNT SEED   # forks writers and kills them at random moments
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from agent_eval.registry.store import RegistryStore
from agent_eval.registry.waivers import add_waiver


def write(store: RegistryStore, name: str, count: int, begun: int | None = None) -> None:
    for number in range(count):
        waiver = add_waiver(
            store, baseline_name="main", approved_by=name, reason="a reason", case_id=f"case-{number}",
            at="2026-01-01T00:00:00+00:00",
        )  # fmt: skip
        # One write call, so that an acknowledgement is printed whole or not at all.
        os.write(1, f"{waiver.waiver_id}\n".encode())
        if begun is not None and number == 0:
            os.write(begun, b".")


def kill_writers(store: RegistryStore, name: str, kills: int, seed: int) -> None:
    """Kill every other writer after its first acknowledgement, however slow the machine; the rest at once."""
    source = random.Random(seed)
    for number in range(kills):
        has_begun, begun = os.pipe()
        child = os.fork()
        if child == 0:
            write(store, name, 10**9, begun)
        os.close(begun)
        if number % 2:
            os.read(has_begun, 1)
        time.sleep(source.uniform(0.001, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(has_begun)


if __name__ == "__main__":
    where = RegistryStore(Path(sys.argv[1]))
    if sys.argv[3] == "kill":
        kill_writers(where, sys.argv[2], int(sys.argv[4]), int(sys.argv[5]))
    else:
        write(where, sys.argv[2], int(sys.argv[3]))
