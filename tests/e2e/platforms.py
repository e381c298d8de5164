"""Five platforms behind one interface, so that a test can put each into the same situation.

Each is the simulated runner that its own tests have, with the platform on localhost beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.ci.config import gather
from tests.e2e.runner import BASE_SHA, PULL, Runner
from tests.fakes.buildkite import AGENT_TOKEN, FakeBuildkite
from tests.fakes.buildkite import TOKEN as BUILDKITE_TOKEN
from tests.fakes.circleci import TOKEN as CIRCLECI_TOKEN
from tests.fakes.circleci import FakeCircleCI
from tests.fakes.commits import change_of
from tests.fakes.github import TOKEN as GITHUB_TOKEN
from tests.fakes.github import FakeGitHub
from tests.fakes.gitlab import FORK, JOB_TOKEN, SOMEONE_ELSE, FakeGitLab
from tests.fakes.gitlab import TOKEN as GITLAB_TOKEN
from tests.fakes.jenkins import LOGIN, MAIN, FakeJenkins
from tests.fakes.jenkins import TOKEN as JENKINS_TOKEN
from tests.unit.ci.platforms import builds

SECRETS = (
    *(GITHUB_TOKEN, GITLAB_TOKEN, JOB_TOKEN, BUILDKITE_TOKEN, AGENT_TOKEN, CIRCLECI_TOKEN, JENKINS_TOKEN),
    LOGIN,
)
BASE = 400
NUMEROUS = range(1_000, 1_300)
OWN_ID = gather({"suite": "suite.json"}, {}, None)["comment-id"].text
"""The id of a comment of a job that states its suite alone."""
OTHERS_COMMENT = f"<!-- agent-eval id={OWN_ID} run=1 attempt=1 -->\n\nfirst"


@dataclass(frozen=True)
class Ended:
    """How a job ended: its exit code, and everything it wrote for people."""

    code: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What one platform does in a way of its own. Functions get the platform, and the inputs of their job.

    Attributes:
        serve: Makes its server, below a path unless that is empty, as where a company hosts it itself.
        runs: The class of its runner.
        change: Runs the job of a change into main, which has a number.
        fork_beside_secrets: Runs a fork's change in a job that has the repository's secrets.
        fork: Runs a fork's change as the platform's safe recipe does.
        run_without_evidence: Adds the run `BASE` on main that left no evidence.
        expire: Lets the platform delete the evidence of the base.
        damage: Changes the evidence of the base, or what the platform recorded of it.
        forbid: Takes away the permission to read earlier runs; may return inputs by which that shows.
        crowd: Fills the lists that the job searches with hundreds of entries of others, over several pages.
        comments: What jobs wrote on the change, where the platform has such a place.
        add_comment: Writes a comment on the change, where jobs write theirs to a server.
        push: Runs `BASE` on main, whose evidence is kept.
    """

    serve: Callable[[str], Any]
    runs: Callable[..., Any]
    change: Callable[..., Any]
    fork_beside_secrets: Callable[..., Any]
    fork: Callable[..., Any]
    run_without_evidence: Callable[[CiPlatform], object]
    expire: Callable[[CiPlatform], object]
    damage: Callable[[CiPlatform], object]
    forbid: Callable[[CiPlatform], dict[str, str] | None]
    crowd: Callable[[CiPlatform], object]
    comments: Callable[[CiPlatform], list[str]] = lambda ci: []
    add_comment: Callable[[CiPlatform, str], object] | None = None
    push: Callable[..., Any] = lambda ci, **inputs: ci.runner.push(BASE, **inputs)


