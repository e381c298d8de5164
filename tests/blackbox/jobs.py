"""One repository on each CI platform: a real checkout, the platform's variables, and its API on localhost.

The job is what the platform's template runs, `agent-eval ci`, with flags and variables alone.
"""

from __future__ import annotations

import io
import json
import re
import subprocess
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.blackbox.installed import Ended, Program
from tests.fakes import github, gitlab
from tests.fakes.buildkite import AGENT_TOKEN, FakeBuildkite
from tests.fakes.buildkite import TOKEN as BUILDKITE_TOKEN
from tests.fakes.buildkite import WEB as BUILDKITE
from tests.fakes.circleci import SLUG, FakeCircleCI, identity
from tests.fakes.circleci import TOKEN as CIRCLECI_TOKEN
from tests.fakes.contract import Contract
from tests.fakes.jenkins import FOLDER, FakeJenkins
from tests.fakes.jenkins import TOKEN as JENKINS_TOKEN

EVIDENCE = "agent-eval-out/evidence.zip"
LINE = "agent-eval ci --suite suite.json --max-regressed-cases 0"
CASES = ("order-1", "order-2", "order-3", "order-4")
MAIN = 400
"""Number of main's run."""

contract = cache(Contract)


def suite(*, escalates: bool) -> str:
    """Four recorded cases of an agent that must not escalate."""
    tool = "escalate" if escalates else "refund"
    trace = [
        {"idx": 0, "actor": "agent", "type": "tool_call", "tool": tool, "call_id": "c", "input": {}},
        {"idx": 1, "actor": "tool", "type": "tool_result", "tool": tool, "call_id": "c", "output": "ok"},
        {"idx": 2, "actor": "agent", "type": "message", "output": "Done."},
    ]
    policy = {"forbidden_tools": ["escalate"]}
    cases = [{"case_id": name, "input": f"Do {name}.", "policy": policy, "trace": trace} for name in CASES]
    return json.dumps({"dataset_id": "shop", "cases": cases}, indent=1)


class Checkout:
    """A clone whose remote `origin` is a repository on disk; nothing of the user's configuration counts.

    Attributes:
        top: Its directory.
        base: The commit of main.
        head: The commit of the branch `topic`; that of main until there is one.
    """

    def __init__(self, root: Path) -> None:
        self.top = root / "checkout"
        self._environ = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(root),
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        self.top.mkdir()
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(root / "origin.git"))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("remote", "add", "origin", str(root / "origin.git"))
        self.base = self.head = self._commit(suite(escalates=False))
        self._push("main")
        self.git("remote", "set-head", "origin", "main")

    def change(self, *, escalates: bool) -> str:
        """Add a commit to the branch `topic`, and check out its merge into main; the merge's name."""
        self.git("switch", "--quiet", *(("--create", "topic") if self.head == self.base else ("topic",)))
        self.head = self._commit(suite(escalates=escalates))
        self._push("topic")
        self.git("switch", "--quiet", "--detach", "main")
        self.git("merge", "--quiet", "--no-ff", "--message=merge", "topic")
        return self.git("rev-parse", "HEAD")

    def _commit(self, text: str) -> str:
        (self.top / "suite.json").write_text(text)
        self.git("add", "suite.json")
        self.git("commit", "--quiet", "--allow-empty", "--message=change")
        return self.git("rev-parse", "HEAD")

    def _push(self, branch: str) -> None:
        self.git("push", "--quiet", "--set-upstream", "origin", branch)

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=self.top, env=self._environ, capture_output=True, check=True
        )
        return done.stdout.decode().strip()


