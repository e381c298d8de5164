"""Jenkins: the baseline is an artifact of the base branch's job, the report is archived with the build."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TextIO
from urllib.parse import quote, urlsplit

from pydantic import BaseModel

from agent_eval.ci.comment import Published
from agent_eval.ci.earlier import Asked, EarlierRun, Skipped
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.checkout_job import CheckoutJob, no_such_run, number_in, opened
from agent_eval.ci.platforms.rest import RestApi
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import COMMIT, PlatformSpec, Remedies, Words
from agent_eval.config.options import CI, Option
from agent_eval.errors import UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience

JENKINS = PlatformSpec(
    name="jenkins",
    platform="agent_eval.ci.platforms.jenkins:Jenkins",
    detect=lambda environ: bool(environ.get("JENKINS_URL") and environ.get("JOB_URL")),
    comment_limit=65_536,
    summary_limit=1 << 20,
    job_files=r".*Jenkinsfile[^/]*",
    shows_tests=True,
    words=Words(change="change", full_report="build's artifacts"),
    inputs=(
        Option(
            "jenkins-user",
            "text",
            "Account of Jenkins that reads the baseline: it may read the base branch's job and its "
            "artifacts.",
            goes_to="platform.jenkins_user",
            commands=(CI,),
            in_file=False,
        ),
        Option(
            "jenkins-token",
            "secret",
            "API token of that account. Without it the job asks as anonymous.",
            goes_to="platform.jenkins_token",
            commands=(CI,),
            in_file=False,
        ),
    ),
    secret_names=frozenset({"JENKINS_API_TOKEN", "JENKINS_SECRET", "JENKINS_AGENT_SECRET"}),
    remedies=Remedies(
        read_runs="Give `jenkins-user` and `jenkins-token` of an account that may read the base branch's "
        "job: Jenkins answers 404 also where an account may not look.",
        run_fork="Set the branch source to trust no fork, so that the Jenkinsfile comes from the target.",
        set_variable="Bind it with `withCredentials`, or set it in `environment`",
    ),
)

_BUILDS = (
    "builds[number,result,url,timestamp,artifacts[relativePath],actions[lastBuiltRevision[SHA1]]]{0,100}"
)
_JUDGED = frozenset({"SUCCESS", "UNSTABLE", "FAILURE"})


@dataclass(frozen=True, kw_only=True)
class JenkinsBuild:
    """The build, as Jenkins' variables describe it. Fields that a kind of job does not have are None.

    Attributes:
        job_url: Address of the job, without a slash at its end.
        number: Of the build.
        url: The build's page.
        commit: The commit that is built; of a merged pull request a local merge.
        branch: The branch of a multibranch job; None for the build of a change, or of another kind of job.
        tag: The tag of a multibranch job.
        target: The branch that the change goes into.
        multibranch: Whether the job is one of several, one a branch.
        from_fork: Whether the change comes from another repository.
    """

    job_url: str
    number: int | None = None
    url: str | None = None
    commit: str | None = None
    branch: str | None = None
    tag: str | None = None
    target: str | None = None
    multibranch: bool = False
    from_fork: bool = False

    def job_of(self, branch: str) -> str:
        """The address of the sibling job for a branch, whose name Jenkins encodes twice.

        Example:
            >>> build = read_build({"JOB_URL": "https://ci.example/job/shop/job/PR-12/"})
            >>> build.job_of("release/2")
            'https://ci.example/job/shop/job/release%252F2'
        """
        parent = self.job_url.rpartition("/job/")[0]
        return f"{parent}/job/{quote(quote(branch, safe=''), safe='')}"


def read_build(environ: Mapping[str, str]) -> JenkinsBuild:
    """Read this build.

    Raises:
        UsageError: `JOB_URL` is not the address of a job.
    """
    job_url = environ.get("JOB_URL", "").strip().rstrip("/")
    if "/job/" not in job_url:
        raise UsageError(
            f"JOB_URL is not the address of a job: {job_url[:200]!r}",
            remedy="Set Jenkins' address under Manage Jenkins > System, or unset JENKINS_URL.",
            field="JOB_URL",
        )
    commit, target = environ.get("GIT_COMMIT", ""), environ.get("CHANGE_TARGET") or None
    of_change = bool(environ.get("CHANGE_ID")) or target is not None
    tag = environ.get("TAG_NAME") or None
    return JenkinsBuild(
        job_url=job_url,
        number=number_in(environ.get("BUILD_NUMBER")),
        url=environ.get("BUILD_URL") or None,
        commit=commit if COMMIT.fullmatch(commit) else None,
        branch=None if of_change or tag else environ.get("BRANCH_NAME") or None,
        tag=tag,
        target=target,
        multibranch=of_change or bool(environ.get("BRANCH_NAME")),
        from_fork=bool(environ.get("CHANGE_FORK")),
    )


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
    url: str
    timestamp: int
    artifacts: list[_Artifact] = []
    actions: list[_Action | None] = []

    @property
    def commits(self) -> frozenset[str]:
        """The commits it checked out: the project's, and those of shared libraries."""
        revisions = [action.lastBuiltRevision for action in self.actions if action is not None]
        return frozenset(revision.SHA1 for revision in revisions if revision is not None)