class CiPlatform:
    """One repository on one platform, whose server is started; `workspace` is the checkout."""

    def __init__(self, name: str, root: Path, server: Any) -> None:
        self.name, self.kind, self.server = name, KINDS[name], server
        self.runner = self.kind.runs(root, server)
        in_workspace = isinstance(self.runner, Runner)
        self.workspace: Path = self.runner.workspace if in_workspace else self.runner.repository.top

    def write_suite(self, *cases: dict[str, Any]) -> None:
        """Write `suite.json` into the checkout."""
        self.runner.write_suite(*cases)

    def _ended(self, step: Any) -> Ended:
        return Ended(step.code, step.log + (step.summary if hasattr(step, "summary") else step.report))

    def push(self, **inputs: str) -> Ended:
        return self._ended(self.kind.push(self, **inputs))

    def change(self, number: int = 500, **inputs: str) -> Ended:
        return self._ended(self.kind.change(self, number, **inputs))

    def fork_beside_secrets(self, **inputs: str) -> Ended:
        return self._ended(self.kind.fork_beside_secrets(self, **inputs))

    def fork(self, **inputs: str) -> Ended:
        return self._ended(self.kind.fork(self, **inputs))

    def write_at_once(self) -> bool:
        """Let another job write its comment at the same moment; False where jobs write none to a server."""
        add = self.kind.add_comment
        if add is not None:
            self.server.on_create = lambda: add(self, OTHERS_COMMENT)
        return add is not None

    def do(self, what: str) -> Any:
        """What the platform does in its own way, by the name of the field of its `Kind`."""
        return getattr(self.kind, what)(self)


def _first_artifact(ci: CiPlatform) -> dict[str, Any]:
    """What the platform recorded of the base's evidence."""
    row: dict[str, Any] = next(iter(ci.server.artifacts.values()))[1]
    return row


def _cut_files(ci: CiPlatform) -> None:
    ci.server.files.update({name: data[:-9] for name, data in ci.server.files.items()})


def _of_agent_eval(bodies: list[str]) -> list[str]:
    return [body for body in bodies if body.startswith("<!-- agent-eval")]


def _push_on_github(ci: CiPlatform, **inputs: str) -> Any:
    step = ci.runner.push(run_id=BASE, **inputs)
    ci.runner.upload(step, BASE)
    return step


def _change_on_github(ci: CiPlatform, number: int, **inputs: str) -> Any:
    files = {path.name: path.read_bytes() for path in ci.workspace.iterdir() if path.is_file()}
    head = None if ci.runner.commits_files else change_of(BASE_SHA, files)
    return ci.runner.pull_request(run_id=number, head=head, **inputs)


GITHUB = Kind(
    serve=lambda below: FakeGitHub(builds.contract("github"), prefix=below and "/api/v3"),
    runs=Runner,
    push=_push_on_github,
    change=_change_on_github,
    fork_beside_secrets=lambda ci, **inputs: ci.runner.pull_request(
        run_id=510, fork=True, event="pull_request_target", **inputs
    ),
    fork=lambda ci, **inputs: ci.runner.pull_request(run_id=511, fork=True, **inputs),
    run_without_evidence=lambda ci: ci.server.add_run(BASE, head_sha=BASE_SHA),
    expire=lambda ci: _first_artifact(ci).update(expired=True),
    damage=lambda ci: _first_artifact(ci).update(digest=f"sha256:{'0' * 64}"),
    forbid=lambda ci: ci.server.permissions.discard("actions: read"),
    crowd=lambda ci: [ci.server.add_comment(PULL, f"note {n}", author="ada") for n in NUMEROUS],
    comments=lambda ci: _of_agent_eval(ci.server.bodies(PULL)),
    add_comment=lambda ci, text: ci.server.add_comment(PULL, text),
)


def _fork_on_gitlab(ci: CiPlatform, **inputs: str) -> Any:
    ci.server.fail("GET", "/jobs", 404, times=9)
    return ci.runner.merge_request(511, source=FORK, runs_in=FORK, gitlab_token="", **inputs)


def _silent_gitlab(ci: CiPlatform) -> None:
    ci.server.add_pipeline(BASE, sha=ci.runner.base)
    ci.server.add_job(BASE, None)


