"""A build of Jenkins: its baseline is an artifact of the base branch's job; its report is archived."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TextIO
from urllib.parse import urlsplit

from agent_eval.ci.candidates import Candidate
from agent_eval.ci.comment import Published
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.checkout_job import CheckoutJob, opened
from agent_eval.ci.platforms.jenkins.api import JenkinsApi
from agent_eval.ci.platforms.jenkins.build import read_build
from agent_eval.ci.platforms.jenkins.history import JenkinsHistory
from agent_eval.ci.platforms.jenkins.spec import JENKINS
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.http.client import Session
from agent_eval.http.retry import Patience


@dataclass(frozen=True, kw_only=True)
class JenkinsSettings:
    """Values of the rows that only Jenkins has. Fields are named as the inputs.

    Example:
        `JenkinsSettings(**settings.values_of(JENKINS.inputs)).jenkins_user` is one of the inputs.
    """

    jenkins_user: str
    jenkins_token: str = field(repr=False)


class Jenkins(CheckoutJob):
    """One build of Jenkins.

    Example:
        `Jenkins(settings, os.environ, sys.stdout).run.run_url` is the page of the build.

    Args:
        settings: The checked settings.
        environ: The environment variables that Jenkins sets.
        stream: The build's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often Jenkins is asked.

    Raises:
        UsageError: The variables cannot be read, or Jenkins' address is not https.
    """

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
        own = JenkinsSettings(**settings.values_of(JENKINS.inputs))
        self._has_account = bool(own.jenkins_token)
        self._session = _session(self.build.job_url, own, sleep, patience)

    @property
    def spec(self) -> PlatformSpec:
        """Jenkins' variables, limits and words."""
        return JENKINS

    @cached_property
    def run(self) -> CiRun:
        """The build, as Jenkins' variables describe it."""
        build = self.build
        return CiRun(
            head_sha=build.commit or self._checkout.commit,
            run_url=build.url,
            run_name=f"jenkins-{build.number}" if build.number else None,
            evidence_url=f"{build.url.rstrip('/')}/artifact/" if build.url else None,
            base_sha=self._base_of_rules,
            from_fork=build.from_fork,
            on_base_branch=not (self._is_change or build.from_fork),
            fork_event="change" if build.from_fork and self._has_account else "",
        )

    @property
    def _is_change(self) -> bool:
        return self.build.multibranch and self.build.branch != self._base_branch

    @property
    def _base_branch(self) -> str:
        stated = self._settings.baseline_branch or self.build.target
        return stated or self._checkout.default_branch or "main"

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Yield earlier builds, as `JenkinsHistory` finds them."""
        build, branch = self.build, self._base_branch
        of_own_job = not build.multibranch or build.branch == branch
        api = JenkinsApi(self._session, build.job_url if of_own_job else build.job_of(branch))
        search = self._search if build.multibranch else replace(self._search, branch="")
        return JenkinsHistory(api, search, before=build.number if of_own_job else None).candidates(notes)

    def publish(self, body: Callable[[str], str]) -> Published:
        """Write no comment: Jenkins has none, and the report is among the artifacts."""
        del body
        return Published("none")


def _session(
    job_url: str, own: JenkinsSettings, sleep: Callable[[float], None], patience: Patience | None
) -> Session:
    address = urlsplit(job_url)
    secret = {}
    if own.jenkins_token:
        login = b64encode(f"{own.jenkins_user}:{own.jenkins_token}".encode()).decode()
        secret = {"Authorization": f"Basic {login}"}
    base = f"{address.scheme}://{address.netloc}"
    # An account's token goes over https alone; what anonymous may read, plain http may carry.
    return opened(
        lambda: Session(base, secret_headers=secret, patience=patience, sleep=sleep, plain_http=not secret),
        field="JOB_URL",
    )
