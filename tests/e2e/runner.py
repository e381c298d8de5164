"""A simulated GitHub runner: workspace, event, environment, and the files a step writes to."""

import io
import json
import re
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.fork_server import PROGRAM, Command
from tests.e2e.program import CLOCK, REPOSITORY, environment, execute
from tests.factories import make_case, make_suite
from tests.fakes import github as fake
from tests.fakes.commits import change_of, check_out, serve, sha, tip_of
from tests.fakes.github import TOKEN, FakeGitHub
from tests.job_inputs import job_inputs

PULL = 7
BASE_BRANCH_RUN, OWN_RUN, REPORTING_RUN = 400, 500, 600
BASE_SHA, HEAD_SHA = sha("merge base"), sha("head")
STRICT = {"max_regressed_cases": "0", "max_new_hard_fail_cases": "0"}
"""Inputs unless a test gives its own: four cases are too few for anything but thresholds."""
COMMAND = f"{sys.executable} -S -E agent.py"
_AGENT = """\
import json, os, sys
task = json.load(sys.stdin)
said, tools = "It is on its way.", ["lookup_order"]
{body}
calls = [{{"tool": name, "arguments": {{}}}} for name in tools]
json.dump({{"assistant_output": said, "tool_calls": calls}}, sys.stdout)
"""
_NOT_COMMITTED = (".git", "agent-eval-out")
_OUTPUT = re.compile(r"^([a-z-]+)<<(\S+)\n(.*?)\n?^\2$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """How the step ended and what it left."""

    code: int
    log: str
    outputs: dict[str, str]
    summary: str
    workspace: Path

    @property
    def outcome(self) -> str:
        return self.outputs.get("outcome", "")

    @property
    def archive(self) -> bytes:
        return (self.workspace / self.outputs["evidence-archive"]).read_bytes()

    @property
    def annotations(self) -> list[str]:
        """Warnings and errors, decoded; only what the runner would obey."""
        return [
            line.partition("::")[2].replace("%0A", "\n").replace("%25", "%")
            for line in obeyed(self.log)
            if line.startswith(("::warning", "::error"))
        ]


def obeyed(log: str) -> list[str]:
    """The lines of a log in which the runner listens to commands."""
    heard, stopped = [], ""
    for line in log.splitlines():
        if stopped:
            if line == f"::{stopped}::":
                stopped = ""
        elif line.startswith("::stop-commands::"):
            stopped = line.removeprefix("::stop-commands::")
        else:
            heard.append(line)
    return heard


class Runner:
    """One repository's runner.

    Args:
        root: Where workspaces are made.
        github: The GitHub it talks to.
        left_on_main: What a run on main left in which these orders are bad, made elsewhere.
    """

    def __init__(
        self, root: Path, github: FakeGitHub, left_on_main: Callable[..., Step] | None = None
    ) -> None:
        self.root = root
        self.github = github
        self.left_on_main = left_on_main
        self.workspace = root / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.has_own_repository = False
        self.commits_files = False
        """Whether the files of the workspace are in the commits, where agents of the checkout run."""

    def write_suite(self, *cases: dict[str, Any], name: str = "suite.json", dataset_id: str = "shop") -> Path:
        """A suite in the workspace."""
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make_suite(*cases, dataset_id=dataset_id)))
        return path

    def upload(self, step: Step, run_id: int, **artifact: Any) -> None:
        """What `actions/upload-artifact` does with a step's archive."""
        self.github.add_artifact(run_id, zipped({"evidence.zip": step.archive}), **artifact)

    def push(
        self,
        *,
        run_id: int = BASE_BRANCH_RUN,
        branch: str = "main",
        event: str = "push",
        commit: str | None = None,
        environ: dict[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """A push to a branch, main by default."""
        if commit is None:
            commit = self.commit_to_main() if self.commits_files else BASE_SHA
        if run_id not in self.github.runs:
            self.github.add_run(
                run_id, status="in_progress", event=event, head_sha=commit, head_branch=branch
            )
        payload = {"repository": self._repository()}
        step = self.start(event, payload, run_id, commit, f"heads/{branch}", inputs, environ=environ)
        self.github.runs[run_id]["status"] = "completed"
        return step

    def pull_request(
        self,
        *,
        run_id: int = OWN_RUN,
        attempt: int = 1,
        head: str | None = None,
        fork: bool = False,
        event: str = "pull_request",
        into: str = "main",
        checkout: str | None = None,
        environ: dict[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """A commit on pull request 7 into main, which is checked out itself unless a test says otherwise."""
        if head is None:
            head = self.commit_change() if self.commits_files else HEAD_SHA
        if run_id not in self.github.runs:
            self.github.add_run(run_id, status="in_progress", event=event, head_sha=head, fork=fork)
        if PULL not in self.github.pulls or self.commits_files:
            self.github.add_pull(PULL, head)
        payload = {
            "repository": self._repository(),
            "pull_request": {
                "number": PULL,
                "head": {
                    "sha": head, "ref": "topic", "repo": {"id": fake.FORK_ID if fork else fake.REPOSITORY_ID},
                },
                "base": {"sha": sha("commit 599"), "ref": into, "repo": {"id": fake.REPOSITORY_ID}},
            },
        }  # fmt: skip
        return self.start(
            *(event, payload, run_id, sha("trial merge"), f"pull/{PULL}/merge", inputs), attempt=attempt,
            checkout=checkout or head, environ=environ,
        )  # fmt: skip

    def report(
        self,
        *,
        run_id: int = REPORTING_RUN,
        reported: int = OWN_RUN,
        event: str = "workflow_run",
        environ: dict[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """The second job, which reports on a run of a fork's change. Nothing is checked out."""
        if run_id not in self.github.runs:
            self.github.add_run(run_id, status="in_progress", event=event, head_sha=BASE_SHA)
        payload = {
            "repository": self._repository(),
            "workflow_run": {"id": reported, "head_sha": HEAD_SHA, "head_repository": {"id": fake.FORK_ID}},
        }
        given = {"suite": "", "report_run_id": str(reported), "baseline_workflow": "nightly.yml", **inputs}
        server = {**self.served(), **(environ or {})}
        return self.start(event, payload, run_id, BASE_SHA, "heads/main", given, checkout="", environ=server)

    def served(self) -> dict[str, str]:
        """Serve the repository to git; the variable that leads there."""
        serve(self.root / "server" / f"{fake.REPOSITORY}.git", self.github.files)
        return {"GITHUB_SERVER_URL": (self.root / "server").as_uri()}

    def merge_group(self, *, run_id: int = OWN_RUN, **inputs: str) -> Step:
        """A change in the merge queue for main."""
        branch = f"gh-readonly-queue/main/pr-{PULL}-{HEAD_SHA}"
        self.github.add_run(run_id, status="in_progress", event="merge_group", head_branch=branch)
        payload = {
            "repository": self._repository(),
            "merge_group": {"head_sha": HEAD_SHA, "base_sha": BASE_SHA, "base_ref": "refs/heads/main"},
        }
        return self.start("merge_group", payload, run_id, HEAD_SHA, f"heads/{branch}", inputs)

    def start(
        self,
        event: str,
        payload: dict[str, Any],
        run_id: int,
        commit: str,
        ref: str,
        inputs: dict[str, str],
        *,
        attempt: int = 1,
        checkout: str | None = None,
        environ: dict[str, str] | None = None,
        command: tuple[str, ...] = (*PROGRAM, "ci"),
    ) -> Step:
        """Run the step as the runner would. Inputs are named with underscores for hyphens.

        What is checked out is `checkout`, nothing where that is empty; else `commit`, which the event names.
        """
        files = {
            name: self.root / f"{name}-{run_id}-{attempt}" for name in ("event.json", "output", "summary")
        }
        files["event.json"].write_text(json.dumps(payload))
        for name in ("output", "summary"):
            files[name].write_bytes(b"")
        given = {"suite": "suite.json", "github_token": TOKEN, **STRICT, **inputs}
        runner = {
            "GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": fake.REPOSITORY,
            "GITHUB_REPOSITORY_ID": str(fake.REPOSITORY_ID), "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(files["event.json"]), "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_ATTEMPT": str(attempt), "GITHUB_SHA": commit, "GITHUB_REF": f"refs/{ref}",
            "GITHUB_API_URL": self.github.url, "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_OUTPUT": str(files["output"]), "GITHUB_STEP_SUMMARY": str(files["summary"]),
            "AGENT_EVAL_CLOCK": CLOCK, "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        for name, value in job_inputs(given).items():
            runner[f"INPUT_{name.upper()}"] = value
        if checkout != "":
            self.check_out(checkout or commit)
        known = self._holding_the_token()
        code, log = self.execute({**runner, **(environ or {})}, command)
        output = files["output"].read_text()
        step = Step(
            code, log, {name: value for name, _, value in _OUTPUT.findall(output)},
            files["summary"].read_text(), self.workspace,
        )  # fmt: skip
        self._nothing_leaks(step, output)
        assert self._holding_the_token() == known
        return step

    def commit_to_main(self) -> str:
        """Commit the files of the workspace to main; its new tip."""
        self.github.files = self._files()
        return tip_of(self.github.files)

    def commit_change(self) -> str:
        """Commit the files of the workspace to a change of main's tip; its head."""
        return change_of(tip_of(self.github.files), self._files())

    def _files(self) -> dict[str, bytes]:
        found = (path for path in self.workspace.rglob("*") if path.is_file())
        files = {path.relative_to(self.workspace).as_posix(): path.read_bytes() for path in found}
        return {name: data for name, data in files.items() if name.split("/")[0] not in _NOT_COMMITTED}

    def check_out(self, commit: str) -> None:
        """Check out a commit, where the test has not made a repository of its own."""
        if not self.has_own_repository:
            tip_of(self.github.files)
            check_out(self.workspace, commit)

    def execute(self, environ: dict[str, str], command: tuple[str, ...]) -> tuple[int, str]:
        """Run the program in the workspace; its exit code and everything it printed."""
        done = execute(Command(command, str(self.workspace), environment(environ)), join=True)
        return done.code, done.out

    def _nothing_leaks(self, step: Step, output: str) -> None:
        """What holds whatever happens: no token anywhere, no traceback."""
        everything = step.log + output + step.summary + "".join(self.github.bodies(PULL))
        assert TOKEN not in everything
        assert "Traceback" not in step.log, step.log

    def _holding_the_token(self) -> set[Path]:
        """Files of the workspace in which the token stands: those in which a test put it, and no other."""
        files = (path for path in self.workspace.rglob("*") if path.is_file())
        return {path for path in files if TOKEN.encode() in path.read_bytes()}

    def _repository(self) -> dict[str, Any]:
        return {"id": fake.REPOSITORY_ID, "default_branch": "main", "full_name": fake.REPOSITORY}


def order(number: int, *, escalates: bool = False, **fields: Any) -> dict[str, Any]:
    """A case whose agent must not escalate."""
    tools = ("lookup_order", "refund", "escalate") if escalates else ("lookup_order", "refund")
    return make_case(f"order-{number}", *tools, policy={"forbidden_tools": ["escalate"]}, **fields)


def orders(total: int = 4, *, bad: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    """Cases `order-1` to `order-<total>`, of which those in `bad` escalate."""
    return [order(number, escalates=number in bad) for number in range(1, total + 1)]


def live_order(number: int) -> dict[str, Any]:
    """A case without a recorded trace, whose agent must look the order up and not escalate."""
    return {
        "case_id": f"order-{number}",
        "input": f"Where is order {number}?",
        "policy": {"required_tools": ["lookup_order"], "forbidden_tools": ["escalate"]},
        "metadata": {"tool_responses": {"lookup_order": {"status": "shipped"}}},
    }


def agent_program(body: str = "") -> str:
    """An agent that does what it should with a `live_order`, unless `body` changes `said` or `tools`."""
    return _AGENT.format(body=body)


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def unzipped(data: bytes) -> dict[str, bytes]:
    """The files of a zip archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


__all__ = ["REPOSITORY", "Runner", "Step", "live_order", "obeyed", "order", "orders", "unzipped", "zipped"]