class Job(ABC):
    """The repository's job on one platform.

    Attributes:
        checkout: The repository.
        server: The platform on localhost; its `violations` are what differed from its description.
    """

    def __init__(self, root: Path, program: Program, server: Any) -> None:
        self.root, self.program, self.server = root, program, server
        self.checkout = Checkout(root)

    @abstractmethod
    def push(self) -> Ended:
        """Run the job of main, and keep its evidence as the platform does."""

    @abstractmethod
    def change(self, number: int, *, escalates: bool) -> Ended:
        """Run job `number` of a change into main, which is pushed to again for a further job."""

    def outcome(self) -> str:
        """What a later step reads of the last job where it can; else what the evidence says."""
        decision = self.file("shop/compare/gate_decision.json")
        return json.loads(decision.read_text())["gate_status"] if decision.is_file() else "no-baseline"

    def comments(self) -> list[str] | None:
        """What the job wrote on the change; None where the platform has no such place."""
        return None

    def file(self, name: str) -> Path:
        """A file of the job's directory of results."""
        return self.checkout.top / "agent-eval-out" / name

    def run(self, variables: Mapping[str, str], *more: str) -> Ended:
        """Run the job in the checkout."""
        env = {"AGENT_EVAL_CLOCK": "2026-01-13T08:00:00+00:00", "GIT_CONFIG_NOSYSTEM": "1", **variables}
        return self.program.run([*LINE.split(), *more], self.checkout.top, env)


class OnGitHub(Job):
    def push(self) -> Ended:
        base = self.checkout.base
        self.server.branches["main"] = base
        self.server.add_run(MAIN, status="in_progress", head_sha=base)
        ended = self._job(MAIN, "push", {}, base, "heads/main")
        assert ended.code == 0, ended
        self.server.runs[MAIN]["status"] = "completed"
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("evidence.zip", self.file("evidence.zip").read_bytes())
        self.server.add_artifact(MAIN, buffer.getvalue())
        return ended

    def change(self, number: int, *, escalates: bool) -> Ended:
        merge = self.checkout.change(escalates=escalates)
        base, head = self.checkout.base, self.checkout.head
        self.server.merge_base = base
        self.server.add_run(number, status="in_progress", event="pull_request", head_sha=head)
        self.server.add_pull(7, head)
        self.server.pulls[7]["base"]["sha"] = base
        own = {"id": github.REPOSITORY_ID}
        pull = {
            "head": {"sha": head, "ref": "topic", "repo": own},
            "base": {"sha": base, "ref": "main", "repo": own},
        }
        return self._job(
            number, "pull_request", {"pull_request": {"number": 7, **pull}}, merge, "pull/7/merge"
        )

    def _job(self, number: int, event: str, payload: dict[str, Any], commit: str, ref: str) -> Ended:
        repository = {"id": github.REPOSITORY_ID, "default_branch": "main", "full_name": github.REPOSITORY}
        (self.root / "event.json").write_text(json.dumps({"repository": repository, **payload}))
        for name in ("output", "summary"):
            (self.root / name).write_bytes(b"")
        variables = {
            "GITHUB_ACTIONS": "true",
            "GITHUB_REPOSITORY": github.REPOSITORY,
            "GITHUB_REPOSITORY_ID": str(github.REPOSITORY_ID),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(self.root / "event.json"),
            "GITHUB_RUN_ID": str(number),
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_SHA": commit,
            "GITHUB_REF": f"refs/{ref}",
            "GITHUB_API_URL": self.server.url,
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_OUTPUT": str(self.root / "output"),
            "GITHUB_STEP_SUMMARY": str(self.root / "summary"),
            "INPUT_GITHUB-TOKEN": github.TOKEN,
        }
        return self.run(variables)

    def outcome(self) -> str:
        assert (self.root / "summary").read_text()
        (found,) = re.findall(r"^outcome<<(\S+)\n(.*)\n\1$", (self.root / "output").read_text(), re.MULTILINE)
        return str(found[1])

    def comments(self) -> list[str]:
        return list(self.server.bodies(7))


