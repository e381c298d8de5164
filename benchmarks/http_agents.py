"""What asking an agent over HTTP costs: 500 requests a second, and the processor time of a single one.

    python benchmarks/http_agents.py                 # medians of five, writes results/http_agents.json
    python benchmarks/http_agents.py --repeat 3 --only request

The server answers after a while, in a process of its own that does little else. What a run of 1,000 cases
takes is divided by what waiting alone takes, and by what threads take that do nothing but ask; those are
timed beside it, so that a busy machine slows both down.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from benchmarks.processes import Cost, cost  # noqa: E402

AGENT_EVAL = Path(sys.executable).with_name("agent-eval")
CASES, PARALLEL, SECONDS = 1000, 50, 0.1
"""500 requests a second: fifty at a time, each of which the server answers after a tenth of a second."""

LIMIT = 1.3
SINGLE = 500

SERVER = """
import asyncio, sys
body = b'{"assistant_output": "done", "tool_calls": []}'
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
seconds = float(sys.argv[1])

class Agent(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.unread = transport, b""
    def data_received(self, data):
        self.unread += data
        head, _, rest = self.unread.partition(b"\\r\\n\\r\\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\\r\\n")[0] or 0)
        if len(rest) >= length:
            self.unread = b""
            asyncio.get_running_loop().call_later(seconds, self.transport.write, answer)

async def main():
    server = await asyncio.get_running_loop().create_server(Agent, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def served(seconds: float) -> Iterator[int]:
    """The port of a server that answers after that many seconds."""
    command = [sys.executable, "-c", SERVER, str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def write_suite(path: Path, cases: int) -> Path:
    rows = ({"case_id": f"case-{n}", "input": "Refund it.", "regex_patterns": ["."]} for n in range(cases))
    path.write_text("\n".join(map(json.dumps, [{"dataset_id": "bench"}, *rows])) + "\n")
    return path


def run(place: Path, suite: Path, port: int) -> Cost:
    """What `agent-eval run` takes with an agent at that port."""
    shutil.rmtree(place / "out", ignore_errors=True)
    agent = ["--agent", f"http://127.0.0.1:{port}/", "--parallel", str(PARALLEL)]
    return cost([AGENT_EVAL, "run", "--suite", suite, "--out", place / "out", *agent])


def asked_by_hand(port: int) -> float:
    """Seconds of threads that ask as often and do nothing with the answers."""
    body = b'{"case_id": "case-1", "input": "Refund it."}'

    def ask() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        for _ in range(CASES // PARALLEL):
            connection.request("POST", "/", body)
            connection.getresponse().read()

    threads = [threading.Thread(target=ask) for _ in range(PARALLEL)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def agents(place: Path) -> dict[str, float]:
    """A run at 500 requests a second, beside waiting and beside asking alone."""
    one, many = write_suite(place / "one.jsonl", 1), write_suite(place / "many.jsonl", CASES)
    ideal = CASES / PARALLEL * SECONDS
    with served(SECONDS) as port:
        start = run(place, one, port)
        by_hand = asked_by_hand(port)
        whole = run(place, many, port)
    start_up = start.wall - SECONDS
    return {
        "wall_s": whole.wall,
        "start_up_s": start_up,
        "ideal_s": ideal,
        "ratio": whole.wall / (ideal + start_up),
        "by_hand_s": by_hand,
        "ratio_to_by_hand": whole.wall / (by_hand + start_up),
        "cpu_ms_per_request": (whole.cpu - start.cpu) / (CASES - 1) * 1000,
        "limit": LIMIT,
    }


def request(_: Path) -> dict[str, float]:
    """Processor time of one request: of ours, through requests, and through http.client by hand."""
    from agent_eval.agents.http import Service

    body = {"case_id": "case-1", "input": "Refund it."}
    with served(0.0) as port:
        url = f"http://127.0.0.1:{port}/"
        address = Service(url)
        ways: dict[str, Callable[[], object]] = {
            "ours": lambda: address.post(body, seconds=60.0, max_bytes=1 << 20).value,
            "requests": _through_requests(url, body),
            "by_hand": _by_hand(port, json.dumps(body).encode()),
        }
        taken = {name: _processor_ms(send) for name, send in ways.items()}
        address.close()
    figures = {f"{name}_ms": value for name, value in taken.items()}
    return {
        **figures,
        "ratio_to_by_hand": taken["ours"] / taken["by_hand"],
        "ratio_to_requests": taken["ours"] / taken["requests"],
    }


def _through_requests(url: str, body: object) -> Callable[[], object]:
    import requests

    session = requests.Session()
    session.trust_env = False
    return lambda: session.post(url, json=body, timeout=60).content


def _by_hand(port: int, body: bytes) -> Callable[[], object]:
    connection = HTTPConnection("127.0.0.1", port)

    def send() -> bytes:
        connection.request("POST", "/", body, {"Content-Type": "application/json"})
        return connection.getresponse().read()

    return send


def _processor_ms(send: Callable[[], object]) -> float:
    """Processor milliseconds of one call, the first left out: it opens the connection."""
    assert send()
    began = time.process_time()
    for _ in range(SINGLE):
        send()
    return (time.process_time() - began) / SINGLE * 1000


FIGURES: dict[str, Callable[[Path], dict[str, float]]] = {"agents": agents, "request": request}


def measure(name: str, repeat: int) -> dict[str, Any]:
    """Medians of a figure's values, with the values of its ratio."""
    with tempfile.TemporaryDirectory() as directory:
        rows = [FIGURES[name](Path(directory)) for _ in range(repeat)]
    ratio = "ratio" if "ratio" in rows[0] else "ratio_to_by_hand"
    return {
        **{key: round(statistics.median(row[key] for row in rows), 3) for key in rows[0]},
        "values": [round(row[ratio], 3) for row in rows],
        "load_average": round(os.getloadavg()[0], 1),
        "processors": os.cpu_count(),
        "measured": datetime.now(UTC).date().isoformat(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FIGURES))
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    file = HERE / "results" / "http_agents.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for name in chosen.only.split(","):
        results[name] = measure(name, chosen.repeat)
        print(name, json.dumps(results[name]))
        file.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