GITLAB = Kind(
    serve=lambda below: FakeGitLab(builds.contract("gitlab"), prefix=below and "/git/lab"),
    runs=builds.GitLabRunner,
    change=lambda ci, number, **inputs: ci.runner.merge_request(number, **inputs),
    fork_beside_secrets=lambda ci, **inputs: ci.runner.merge_request(510, source=FORK, **inputs),
    fork=_fork_on_gitlab,
    run_without_evidence=_silent_gitlab,
    expire=lambda ci: next(iter(ci.server.jobs.values())).update(artifacts_expire_at="2026-01-13T07:59:00Z"),
    damage=lambda ci: [
        files.update({builds.EVIDENCE: files[builds.EVIDENCE][:-9]}) for files in ci.server.files.values()
    ],
    forbid=lambda ci: (
        [ci.server.fail("GET", path, 403, times=9) for path in ("/pipelines", "/jobs")] and None
    ),
    crowd=lambda ci: [ci.server.add_note(f"note {n}", author=SOMEONE_ELSE) for n in NUMEROUS],
    comments=lambda ci: _of_agent_eval(ci.server.bodies()),
    add_comment=lambda ci, text: ci.server.add_note(text),
)
BUILDKITE = Kind(
    serve=lambda _: FakeBuildkite(builds.contract("buildkite")),
    runs=builds.BuildkiteRunner,
    change=lambda ci, number, **inputs: ci.runner.pull_request(number, **inputs),
    fork_beside_secrets=lambda ci, **inputs: ci.runner.pull_request(510, source=builds.FORK, **inputs),
    fork=lambda ci, **inputs: ci.runner.pull_request(511, source=builds.FORK, buildkite_token="", **inputs),
    run_without_evidence=lambda ci: ci.server.add_build(BASE, commit=ci.runner.base),
    expire=lambda ci: _first_artifact(ci).update(state="expired"),
    damage=lambda ci: _first_artifact(ci).update(sha1sum="0" * 40),
    forbid=lambda ci: ci.server.fail("GET", "/builds", 403, times=9),
    crowd=lambda ci: [ci.server.add_build(number, state="running") for number in NUMEROUS],
    comments=lambda ci: [body for body in [ci.runner.annotation()[1]] if body],
)


def _crowded_circleci(ci: CiPlatform) -> None:
    for number in NUMEROUS:
        ci.server.add_pipeline(number, source={"branch": "other"})
    for number in range(2_000, 2_045):
        ci.server.add_pipeline(number)


CIRCLECI = Kind(
    serve=lambda _: FakeCircleCI(builds.contract("circleci")),
    runs=builds.CircleCIRunner,
    change=lambda ci, number, **inputs: ci.runner.branch(number, **inputs),
    fork_beside_secrets=lambda ci, **inputs: ci.runner.branch(
        510, environ={"CIRCLE_PR_NUMBER": "7"}, **inputs
    ),
    fork=lambda ci, **inputs: ci.runner.branch(
        511, environ={"CIRCLE_BRANCH": "pull/7"}, circleci_token="", **inputs
    ),
    run_without_evidence=lambda ci: ci.server.add_pipeline(BASE, source={"revision": ci.runner.base}),
    expire=lambda ci: [rows.clear() for rows in ci.server.artifacts.values()],
    damage=_cut_files,
    forbid=lambda ci: ci.server.fail("/pipeline", 403),
    crowd=_crowded_circleci,
)
_OF_A_FORK = {"CHANGE_FORK": "mallory"}


def _fork_on_jenkins(ci: CiPlatform, **inputs: str) -> Any:
    ci.server.anonymous_may_read = True
    return ci.runner.pull_request(environ=_OF_A_FORK, jenkins_token="", jenkins_user="", **inputs)


JENKINS = Kind(
    serve=lambda _: FakeJenkins(),
    runs=builds.JenkinsRunner,
    change=lambda ci, _, **inputs: ci.runner.pull_request(**inputs),
    fork_beside_secrets=lambda ci, **inputs: ci.runner.pull_request(environ=_OF_A_FORK, **inputs),
    fork=_fork_on_jenkins,
    run_without_evidence=lambda ci: ci.server.add_build(MAIN, BASE, ci.runner.base, None),
    expire=lambda ci: ci.server.builds[MAIN][0].update(artifacts=[]),
    damage=_cut_files,
    forbid=lambda ci: {"jenkins_token": "wrong"},
    crowd=lambda ci: [ci.server.add_build(MAIN, n, "d" * 40, None, "ABORTED") for n in NUMEROUS[:90]],
)
KINDS = {
    "github": GITHUB, "gitlab": GITLAB, "buildkite": BUILDKITE, "circleci": CIRCLECI, "jenkins": JENKINS,
}  # fmt: skip


@contextmanager
def platform(name: str, root: Path, *, below_a_path: bool = False) -> Iterator[CiPlatform]:
    """Start a platform on localhost, below a path where a company hosts it itself.

    Everything that it is asked, and answers, must be what it documents.
    """
    with KINDS[name].serve("below" if below_a_path else "") as server:
        yield CiPlatform(name, root, server)
        assert list(server.violations) == []
