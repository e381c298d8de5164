"""Five platforms behind one interface, so that a test can put each into the same situation.

Each is the simulated runner that its own tests have, with the platform on localhost beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agent_eval.ci.config import gather
from tests.e2e.runner import BASE_SHA, PULL, Runner
from tests.fakes.buildkite import AGENT_TOKEN, FakeBuildkite
from tests.fakes.buildkite import TOKEN as BUILDKITE_TOKEN
from tests.fakes.circleci import TOKEN as CIRCLECI_TOKEN
from tests.fakes.circleci import FakeCircleCI
from tests.fakes.commits import change_of
from tests.fakes.contract import Contract
from tests.fakes.github import TOKEN as GITHUB_TOKEN
from tests.fakes.github import FakeGitHub
from tests.fakes.gitlab import FORK, JOB_TOKEN, SOMEONE_ELSE, FakeGitLab
from tests.fakes.gitlab import TOKEN as GITLAB_TOKEN
from tests.fakes.jenkins import FOLDER, LOGIN, FakeJenkins
from tests.fakes.jenkins import TOKEN as JENKINS_TOKEN
from tests.unit.ci.platforms.builds import (
    EVIDENCE,
    BuildkiteRunner,
    CircleCIRunner,
    GitLabRunner,
    JenkinsRunner,
)
from tests.unit.ci.platforms.builds import FORK as FORK_OF_BUILDKITE

SECRETS = (
    *(GITHUB_TOKEN, GITLAB_TOKEN, JOB_TOKEN, BUILDKITE_TOKEN, AGENT_TOKEN, CIRCLECI_TOKEN, JENKINS_TOKEN),
    LOGIN,
)
BASE = 400
NUMEROUS = 300
OWN_ID = gather({"suite": "suite.json"}, {}, None)["comment-id"].text
"""The id of a comment of a job that states its suite alone."""
MAIN = f"{FOLDER}/job/main"

contract = cache(Contract)


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code, and everything it wrote for people."""

    code: int
    text: str


class CiPlatform(ABC):
    """One repository on one platform, whose server is started; `workspace` is the checkout."""

    runs: Callable[..., Any]
    """The class of its runner."""

    def __init__(self, root: Path, server: Any) -> None:
        self.server, self.runner = server, type(self).runs(root, server)
        self.workspace: Path = (
            self.runner.workspace if isinstance(self.runner, Runner) else self.runner.repository.top
        )

    def write_suite(self, *cases: dict[str, Any]) -> None:
        """Write `suite.json` into the checkout."""
        self.runner.write_suite(*cases)

    def push(self, **inputs: str) -> Ended:
        """Run `BASE` on main, whose evidence is kept."""
        return self.ended(self.runner.push(BASE, **inputs))

    def ended(self, step: Any) -> Ended:
        """Read how a step of the runner ended."""
        return Ended(step.code, step.log + (step.summary if hasattr(step, "summary") else step.report))

    @abstractmethod
    def change(self, number: int = 500, **inputs: str) -> Ended:
        """Run the job of a change into main."""

    @abstractmethod
    def fork_beside_secrets(self, **inputs: str) -> Ended:
        """Run a fork's change in a job that has the repository's secrets."""

    @abstractmethod
    def fork(self, **inputs: str) -> Ended:
        """Run a fork's change as the platform's safe recipe does."""

    @abstractmethod
    def run_without_evidence(self) -> None:
        """Add the run `BASE` on main that left no evidence."""

    @abstractmethod
    def expire(self) -> None:
        """Let the platform delete the evidence of the base."""

    @abstractmethod
    def damage(self) -> None:
        """Change the evidence of the base, or what the platform recorded of it."""

    @abstractmethod
    def forbid(self) -> dict[str, str]:
        """Take away the permission to read earlier runs; inputs by which that shows."""

    @abstractmethod
    def crowd(self) -> None:
        """Fill the lists that the job searches with hundreds of entries of others, over several pages."""

    def write_at_once(self) -> bool:
        """Let another job write its comment at the same moment; False where jobs write none to a server."""
        return False

    def comments(self) -> list[str]:
        """What the job wrote on the change, where the platform has such a place."""
        return []


