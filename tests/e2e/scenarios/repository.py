"""A git repository with an agent, and its jobs outside CI, one after the other: real git and processes."""

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.program import agent_eval

GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-c", "commit.gpgsign=false")

AGENT = """\
import json, os, sys, time
from pathlib import Path

task = json.load(sys.stdin)
case = task["case_id"]
world = Path({world!r})
tools = ["lookup_order", "say"]
if (world / f"{{case}}-once").exists():
    (world / f"{{case}}-once").unlink()
    tools.append("escalate")
if (world / f"{{case}}-broken").exists():
    tools.append("escalate")
{body}
json.dump({{
    "assistant_output": "It is on its way.",
    "tool_calls": [{{"tool": name, "arguments": {{}}}} for name in tools],
}}, sys.stdout)
"""
"""Passes every case, unless its body or a file of the world outside of the checkouts says otherwise."""

COMMAND = f"{sys.executable} -S -E agent.py"


def broken(*numbers: int) -> str:
    """Lines of an agent that fails these cases."""
    return f"if case in {[f'order-{number}' for number in numbers]!r}: tools.append('escalate')\n"


def case(number: int) -> dict[str, Any]:
    """A case whose agent must look the order up and not escalate."""
    return {
        "case_id": f"order-{number}",
        "input": f"Where is order {number}?",
        "policy": {"required_tools": ["lookup_order"], "forbidden_tools": ["escalate"]},
        "metadata": {"tool_responses": {name: {"status": "shipped"} for name in ("lookup_order", "say")}},
    }


@dataclass(frozen=True)
class Job:
    """How a job ended."""

    code: int
    outcome: str
    sentence: str
    """The first of the decision; the error's message where there is none."""
    decision: dict[str, Any]
    reruns: dict[str, Any]
    log: str


class Repository:
    """A repository whose main branch is evaluated, and then a change of it.

    Args:
        root: Where everything is made.
        cases: Number of cases.
        settings: Further keys of `agent-eval.yml`.
        policy: Lines of `gate.yml`.
        command: The agent's; None for an agent that is no program.
    """

    def __init__(
        self,
        root: Path,
        *,
        cases: int = 6,
        settings: Mapping[str, object] | None = None,
        policy: str = "",
        command: str | None = COMMAND,
    ) -> None:
        self.root, self.top, self.world = root, root / "checkout", root / "world"
        self._hour = 0
        for folder in (self.top, self.world):
            folder.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")
        rows = [case(number + 1) for number in range(cases)]
        self.write("suite.json", json.dumps({"dataset_id": "shop", "cases": rows}))
        agent = f"agent: {{run: {json.dumps(command)}}}\nparallel: 4\n" if command is not None else ""
        self.write("agent-eval.yml", f"suites: suite.json\npolicy: {{file: gate.yml}}\n{agent}")
        self.settings(**(settings or {}))
        self.write("gate.yml", policy or "preset: pull-request\n")
        self.write(".gitignore", "agent-eval-out/\nignored.log\n")
        self.agent()
        self.commit("main")

    def git(self, *arguments: str) -> str:
        done = subprocess.run([*GIT, *arguments], cwd=self.top, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.top / name).write_text(text)

    def settings(self, **keys: object) -> None:
        """Set keys of `agent-eval.yml`."""
        content = yaml.safe_load((self.top / "agent-eval.yml").read_text())
        for key, value in keys.items():
            *groups, name = key.split(".")
            place = content
            for group in groups:
                place = place.setdefault(group, {})
            place[name] = value
        self.write("agent-eval.yml", yaml.safe_dump(content, sort_keys=False))

    def agent(self, body: str = "") -> None:
        """Write the agent, with further lines."""
        self.write("agent.py", AGENT.format(world=str(self.world), body=body))

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def happens(self, *names: str) -> None:
        """Put files into the world, which agents see."""
        for name in names:
            (self.world / name).write_text("")

    def main(self, runs: int = 3, **environ: str) -> None:
        """Evaluate main several times; the first runs have four trials of each case."""
        for _ in range(runs):
            job = self.job(**environ)
            assert job.code == 0, job.log

    def topic(self, body: str = "") -> None:
        """Begin a change, with another agent."""
        self.git("switch", "--quiet", "--create", "topic")
        self.agent(f"# of the change\n{body}")
        self.commit("topic")

    def job(self, **environ: str) -> Job:
        """Run the job on what is checked out."""
        store = self.root / "store"
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        self._hour += 1
        own = {"HOME": str(home), "AGENT_EVAL_CLOCK": f"2026-01-14T{self._hour:02d}:00:00+00:00"}
        ended = agent_eval("ci", "--baseline-store", store, cwd=self.top, environ={**own, **environ})
        run = max((store / "runs").iterdir(), key=lambda place: int(place.name))
        outputs = json.loads((run / "outputs.json").read_text())
        compare = self.top / "agent-eval-out" / "shop" / "compare"
        found = {
            name: json.loads(path.read_text()) if (path := compare / f"{name}.json").is_file() else {}
            for name in ("gate_decision", "reruns")
        }
        decision = found["gate_decision"] if outputs["outcome"] != "error" else {}
        log = ended.out + ended.err
        error = next((line for line in log.splitlines() if line.startswith("Error: ")), "")
        sentence = decision.get("sentence") or error.removeprefix("Error: ")
        return Job(ended.code, outputs["outcome"], sentence, decision, found["reruns"], log)


Before = Callable[[Repository], object]


class Evaluated:
    """Repositories whose main was evaluated. Who asks for the same gets a copy of what was made once.

    All are at one place, one after the other, as paths stand in agents and in evidence.
    """

    def __init__(self, root: Path) -> None:
        self._place, self._kept = root / "place", root / "kept"
        self._made: dict[Hashable, Repository] = {}

    def __call__(
        self,
        make: Callable[..., Repository] = Repository,
        *,
        before: Before | None = None,
        runs: int = 3,
        environ: dict[str, str] | None = None,
        **how: Any,
    ) -> Repository:
        """Return a repository, after these runs of its main.

        Args:
            make: What makes it, of the place and `how`.
            before: What main has beside that; committed.
            environ: Variables of the runs.
        """
        environ = environ or {}
        usual = {"cases": 6, "settings": {}, "policy": ""}
        key = (
            *(make, before, runs),
            *sorted(environ.items()),
            json.dumps({**usual, **how}, sort_keys=True, default=str),
        )
        shutil.rmtree(self._place, ignore_errors=True)
        if key in self._made:
            shutil.copytree(self._kept / str(list(self._made).index(key)), self._place, symlinks=True)
            return copy.copy(self._made[key])
        self._place.mkdir(parents=True)
        repository = make(self._place, **how)
        if before is not None:
            before(repository)
            repository.commit("main")
        repository.main(runs, **environ)
        shutil.copytree(self._place, self._kept / str(len(self._made)), symlinks=True)
        self._made[key] = copy.copy(repository)
        return repository
