"""What holding conversations costs: 100 of 7 turns, 20 at a time, with an agent and a user of 50 ms each.

    python benchmarks/conversations.py               # medians of five, writes results/conversations.json
    python benchmarks/conversations.py --repeat 3 --only openai

Agent and user are models behind a server that answers after a while, in a process of its own. What the
conversations take, judged and durable in the journal, is divided by the larger of two: what waiting alone
takes, and what threads take that make the same calls through the SDKs and do nothing with the answers. These
are timed before and after the run in the same process, so that a busy machine slows all three. The sealed
pack is written afterwards, and is in `ratio_with_pack`.
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
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

CONVERSATIONS, TURNS, PARALLEL, SECONDS = 100, 7, 20, 0.05
CALLS = TURNS + TURNS - 1
"""Calls of a conversation: the agent answers each turn, and the user says each but the first."""
LIMIT = 1.15

SERVER = """
import asyncio, itertools, json, sys
seconds, numbers = float(sys.argv[1]), itertools.count()

def answer(path):
    text = f"message {next(numbers)}"
    if path == b"/agent":
        body = {"assistant_output": text}
    else:
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        body = {"id": "c", "object": "chat.completion", "created": 1, "model": "small", "choices": [choice],
                "usage": usage}
    data = json.dumps(body).encode()
    kind, end = b"Content-Type: application/json\\r\\n", b"\\r\\n\\r\\n"
    return b"HTTP/1.1 200 OK\\r\\n" + kind + b"Content-Length: %d" % len(data) + end + data

class Service(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.unread = transport, b""
    def data_received(self, data):
        self.unread += data
        head, _, rest = self.unread.partition(b"\\r\\n\\r\\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\\r\\n")[0] or 0)
        if len(rest) >= length:
            self.unread = b""
            reply = answer(head.split(b" ", 2)[1])
            asyncio.get_running_loop().call_later(seconds, self.transport.write, reply)

async def main():
    server = await asyncio.get_running_loop().create_server(Service, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def served() -> Iterator[int]:
    """The port of a server that answers after 50 ms."""
    command = [sys.executable, "-c", SERVER, str(SECONDS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def write_suite(path: Path, conversations: int) -> Path:
    user = {"guidelines": "You want a refund. Be polite.", "user_info": {"order": "7"}, "max_turns": TURNS}
    rows = (
        {"case_id": f"case-{n}", "turns": [{"input": "Hello"}], "conversation": user, "regex_patterns": ["."]}
        for n in range(conversations)
    )
    header = {"dataset_id": "bench", "metadata": {"schema_version": "1.2.0"}}
    path.write_text("\n".join(map(json.dumps, [header, *rows])) + "\n")
    return path


def run(place: Path, suite: Path, port: int, agent: dict[str, Any]) -> tuple[float, float, float]:
    """Seconds of a run with this agent and a user behind that port: all, of conversations, of processors."""
    from agent_eval.config.spec import AgentSpec, Judging, LlmSpec, Output, RunSpec
    from agent_eval.operations.run_agent import run_agent

    shutil.rmtree(place / "out", ignore_errors=True)
    llm = LlmSpec(base_url=f"http://127.0.0.1:{port}/v1", model="small", key="key")
    spec = RunSpec(
        suite=suite,
        output=Output(pack=place / "out"),
        agent=AgentSpec(parallel=PARALLEL, **agent),
        judging=Judging(judges=("regex",), llm=llm),
    )
    began, processor = time.perf_counter(), time.process_time()
    result = run_agent(spec, environ={"OPENAI_API_KEY": "key"})
    assert result.summary.passed_cases == result.summary.total_cases, result.summary
    return time.perf_counter() - began, result.progress.seconds, time.process_time() - processor


def bare_calls(port: int, ask_agent: Callable[[], object]) -> float:
    """Seconds of threads that make the same calls and do nothing with the answers."""
    ask_user = through_sdk(port)

    def talk() -> None:
        for _ in range(CONVERSATIONS // PARALLEL):
            for turn in range(TURNS):
                ask_agent()
                if turn:
                    ask_user()

    ask_agent(), ask_user()
    threads = [threading.Thread(target=talk) for _ in range(PARALLEL)]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def through_sdk(port: int) -> Callable[[], object]:
    import openai

    client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="key", max_retries=0)
    messages: Any = [{"role": "system", "content": "Be polite."}, {"role": "user", "content": "Hello"}]
    return lambda: client.chat.completions.create(model="small", messages=messages)


def through_http(port: int) -> Callable[[], object]:
    """Ask the agent over plain HTTP, by a connection for each thread."""
    from http.client import HTTPConnection

    local = threading.local()

    def ask() -> bytes:
        if not hasattr(local, "connection"):
            local.connection = HTTPConnection("127.0.0.1", port)
        local.connection.request("POST", "/agent", b'{"input": "Hello"}')
        return bytes(local.connection.getresponse().read())

    return ask


def held(place: Path, agent: Callable[[int], dict[str, Any]], bare: Callable[[int], Any]) -> dict[str, float]:
    one, many = write_suite(place / "one.jsonl", 1), write_suite(place / "many.jsonl", CONVERSATIONS)
    ideal = CONVERSATIONS / PARALLEL * CALLS * SECONDS
    with served() as port:
        run(place, one, port, agent(port))  # imports what a run needs
        before = bare_calls(port, bare(port))
        wall, conversations, processor = run(place, many, port, agent(port))
        after = bare_calls(port, bare(port))
    by_hand = (before + after) / 2
    return {
        "conversations_s": conversations,
        "wall_s": wall,
        "ideal_s": ideal,
        "bare_s": by_hand,
        "ratio_to_ideal": conversations / ideal,
        "ratio": conversations / max(ideal, by_hand),
        "ratio_with_pack": wall / max(ideal, by_hand),
        "cpu_ms_per_call": processor / (CONVERSATIONS * CALLS) * 1000,
        "limit": LIMIT,
    }


def openai_agent(place: Path) -> dict[str, float]:
    """Agent and user are hosted models, both asked through the SDK."""
    return held(
        place, lambda port: {"name": "openai:small", "base_url": f"http://127.0.0.1:{port}/v1"}, through_sdk
    )


def http_agent(place: Path) -> dict[str, float]:
    """The agent is an address, and the user a hosted model."""
    return held(place, lambda port: {"url": f"http://127.0.0.1:{port}/agent"}, through_http)


FIGURES: dict[str, Callable[[Path], dict[str, float]]] = {"openai": openai_agent, "http": http_agent}


def measure(name: str, repeat: int) -> dict[str, Any]:
    """Medians of a figure's values, with the values of its ratio."""
    with tempfile.TemporaryDirectory() as directory:
        rows = [FIGURES[name](Path(directory)) for _ in range(repeat)]
    return {
        **{key: round(statistics.median(row[key] for row in rows), 3) for key in rows[0]},
        "values": [round(row["ratio"], 3) for row in rows],
        "load_average": round(os.getloadavg()[0], 1),
        "processors": os.cpu_count(),
        "measured": datetime.now(UTC).date().isoformat(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(FIGURES))
    parser.add_argument("--repeat", type=int, default=5)
    chosen = parser.parse_args()
    file = HERE / "results" / "conversations.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for name in chosen.only.split(","):
        results[name] = measure(name, chosen.repeat)
        print(name, json.dumps(results[name]))
        file.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