class OnGitHub(CiPlatform):
    """GitHub Actions."""

    runs = Runner

    def push(self, **inputs: str) -> Ended:
        step = self.runner.push(run_id=BASE, **inputs)
        self.runner.upload(step, BASE)
        return self.ended(step)

    def change(self, number: int = 500, **inputs: str) -> Ended:
        files = {path.name: path.read_bytes() for path in self.workspace.iterdir() if path.is_file()}
        head = None if self.runner.commits_files else change_of(BASE_SHA, files)
        return self.ended(self.runner.pull_request(run_id=number, head=head, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(
            self.runner.pull_request(run_id=510, fork=True, event="pull_request_target", **inputs)
        )

    def fork(self, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(run_id=511, fork=True, **inputs))

    def run_without_evidence(self) -> None:
        self.server.add_run(BASE, head_sha=BASE_SHA)

    def expire(self) -> None:
        next(iter(self.server.artifacts.values()))[1]["expired"] = True

    def damage(self) -> None:
        next(iter(self.server.artifacts.values()))[1]["digest"] = f"sha256:{'0' * 64}"

    def forbid(self) -> dict[str, str]:
        self.server.permissions.discard("actions: read")
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.server.add_comment(PULL, f"note {number}", author="ada")

    def write_at_once(self) -> bool:
        other = f"<!-- agent-eval id={OWN_ID} run=1 attempt=1 -->\n\nfirst"
        self.server.on_create = lambda: self.server.add_comment(PULL, other) and None  # type: ignore[func-returns-value]
        return True

    def comments(self) -> list[str]:
        return [body for body in self.server.bodies(PULL) if body.startswith("<!-- agent-eval")]


class OnGitLab(CiPlatform):
    """GitLab CI."""

    runs = GitLabRunner

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.merge_request(number, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.merge_request(510, source=FORK, **inputs))

    def fork(self, **inputs: str) -> Ended:
        self.server.fail("GET", "/jobs", 404, times=9)
        return self.ended(
            self.runner.merge_request(511, source=FORK, runs_in=FORK, gitlab_token="", **inputs)
        )

    def run_without_evidence(self) -> None:
        self.server.add_pipeline(BASE, sha=self.runner.base)
        self.server.add_job(BASE, None)

    def expire(self) -> None:
        next(iter(self.server.jobs.values()))["artifacts_expire_at"] = "2026-01-13T07:59:00Z"

    def damage(self) -> None:
        (files,) = self.server.files.values()
        files[EVIDENCE] = files[EVIDENCE][:-9]

    def forbid(self) -> dict[str, str]:
        self.server.fail("GET", "/pipelines", 403, times=9)
        self.server.fail("GET", "/jobs", 403, times=9)
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.server.add_note(f"note {number}", author=SOMEONE_ELSE)

    def write_at_once(self) -> bool:
        other = f"<!-- agent-eval id={OWN_ID} run=1 attempt=1 -->\nfirst"
        self.server.on_create = lambda: self.server.add_note(other) and None  # type: ignore[func-returns-value]
        return True

    def comments(self) -> list[str]:
        return [body for body in self.server.bodies() if body.startswith("<!-- agent-eval")]


class OnBuildkite(CiPlatform):
    """Buildkite."""

    runs = BuildkiteRunner

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(number, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(510, source=FORK_OF_BUILDKITE, **inputs))

    def fork(self, **inputs: str) -> Ended:
        return self.ended(
            self.runner.pull_request(511, source=FORK_OF_BUILDKITE, buildkite_token="", **inputs)
        )

    def run_without_evidence(self) -> None:
        self.server.add_build(BASE, commit=self.runner.base)

    def expire(self) -> None:
        next(iter(self.server.artifacts.values()))[1]["state"] = "expired"

    def damage(self) -> None:
        next(iter(self.server.artifacts.values()))[1]["sha1sum"] = "0" * 40

    def forbid(self) -> dict[str, str]:
        self.server.fail("GET", "/builds", 403, times=9)
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.server.add_build(1_000 + number, state="running")

    def comments(self) -> list[str]:
        return [body for body in [self.runner.annotation()[1]] if body]


class OnCircleCI(CiPlatform):
    """CircleCI, which has no place for a comment."""

    runs = CircleCIRunner

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.branch(number, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.branch(510, environ={"CIRCLE_PR_NUMBER": "7"}, **inputs))

    def fork(self, **inputs: str) -> Ended:
        return self.ended(
            self.runner.branch(511, environ={"CIRCLE_BRANCH": "pull/7"}, circleci_token="", **inputs)
        )

    def run_without_evidence(self) -> None:
        self.server.add_pipeline(BASE, source={"revision": self.runner.base})

    def expire(self) -> None:
        for rows in self.server.artifacts.values():
            rows.clear()

    def damage(self) -> None:
        self.server.files = {name: data[:-9] for name, data in self.server.files.items()}

    def forbid(self) -> dict[str, str]:
        self.server.fail("/pipeline", 403)
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.server.add_pipeline(1_000 + number, source={"branch": "other"})
        for number in range(45):
            self.server.add_pipeline(2_000 + number)


class OnJenkins(CiPlatform):
    """Jenkins below a path, which has no place for a comment."""

    runs = JenkinsRunner

    def __init__(self, root: Path, server: Any) -> None:
        super().__init__(root, server)
        server.builds[MAIN] = []

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(**inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(environ={"CHANGE_FORK": "mallory"}, **inputs))

    def fork(self, **inputs: str) -> Ended:
        self.server.anonymous_may_read = True
        return self.ended(
            self.runner.pull_request(
                environ={"CHANGE_FORK": "mallory"}, jenkins_token="", jenkins_user="", **inputs
            )
        )

    def run_without_evidence(self) -> None:
        self.server.add_build(MAIN, BASE, self.runner.base, None)

    def expire(self) -> None:
        self.server.builds[MAIN][0]["artifacts"] = []

    def damage(self) -> None:
        self.server.files = {name: data[:-9] for name, data in self.server.files.items()}

    def forbid(self) -> dict[str, str]:
        return {"jenkins_token": "wrong"}

    def crowd(self) -> None:
        for number in range(90):
            self.server.add_build(MAIN, 1_000 + number, "d" * 40, None, result="ABORTED")


PLATFORMS: dict[str, tuple[type[CiPlatform], Callable[[str], Any]]] = {
    "github": (OnGitHub, lambda below: FakeGitHub(contract("github"), prefix=below and "/api/v3")),
    "gitlab": (OnGitLab, lambda below: FakeGitLab(contract("gitlab"), prefix=below and "/git/lab")),
    "buildkite": (OnBuildkite, lambda _: FakeBuildkite(contract("buildkite"))),
    "circleci": (OnCircleCI, lambda _: FakeCircleCI(contract("circleci"))),
    "jenkins": (OnJenkins, lambda _: FakeJenkins()),
}


@contextmanager
def platform(name: str, root: Path, *, below_a_path: bool = False) -> Iterator[CiPlatform]:
    """Start a platform on localhost, below a path where a company hosts it itself.

    Everything that it is asked, and answers, must be what it documents.
    """
    kind, make_server = PLATFORMS[name]
    with make_server("below" if below_a_path else "") as server:
        yield kind(root, server)
        assert list(server.violations) == []
