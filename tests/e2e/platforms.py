"""Five platforms behind one interface, so that a test can put each into the same situation.

Each is the simulated runner that its own tests have, with the platform on localhost beside it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
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
    GITHUB_TOKEN,
    GITLAB_TOKEN,
    JOB_TOKEN,
    BUILDKITE_TOKEN,
    AGENT_TOKEN,
    CIRCLECI_TOKEN,
    JENKINS_TOKEN,
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
    """One repository on one platform.

    Attributes:
        workspace: The checkout.
        violations: Requests and answers that are not what the platform documents.
    """

    workspace: Path
    violations: list[str]
    runner: Any

    @abstractmethod
    def start(self) -> None:
        """Make the runner, once the server has an address."""

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

    def __init__(self, root: Path, prefix: str = "") -> None:
        self.github = FakeGitHub(contract("github"), prefix=prefix)
        self.violations = self.github.violations
        self._root = root

    def start(self) -> None:
        self.runner = Runner(self._root, self.github)
        self.workspace = self.runner.workspace

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
        self.github.add_run(BASE, head_sha=BASE_SHA)

    def expire(self) -> None:
        next(iter(self.github.artifacts.values()))[1]["expired"] = True

    def damage(self) -> None:
        next(iter(self.github.artifacts.values()))[1]["digest"] = f"sha256:{'0' * 64}"

    def forbid(self) -> dict[str, str]:
        self.github.permissions.discard("actions: read")
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.github.add_comment(PULL, f"note {number}", author="ada")

    def write_at_once(self) -> bool:
        other = f"<!-- agent-eval id={OWN_ID} run=1 attempt=1 -->\n\nfirst"
        self.github.on_create = lambda: self.github.add_comment(PULL, other) and None  # type: ignore[func-returns-value]
        return True

    def comments(self) -> list[str]:
        return [body for body in self.github.bodies(PULL) if body.startswith("<!-- agent-eval")]


class OnGitLab(CiPlatform):
    """GitLab CI."""

    def __init__(self, root: Path, prefix: str = "") -> None:
        self.gitlab = FakeGitLab(contract("gitlab"), prefix=prefix)
        self.violations = self.gitlab.violations
        self._root = root

    def start(self) -> None:
        self.runner = GitLabRunner(self._root, self.gitlab)
        self.workspace = self.runner.repository.top

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.merge_request(number, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.merge_request(510, source=FORK, **inputs))

    def fork(self, **inputs: str) -> Ended:
        self.gitlab.fail("GET", "/jobs", 404, times=9)
        return self.ended(
            self.runner.merge_request(511, source=FORK, runs_in=FORK, gitlab_token="", **inputs)
        )

    def run_without_evidence(self) -> None:
        self.gitlab.add_pipeline(BASE, sha=self.runner.base)
        self.gitlab.add_job(BASE, None)

    def expire(self) -> None:
        next(iter(self.gitlab.jobs.values()))["artifacts_expire_at"] = "2026-01-13T07:59:00Z"

    def damage(self) -> None:
        (files,) = self.gitlab.files.values()
        files[EVIDENCE] = files[EVIDENCE][:-9]

    def forbid(self) -> dict[str, str]:
        self.gitlab.fail("GET", "/pipelines", 403, times=9)
        self.gitlab.fail("GET", "/jobs", 403, times=9)
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.gitlab.add_note(f"note {number}", author=SOMEONE_ELSE)

    def write_at_once(self) -> bool:
        other = f"<!-- agent-eval id={OWN_ID} run=1 attempt=1 -->\nfirst"
        self.gitlab.on_create = lambda: self.gitlab.add_note(other) and None  # type: ignore[func-returns-value]
        return True

    def comments(self) -> list[str]:
        return [body for body in self.gitlab.bodies() if body.startswith("<!-- agent-eval")]


class OnBuildkite(CiPlatform):
    """Buildkite."""

    def __init__(self, root: Path) -> None:
        self.buildkite = FakeBuildkite(contract("buildkite"))
        self.violations = self.buildkite.violations
        self._root = root

    def start(self) -> None:
        self.runner = BuildkiteRunner(self._root, self.buildkite)
        self.workspace = self.runner.repository.top

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(number, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(510, source=FORK_OF_BUILDKITE, **inputs))

    def fork(self, **inputs: str) -> Ended:
        return self.ended(
            self.runner.pull_request(511, source=FORK_OF_BUILDKITE, buildkite_token="", **inputs)
        )

    def run_without_evidence(self) -> None:
        self.buildkite.add_build(BASE, commit=self.runner.base)

    def expire(self) -> None:
        next(iter(self.buildkite.artifacts.values()))[1]["state"] = "expired"

    def damage(self) -> None:
        next(iter(self.buildkite.artifacts.values()))[1]["sha1sum"] = "0" * 40

    def forbid(self) -> dict[str, str]:
        self.buildkite.fail("GET", "/builds", 403, times=9)
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.buildkite.add_build(1_000 + number, state="running")

    def comments(self) -> list[str]:
        return [body for body in [self.runner.annotation()[1]] if body]


class OnCircleCI(CiPlatform):
    """CircleCI, which has no place for a comment."""

    def __init__(self, root: Path) -> None:
        self.circleci = FakeCircleCI(contract("circleci"))
        self.violations = self.circleci.violations
        self._root = root

    def start(self) -> None:
        self.runner = CircleCIRunner(self._root, self.circleci)
        self.workspace = self.runner.repository.top

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.branch(number, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.branch(510, environ={"CIRCLE_PR_NUMBER": "7"}, **inputs))

    def fork(self, **inputs: str) -> Ended:
        return self.ended(
            self.runner.branch(511, environ={"CIRCLE_BRANCH": "pull/7"}, circleci_token="", **inputs)
        )

    def run_without_evidence(self) -> None:
        self.circleci.add_pipeline(BASE, source={"revision": self.runner.base})

    def expire(self) -> None:
        for rows in self.circleci.artifacts.values():
            rows.clear()

    def damage(self) -> None:
        self.circleci.files = {name: data[:-9] for name, data in self.circleci.files.items()}

    def forbid(self) -> dict[str, str]:
        self.circleci.fail("/pipeline", 403)
        return {}

    def crowd(self) -> None:
        for number in range(NUMEROUS):
            self.circleci.add_pipeline(1_000 + number, source={"branch": "other"})
        for number in range(45):
            self.circleci.add_pipeline(2_000 + number)


class OnJenkins(CiPlatform):
    """Jenkins below a path, which has no place for a comment."""

    def __init__(self, root: Path) -> None:
        self.jenkins = FakeJenkins()
        self.violations = self.jenkins.violations
        self._root = root

    def start(self) -> None:
        self.runner = JenkinsRunner(self._root, self.jenkins)
        self.workspace = self.runner.repository.top
        self.jenkins.builds[MAIN] = []

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(**inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self.ended(self.runner.pull_request(environ={"CHANGE_FORK": "mallory"}, **inputs))

    def fork(self, **inputs: str) -> Ended:
        self.jenkins.anonymous_may_read = True
        return self.ended(
            self.runner.pull_request(
                environ={"CHANGE_FORK": "mallory"}, jenkins_token="", jenkins_user="", **inputs
            )
        )

    def run_without_evidence(self) -> None:
        self.jenkins.add_build(MAIN, BASE, self.runner.base, None)

    def expire(self) -> None:
        self.jenkins.builds[MAIN][0]["artifacts"] = []

    def damage(self) -> None:
        self.jenkins.files = {name: data[:-9] for name, data in self.jenkins.files.items()}

    def forbid(self) -> dict[str, str]:
        return {"jenkins_token": "wrong"}

    def crowd(self) -> None:
        for number in range(90):
            self.jenkins.add_build(MAIN, 1_000 + number, "d" * 40, None, result="ABORTED")


@contextmanager
def platform(name: str, root: Path, *, below_a_path: bool = False) -> Iterator[CiPlatform]:
    """Start a platform on localhost.

    Args:
        name: Of the platform.
        root: Where its runner keeps its files.
        below_a_path: Whether a company hosts it itself, below a path.
    """
    made: Any  # each class has a server of its own kind
    if name == "github":
        made = OnGitHub(root, "/api/v3" if below_a_path else "")
        server: Any = made.github
    elif name == "gitlab":
        made = OnGitLab(root, "/git/lab" if below_a_path else "")
        server = made.gitlab
    else:
        made = {"buildkite": OnBuildkite, "circleci": OnCircleCI, "jenkins": OnJenkins}[name](root)
        server = getattr(made, name)
    with server:
        made.start()
        yield made