class OnGitLab(Job):
    def push(self) -> Ended:
        self.server.branches["main"] = self.checkout.base
        self.server.add_pipeline(MAIN, sha=self.checkout.base)
        named = {
            "CI_COMMIT_BRANCH": "main",
            "CI_PIPELINE_SOURCE": "push",
            "CI_COMMIT_SHA": self.checkout.base,
        }
        ended = self._job(MAIN, named)
        top = self.checkout.top
        kept = [path for path in (top / "agent-eval-out").rglob("*") if path.is_file()]
        self.server.add_job(MAIN, {path.relative_to(top).as_posix(): path.read_bytes() for path in kept})
        return ended

    def change(self, number: int, *, escalates: bool) -> Ended:
        self.checkout.change(escalates=escalates)
        self.checkout.git("switch", "--quiet", "--detach", "topic")
        base, head = self.checkout.base, self.checkout.head
        self.server.merge_base, self.server.head = base, head
        self.server.add_pipeline(
            number, source="merge_request_event", ref="refs/merge-requests/7/head", sha=head
        )
        variables = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_COMMIT_SHA": head,
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": str(gitlab.PROJECT),
            "CI_MERGE_REQUEST_PROJECT_URL": gitlab.WEB,
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(gitlab.PROJECT),
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
            "CI_MERGE_REQUEST_EVENT_TYPE": "detached",
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "",
        }
        return self._job(number, variables)

    def _job(self, number: int, variables: dict[str, str]) -> Ended:
        common = {
            "GITLAB_CI": "true",
            "CI_PROJECT_ID": str(gitlab.PROJECT),
            "CI_PROJECT_DIR": str(self.checkout.top),
            "CI_API_V4_URL": self.server.url,
            "CI_JOB_TOKEN": gitlab.JOB_TOKEN,
            "CI_JOB_ID": str(90_000 + number),
            "CI_JOB_NAME": "agent-eval",
            "CI_JOB_URL": f"{gitlab.WEB}/-/jobs/{90_000 + number}",
            "CI_PIPELINE_ID": str(number),
            "CI_DEFAULT_BRANCH": "main",
            "AGENT_EVAL_GITLAB_TOKEN": gitlab.TOKEN,
        }
        return self.run({**common, **variables})

    def outcome(self) -> str:
        (found,) = re.findall(r"outcome=\"?([a-z-]+)", self.file("agent-eval.env").read_text(), re.IGNORECASE)
        return str(found)

    def comments(self) -> list[str]:
        return list(self.server.bodies())


class OnBuildkite(Job):
    def push(self) -> Ended:
        base = self.checkout.base
        self.server.add_build(MAIN, commit=base)
        ended = self._job(MAIN, {"BUILDKITE_BRANCH": "main", "BUILDKITE_COMMIT": base})
        assert ended.code == 0, ended
        self.server.add_artifact(MAIN, EVIDENCE, self.file("evidence.zip").read_bytes())
        return ended

    def change(self, number: int, *, escalates: bool) -> Ended:
        self.checkout.change(escalates=escalates)
        self.checkout.git("switch", "--quiet", "--detach", "topic")
        head = self.checkout.head
        self.server.add_build(number, branch="topic", commit=head, state="running", pull_request={"id": "7"})
        variables = {
            "BUILDKITE_BRANCH": "topic",
            "BUILDKITE_COMMIT": head,
            "BUILDKITE_PULL_REQUEST": "7",
            "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
            "BUILDKITE_PULL_REQUEST_REPO": str(self.root / "origin.git"),
        }
        return self._job(number, variables)

    def _job(self, number: int, variables: dict[str, str]) -> Ended:
        programs = self.root / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "buildkite-agent").write_text(
            f'#!/bin/sh\necho "$5" > {self.root}/style\ncat > {self.root}/body\n'
        )
        (programs / "buildkite-agent").chmod(0o755)
        common = {
            "PATH": f"{programs}:{self.program.environ()['PATH']}",
            "BUILDKITE": "true",
            "BUILDKITE_ORGANIZATION_SLUG": "acme",
            "BUILDKITE_PIPELINE_SLUG": "shop",
            "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
            "BUILDKITE_SOURCE": "webhook",
            "BUILDKITE_BUILD_NUMBER": str(number),
            "BUILDKITE_BUILD_URL": f"{BUILDKITE}/builds/{number}",
            "BUILDKITE_JOB_ID": f"0190a3b4-{number}",
            "BUILDKITE_REPO": str(self.root / "origin.git"),
            "BUILDKITE_PULL_REQUEST": "false",
            "BUILDKITE_AGENT_ACCESS_TOKEN": AGENT_TOKEN,
            "AGENT_EVAL_BUILDKITE_TOKEN": BUILDKITE_TOKEN,
            "AGENT_EVAL_BUILDKITE_API_URL": self.server.url,
        }
        return self.run({**common, **variables})

    def comments(self) -> list[str]:
        return [(self.root / "body").read_text()]


