"""Real jobs against the simulation: `python -m benchmarks.real_jobs` writes results/real_jobs.json.

`procedure_simulation` drives the functions of the gate. Here the whole `agent-eval ci` does the same work: a
git repository, main's evidence carried from job to job, and agents behind an address that pass or fail by a
draw. What is drawn follows from the job, the side, the case and how often that side was asked for it, so that
the simulation gets the very same answers and has to agree in everything: how the job ends, which cases broke,
and how often each side was asked for each case. All files are in memory, where a sync costs nothing. Takes
about seven minutes of one core; the same figures come out every time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from agent_eval.ci.trials import FIRST_RUNS, FIRST_TRIALS
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import Figures, Rerun, Side, SuiteRound, TrialCounts
from agent_eval.gate.answer import answer
from agent_eval.gate.procedure import HISTORY, Counts, question
from agent_eval.gate.rerun import BaseAgent, rerun
from agent_eval.gate.waivers import Excuses
from benchmarks.procedure_simulation import POPULATIONS, RESULTS, Rates, end_of, event, record
from tests.e2e.program import agent_eval
from tests.e2e.scenarios.repository import Repository, case

TABLE = RESULTS / "real_jobs.json"
EVENTS = ("unchanged", "one breaks", "both -10")
WORLDS = 3
"""Agents of each size."""
ROUNDS = {20: 10, 50: 8, 100: 5}
"""For each agent how often main and then a change of every event is evaluated, by the number of cases."""
FIGURES = ("jobs", "agree", "blocked", "not settled", "passed", "trials")
ENDS = {"failed": "blocked", "inconclusive": "not settled", "passed": "passed"}
DECISION = "agent-eval-out/shop/compare/gate_decision.json"
MEMORY = Path("/dev/shm")
_DATES = {f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")}
"""The commit of a change draws the order of cases that are alike: the same one every time."""


@dataclass
class Answers:
    """What the agents of one job answer, each trial by a draw of its own, and how often they were asked."""

    job: str
    rates: Mapping[str, Rates]
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def passes(self, side: str, case_id: str) -> bool:
        """Draw the next trial of a case on a side."""
        self.asked[side, case_id] += 1
        drawn = Random(f"{self.job}/{side}/{case_id}/{self.asked[side, case_id]}").random()
        return drawn < self.rates[side][int(case_id)]

    def suite(self, side: str) -> list[bool]:
        """Draw the next trial of every case."""
        return [self.passes(side, f"{place:03}") for place in range(len(self.rates[side]))]


class Agents:
    """The agents of all sides, each behind a path of one server; they fail a case by escalating it."""

    def __init__(self) -> None:
        self.answers = Answers("none", {})
        lock, owner = threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def do_POST(self) -> None:
                task = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    passes = owner.answers.passes(urlsplit(self.path).path.strip("/"), task["case_id"])
                tools = ["lookup_order"] + ["escalate"] * (not passes)
                calls = [{"tool": name, "arguments": {}} for name in tools]
                body = json.dumps({"assistant_output": "On its way.", "tool_calls": calls}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, side: str) -> str:
        """The address of a side's agent."""
        return f"http://127.0.0.1:{self._server.server_port}/{side}"

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class Decision:
    """How a job ended, and the trials that each side made of each case."""

    end: str
    broken: Sequence[str]
    asked: Counter[tuple[str, str]]


