"""Jenkins: the baseline is an artifact of the base branch's job, the report is archived with the build."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property, partial
from urllib.parse import quote, urlsplit

from pydantic import BaseModel

from agent_eval.ci.clone import Remote
from agent_eval.ci.earlier import Asked, EarlierRun, Skipped
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, Platform, before_own
from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words, commit_in, number_in, own_input
from agent_eval.errors import UsageError
from agent_eval.http.errors import HttpError

JENKINS = PlatformSpec(
    name="jenkins",
    detect=lambda environ: bool(environ.get("JENKINS_URL") and environ.get("JOB_URL")),
    words=Words(change="change", full_report="build's artifacts", earlier_run="build"),
    inputs=(
        own_input("jenkins-user", "text", "Jenkins: account that reads the base branch's job and artifacts."),
        own_input("jenkins-token", "secret", "Jenkins: API token of that account."),
    ),
    secret_names=frozenset({"JENKINS_API_TOKEN", "JENKINS_SECRET", "JENKINS_AGENT_SECRET"}),
    remedies=Remedies(
        read_runs="Give `jenkins-user` and `jenkins-token` of an account that may read the base branch's "
        "job: Jenkins answers 404 also where an account may not look.",
        run_fork="Set the branch source to trust no fork, so that the Jenkinsfile comes from the target.",
        set_variable="Bind it with `withCredentials`, or set it in `environment`",
    ),
)

_BUILDS = "builds[number,result,timestamp,artifacts[relativePath],actions[lastBuiltRevision[SHA1]]]{0,100}"
_JUDGED = frozenset({"SUCCESS", "UNSTABLE", "FAILURE"})


class _Revision(BaseModel):
    SHA1: str


class _Action(BaseModel):
    lastBuiltRevision: _Revision | None = None  # noqa: N815 - the name in the answer


class _Artifact(BaseModel):
    relativePath: str  # noqa: N815


class _Build(BaseModel):
    """A build; `result` is None while it runs, and most actions are empty here."""

    number: int
    result: str | None
    timestamp: int
    artifacts: list[_Artifact] = []
    actions: list[_Action | None] = []


class _Job(BaseModel):
    builds: list[_Build] = []


class Jenkins(Platform):
    """One build of Jenkins."""

    spec = JENKINS

    def begin(self) -> None:
        """Read `JOB_URL`, and open Jenkins' API as the account, or as anonymous."""
        environ, own = self._environ, self._own
        self._job_url = environ.get("JOB_URL", "").strip().rstrip("/")
        if "/job/" not in self._job_url:
            raise UsageError(
                f"JOB_URL is not the address of a job: {self._job_url[:200]!r}",
                remedy="Set Jenkins' address under Manage Jenkins > System, or unset JENKINS_URL.",
                field="JOB_URL",
            )
        self._number = number_in(environ.get("BUILD_NUMBER"))
        self._of_change = bool(environ.get("CHANGE_ID") or environ.get("CHANGE_TARGET"))
        # Whether the job is one of several, one a branch.
        self._is_multibranch = self._of_change or bool(environ.get("BRANCH_NAME"))
        login = b64encode(f"{own['jenkins_user']}:{own['jenkins_token']}".encode()).decode()
        secret = {"Authorization": f"Basic {login}"} if own["jenkins_token"] else {}
        address = urlsplit(self._job_url)
        # An account's token goes over https alone; what anonymous may read, plain http may carry.
        self._api = self._connect.open(
            f"{address.scheme}://{address.netloc}",
            secret,
            name="Jenkins",
            field="JOB_URL",
            plain_http=not secret,
        )

    @cached_property
    def run(self) -> CiRun:
        """The build, as Jenkins' variables describe it."""
        url, from_fork = self._environ.get("BUILD_URL") or None, bool(self._environ.get("CHANGE_FORK"))
        return CiRun(
            # Of a merged pull request it is a local merge.
            head_sha=commit_in(self._environ.get("GIT_COMMIT")) or self._commit,
            run_url=url,
            run_name=f"jenkins-{self._number}" if self._number else None,
            evidence_url=f"{url.rstrip('/')}/artifact/" if url else None,
            from_fork=from_fork,
            fork_event="change" if from_fork and self._own["jenkins_token"] else "",
        )

    @cached_property
    def refs(self) -> Refs:
        """The branches as Jenkins names them; it does not know which one is the default."""
        environ = self._environ
        tag, url = environ.get("TAG_NAME") or None, environ.get("GIT_URL", "")
        return Refs(
            branch=None if self._of_change or tag else environ.get("BRANCH_NAME") or None,
            tag=tag,
            target=environ.get("CHANGE_TARGET") or None,
            remote=Remote(url) if url else self._origin,
        )

    def _job_of(self, branch: str | None) -> str:
        """The address of the job for a branch, whose name Jenkins encodes twice; without one the own job."""
        if branch is None:
            return self._job_url
        parent = self._job_url.rpartition("/job/")[0]
        return f"{parent}/job/{quote(quote(branch, safe=''), safe='')}"

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the newest builds of each trusted branch's job; of a job of one branch its own."""
        branches = asked.branches if self._is_multibranch else (None,)
        refused: list[HttpError] = []
        for branch in branches:
            own = self._number if self._job_of(branch) == self._job_url else None
            try:
                yield from before_own(self._runs_of(branch), own, asked)
            except HttpError as error:
                # A branch of several may have no job; where none has one, the account may not look.
                refused.append(error)
        if refused and len(refused) == len(branches):
            raise refused[0]

    def _runs_of(self, branch: str | None) -> Iterator[EarlierRun]:
        path = urlsplit(self._job_of(branch)).path
        # Jenkins answers "not found" also where the account may not look, so that is never "there is none".
        for build in self._reads().get(_Job, f"{path}/api/json", {"tree": _BUILDS}).builds:
            # Of the project, and of shared libraries.
            revisions = [action.lastBuiltRevision for action in build.actions if action is not None]
            if build.result in _JUDGED:
                yield EarlierRun(
                    number=build.number,
                    label=f"build {build.number}",
                    commits=frozenset(row.SHA1 for row in revisions if row is not None),
                    branch=branch,
                    created_at=datetime.fromtimestamp(build.timestamp / 1000, UTC).isoformat(),
                    fetch=partial(self._fetch, f"{path}/{build.number}/artifact", build),
                )

    def _fetch(self, place: str, build: _Build) -> bytes:
        path = self._evidence_path
        if all(artifact.relativePath != path for artifact in build.artifacts):
            raise Skipped(f"Build {build.number} left no artifact `{path}`.")
        return self._reads().evidence(f"{place}/{quote(path)}", label=f"build {build.number}")