class OnCircleCI(Job):
    def push(self) -> Ended:
        base = self.checkout.base
        self.server.add_pipeline(MAIN, source={"revision": base})
        ended = self._job(MAIN, {"CIRCLE_BRANCH": "main", "CIRCLE_SHA1": base})
        self.server.add_job(MAIN, {EVIDENCE: self.file("evidence.zip").read_bytes()})
        return ended

    def change(self, number: int, *, escalates: bool) -> Ended:
        self.checkout.change(escalates=escalates)
        self.checkout.git("switch", "--quiet", "topic")
        head = self.checkout.head
        self.server.add_pipeline(number, source={"revision": head, "branch": "topic"})
        return self._job(number, {"CIRCLE_BRANCH": "topic", "CIRCLE_SHA1": head})

    def _job(self, number: int, variables: dict[str, str]) -> Ended:
        common = {
            "CIRCLECI": "true",
            "CIRCLE_JOB": "agent-eval",
            "CIRCLE_BUILD_NUM": "9000",
            "CIRCLE_BUILD_URL": "https://circleci.com/gh/acme/shop/9000",
            "CIRCLE_PIPELINE_ID": identity(f"pipeline {number}"),
            "AGENT_EVAL_CIRCLECI_TOKEN": CIRCLECI_TOKEN,
            "AGENT_EVAL_CIRCLECI_PROJECT_SLUG": SLUG,
            "AGENT_EVAL_CIRCLECI_API_URL": self.server.url,
        }
        return self.run({**common, **variables})


class OnJenkins(Job):
    def push(self) -> Ended:
        self.server.builds[f"{FOLDER}/job/main"] = []
        base = self.checkout.base
        ended = self._job("main", MAIN, {"BRANCH_NAME": "main", "GIT_COMMIT": base})
        self.server.add_build(f"{FOLDER}/job/main", MAIN, base, self.file("evidence.zip").read_bytes())
        return ended

    def change(self, number: int, *, escalates: bool) -> Ended:
        self.checkout.change(escalates=escalates)
        self.checkout.git("switch", "--quiet", "--detach", "topic")
        named = {"BRANCH_NAME": "PR-12", "CHANGE_ID": "12", "CHANGE_TARGET": "main"}
        return self._job("PR-12", number, {**named, "GIT_COMMIT": self.checkout.head})

    def _job(self, job: str, number: int, variables: dict[str, str]) -> Ended:
        address = f"{self.server.url}{FOLDER}/job/{job}/"
        common = {
            "JENKINS_URL": f"{self.server.url}/ci/",
            "JOB_URL": address,
            "BUILD_NUMBER": str(number),
            "BUILD_URL": f"{address}{number}/",
            "AGENT_EVAL_JENKINS_USER": "ci",
            "AGENT_EVAL_JENKINS_TOKEN": JENKINS_TOKEN,
        }
        return self.run({**common, **variables})


class Outside(Job):
    """Outside of any platform: the store of baselines is a directory."""

    def push(self) -> Ended:
        return self.run({}, "--baseline-store", str(self.root / "store"))

    def change(self, number: int, *, escalates: bool) -> Ended:
        self.checkout.change(escalates=escalates)
        self.checkout.git("switch", "--quiet", "topic")
        return self.run({}, "--baseline-store", str(self.root / "store"))

    def outcome(self) -> str:
        newest = max((self.root / "store" / "runs").iterdir(), key=lambda run: int(run.name))
        return str(json.loads((newest / "outputs.json").read_text())["outcome"])


class _Nothing:
    """No server."""

    violations: tuple[str, ...] = ()

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        pass


PLATFORMS: dict[str, tuple[type[Job], Any]] = {
    "github": (OnGitHub, lambda: github.FakeGitHub(contract("github"))),
    "gitlab": (OnGitLab, lambda: gitlab.FakeGitLab(contract("gitlab"))),
    "buildkite": (OnBuildkite, lambda: FakeBuildkite(contract("buildkite"))),
    "circleci": (OnCircleCI, lambda: FakeCircleCI(contract("circleci"))),
    "jenkins": (OnJenkins, FakeJenkins),
    "outside": (Outside, _Nothing),
}


@contextmanager
def job_on(name: str, root: Path, program: Program) -> Iterator[Job]:
    """Start a platform on localhost, with a repository whose main has one commit."""
    kind, make_server = PLATFORMS[name]
    with make_server() as server:
        yield kind(root, program, server)
        assert list(server.violations) == []