class World:
    """One repository, whose cases pass with given chances, and main's runs, as the simulation counts them.

    Args:
        root: An empty directory.
        agents: The agents of its jobs.
        name: Goes into every draw.
        cases: Their number.
    """

    def __init__(self, root: Path, agents: Agents, name: str, cases: int) -> None:
        self.name, self.agents, self.cases = name, agents, cases
        self.rates = POPULATIONS["flaky"](Random(name), cases)
        self.main_runs: list[RunRecord] = []
        self._jobs = 0
        self.repository = Repository(root, command=None, settings={"parallel": 4})
        # The program names a directory, and is not run: without it the commits are the same every time.
        (self.repository.top / "agent.py").unlink()
        rows = [{**case(place), "case_id": f"{place:03}"} for place in range(cases)]
        self.repository.write("suite.json", json.dumps({"dataset_id": "shop", "cases": rows}))
        self.repository.git("commit", "--quiet", "--all", "--amend", "--message", "main")

    def main(self) -> None:
        """Evaluate main once more."""
        trials = FIRST_TRIALS if len(self.main_runs) < FIRST_RUNS else 1
        job = f"{self.name}/main/{self._jobs}"
        drawn = Answers(job, {"main": self.rates})
        self.main_runs.insert(0, record(job, [drawn.suite("main") for _ in range(trials)]))
        self.repository.git("switch", "--quiet", "main")
        self._run(Answers(job, drawn.rates), "main")

    def change(self, name: str) -> tuple[Decision, Decision]:
        """Evaluate a change after an event; what the job decided, and what the simulation does."""
        job = f"{self.name}/{name}/{self._jobs}"
        change, base = event(Random(job), self.rates, name)
        rates = {"change": change, "base": base}
        self.repository.git("switch", "--quiet", "--force-create", "topic", "main")
        commit = self.repository.commit(job)
        real = Answers(job, rates)
        decision = self._run(real, "change", AGENT_EVAL_BASE_AGENT=self.agents.url("base"))
        broken = [row["case_id"] for row in decision["cases"] if row["answer"] == "broke"]
        done = Decision(ENDS[decision["gate_status"]], sorted(broken), real.asked)
        return done, self._simulated(Answers(job, rates), commit)

    def _run(self, answers: Answers, side: str, **environ: str) -> dict[str, Any]:
        """Run the job on what is checked out; its decision."""
        self.agents.answers = answers
        self._jobs += 1
        now = datetime(2026, 1, 14, tzinfo=UTC) + timedelta(minutes=self._jobs)
        root, top = self.repository.root, self.repository.top
        environ |= {"AGENT_EVAL_AGENT": self.agents.url(side), "AGENT_EVAL_CLOCK": now.isoformat()}
        environ |= {"HOME": str(root)}
        ended = agent_eval("ci", "--baseline-store", root / "store", cwd=top, environ=environ)
        assert ended.code in (0, 1, 3), ended.out + ended.err
        found: dict[str, Any] = json.loads((top / DECISION).read_text())
        return found

    def _simulated(self, answers: Answers, commit: str) -> Decision:
        """Drive the gate's own functions, as the simulation does, through the same answers."""
        own = record("own", [answers.suite("change")])
        main = self.main_runs[:HISTORY]
        counts = Counts(own=own, main=main, baseline=main[0], newest=main[0])
        asks = question(counts, GatePolicy(), Excuses(), seed=commit, may_rerun=True)
        reruns = rerun({"s0": asks}, Replayed(answers), BaseAgent("isolated"))["s0"]
        found = answer(asks, reruns)
        return Decision(end_of([found]), sorted(found.broken), answers.asked)


@dataclass
class Replayed:
    """Runs the trials of the simulation."""

    answers: Answers

    def trials(self, _slug: str, side: Side, case_ids: Sequence[str]) -> Mapping[str, Rerun]:
        """Draw one trial of each case."""
        return {
            case_id: Rerun(result="passed" if self.answers.passes(side, case_id) else "failed")
            for case_id in case_ids
        }

    def whole_suite(self, _slug: str, sides: Sequence[Side]) -> tuple[SuiteRound, Mapping[Side, Figures]]:
        """Draw a run of the whole suite by each side."""
        done = SuiteRound()
        for side in sides:
            for place, passed in enumerate(self.answers.suite(side)):
                getattr(done, side)[f"{place:03}"] = TrialCounts(passed=int(passed), trials=1)
        return done, {}

    def altered(self, _slug: str) -> Mapping[Side, str]:
        """No side alters the other."""
        return {}


def decisions(
    cases: int, *, worlds: int = WORLDS, rounds: int, main_runs: int = HISTORY
) -> Iterator[tuple[str, Decision, Decision]]:
    """Decide on changes of so many cases; the event, what the job decided, and what the simulation does."""
    memory = MEMORY if MEMORY.is_dir() else None
    for number in range(worlds):
        with closing(Agents()) as agents, tempfile.TemporaryDirectory(dir=memory) as folder:
            here = World(Path(folder), agents, f"{cases}/{number}", cases)
            for _ in range(main_runs - 1):
                here.main()
            for _ in range(rounds):
                here.main()
                for name in EVENTS:
                    yield name, *here.change(name)


def main() -> int:
    """Write how the jobs ended, by cases and event; 1 where one does not agree with the simulation."""
    os.environ.update(_DATES)
    found: dict[str, Counter[str]] = {}
    for cases, rounds in ROUNDS.items():
        for name, real, simulated in decisions(cases, rounds=rounds):
            row = found.setdefault(f"flaky {cases}, {name}", Counter(dict.fromkeys(FIGURES, 0)))
            row.update({"jobs": 1, "agree": real == simulated, real.end: 1})
            row["trials"] += real.asked.total()
            if real != simulated:
                print(cases, name, real, simulated, sep="\n  ", flush=True)
            print(cases, name, dict(row), flush=True)
    TABLE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(any(row["agree"] < row["jobs"] for row in found.values()))


if __name__ == "__main__":
    sys.exit(main())