class _Job(BaseModel):
    builds: list[_Build] = []


class Jenkins(CheckoutJob):
    """One build of Jenkins.

    Args:
        settings: The checked settings.
        environ: The environment variables that Jenkins sets.
        stream: The build's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often Jenkins is asked.

    Raises:
        UsageError: The variables cannot be read, or Jenkins' address is not https.
    """

    spec = JENKINS

    def __init__(
        self,
        settings: PlatformSettings,
        environ: Mapping[str, str],
        stream: TextIO,
        *,
        sleep: Callable[[float], None] = time.sleep,
        patience: Patience | None = None,
    ) -> None:
        super().__init__(settings, environ, stream)
        self.build = read_build(environ)
        user, token = settings.own["jenkins_user"], settings.own["jenkins_token"]
        self._has_account = bool(token)
        address = urlsplit(self.build.job_url)
        login = b64encode(f"{user}:{token}".encode()).decode()
        secret = {"Authorization": f"Basic {login}"} if token else {}
        base = f"{address.scheme}://{address.netloc}"
        # An account's token goes over https alone; what anonymous may read, plain http may carry.
        session = opened(
            lambda: Session(
                base, secret_headers=secret, patience=patience, sleep=sleep, plain_http=not secret
            ),
            field="JOB_URL",
        )
        self._api = RestApi(session, name="Jenkins", remedy="Check JENKINS_URL.")

    @property
    def run(self) -> CiRun:
        """The build, as Jenkins' variables describe it."""
        build = self.build
        return CiRun(
            head_sha=build.commit or self._commit,
            run_url=build.url,
            run_name=f"jenkins-{build.number}" if build.number else None,
            evidence_url=f"{build.url.rstrip('/')}/artifact/" if build.url else None,
            from_fork=build.from_fork,
            fork_event="change" if build.from_fork and self._has_account else "",
        )

    @property
    def refs(self) -> Refs:
        """The branches as Jenkins names them; it does not know which one is the default."""
        build = self.build
        remote = self._remote_at(self._environ.get("GIT_URL", ""))
        return Refs(branch=build.branch, tag=build.tag, target=build.target, remote=remote)

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the newest builds of each trusted branch's job; of a job of one branch its own."""
        if not self.build.multibranch:
            yield from self._runs_of(self.build.job_url, None, asked)
            return
        refused: list[HttpError] = []
        for branch in asked.branches:
            try:
                yield from self._runs_of(self.build.job_of(branch), branch, asked)
            except HttpError as error:
                # A branch of several may have no job; where none has one, the account may not look.
                refused.append(error)
        if len(refused) == len(asked.branches):
            raise refused[0]

    def _runs_of(self, job_url: str, branch: str | None, asked: Asked) -> Iterator[EarlierRun]:
        own = self.build.number if job_url == self.build.job_url else None
        for build in self._builds(job_url):
            is_later = own is not None and (build.number == own or (asked.before_own and build.number > own))
            if build.result in _JUDGED and not is_later:
                yield self._earlier(job_url, branch, build)

    def run_named(self, number: int) -> EarlierRun:
        """Find a build of the job that the change goes into, or of the build's own job."""
        build = self.build
        branch = build.target or build.branch
        job_url = build.job_of(branch) if build.multibranch and branch else build.job_url
        for listed in self._builds(job_url):
            if listed.number == number and listed.result in _JUDGED:
                return self._earlier(job_url, branch, listed)
        raise no_such_run(f"The newest hundred builds have no finished build {number}.", "build")

    def _builds(self, job_url: str) -> list[_Build]:
        # Jenkins answers "not found" also where the account may not look, so that is never "there is none".
        return self._api.get(_Job, f"{urlsplit(job_url).path}/api/json", {"tree": _BUILDS}).builds

    def _earlier(self, job_url: str, branch: str | None, build: _Build) -> EarlierRun:
        return EarlierRun(
            number=build.number,
            label=f"build {build.number}",
            commits=build.commits,
            branch=branch,
            created_at=datetime.fromtimestamp(build.timestamp / 1000, UTC).isoformat(),
            url=build.url,
            fetch=partial(self._fetch, job_url, build),
        )

    def _fetch(self, job_url: str, build: _Build) -> bytes:
        path, label = self._evidence_path, f"build {build.number}"
        if all(artifact.relativePath != path for artifact in build.artifacts):
            raise Skipped(f"Build {build.number} left no artifact `{path}`.")
        place = f"{urlsplit(job_url).path}/{build.number}/artifact/{quote(path)}"
        return self._api.evidence(place, label=label)

    def publish(self, body: Callable[[str], str]) -> Published:
        """Write no comment: Jenkins has none, and the report is among the artifacts."""
        del body
        return Published("none")
