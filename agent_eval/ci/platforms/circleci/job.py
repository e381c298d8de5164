"""A job of CircleCI: its baseline is an artifact of an earlier pipeline, its report one of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TextIO

from agent_eval.ci.candidates import Candidate
from agent_eval.ci.comment import Marker, Published
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.checkout_job import CheckoutJob, opened
from agent_eval.ci.platforms.circleci.api import CircleCIApi
from agent_eval.ci.platforms.circleci.history import CircleCIHistory
from agent_eval.ci.platforms.circleci.pipeline import read_pipeline
from agent_eval.ci.platforms.circleci.spec import CIRCLECI
from agent_eval.ci.platforms.hosted import HostedChange, comment_on
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.http.client import Session
from agent_eval.http.retry import Patience
from agent_eval.text.escape import clean

PUBLIC_API = "https://circleci.com/api/v2"


@dataclass(frozen=True, kw_only=True)
class CircleCISettings:
    """Values of the rows that only CircleCI has. Fields are named as the inputs.

    Example:
        `CircleCISettings(**settings.values_of(CIRCLECI.inputs)).circleci_api_url` is one of the inputs.
    """

    circleci_token: str = field(repr=False)
    circleci_project_slug: str
    circleci_pull_request: str
    circleci_api_url: str


class CircleCI(CheckoutJob):
    """One job of CircleCI.

    Example:
        `CircleCI(settings, os.environ, sys.stdout).run.run_url` is the page of the job.

    Args:
        settings: The checked settings.
        environ: The environment variables that CircleCI sets.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often CircleCI is asked.

    Raises:
        UsageError: The API address is not https, or a token comes without the project's slug.
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
        self.pipeline = read_pipeline(environ)
        self._sleep, self._patience = sleep, patience
        own = CircleCISettings(**settings.values_of(CIRCLECI.inputs))
        self._pull_request = own.circleci_pull_request
        self._api: CircleCIApi | None = None
        if own.circleci_token and not own.circleci_project_slug:
            raise UsageError(
                "The project's slug is not known.",
                remedy="Set `circleci-project-slug` to `<< pipeline.project.slug >>`.",
                field="circleci-project-slug",
            )
        if own.circleci_token:
            base = own.circleci_api_url or PUBLIC_API
            headers = {"Circle-Token": own.circleci_token}

            def session(address: str) -> Session:
                return Session(address, secret_headers=headers, sleep=sleep, patience=patience)

            project = own.circleci_project_slug
            self._api = opened(lambda: CircleCIApi(session, base, project=project), field="circleci-api-url")

    @property
    def spec(self) -> PlatformSpec:
        """CircleCI's variables, limits and words."""
        return CIRCLECI

    @cached_property
    def run(self) -> CiRun:
        """The job, as CircleCI's variables describe it."""
        pipeline = self.pipeline
        # A fork's job that has a token was given the project's secrets.
        tokens = [self._settings.own[name] for name in ("circleci_token", "github_token", "gitlab_token")]
        has_secrets = pipeline.from_fork and any(tokens)
        return CiRun(
            head_sha=pipeline.commit or self._checkout.commit,
            run_url=pipeline.url,
            run_name=f"circleci-{pipeline.build}" if pipeline.build else None,
            evidence_url=f"{pipeline.url}/artifacts" if pipeline.url else None,
            base_sha=self._base_of_rules,
            from_fork=pipeline.from_fork,
            on_base_branch=not (self._is_change or pipeline.from_fork),
            fork_event="pull request" if has_secrets else "",
        )

    @property
    def _is_change(self) -> bool:
        return self.pipeline.branch != self._base_branch

    @property
    def _base_branch(self) -> str:
        return self._settings.baseline_branch or self._checkout.default_branch or "main"

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Yield earlier pipelines, as `CircleCIHistory` finds them.

        Raises:
            NoHistory: The job is one of a fork, and has no token.
            RemoteError: There is no token: whether there is a baseline is not known.
        """
        if self._api is None:
            fork = "the job of a fork" if self.pipeline.from_fork else ""
            raise self._cannot_search(noun="pipeline", of_a_fork=fork, remedy="Set `circleci-token`")
        return CircleCIHistory(self._api, self.pipeline, self._search).candidates(notes)

    def publish(self, body: Callable[[str], str]) -> Published:
        """Write the comment where the change is hosted, if the job has a token for that."""
        pipeline, own = self.pipeline, self._settings
        url = self._pull_request or pipeline.pull_request
        if not url:
            return Published("none")
        marker = Marker(own.comment_id, pipeline.commit, pipeline.build or 0, 1)
        change = HostedChange(url=url, settings=own, sleep=self._sleep, patience=self._patience)
        report = CIRCLECI.words.full_report
        try:
            published = comment_on(change, marker, body(str(marker)), full_report=report)
        except AgentEvalError as error:
            return _no_comment(f"{error.message} {error.remedy}")
        if published is None and (own.own["github_token"] or own.own["gitlab_token"]):
            host = clean(change.host, limit=100)
            return _no_comment(
                f"The job has no token for {host}: set `github-token` or `gitlab-token`, and for a server of "
                "your own `github-api-url` or `gitlab-api-url`."
            )
        return published or Published("none")


def _no_comment(why: str) -> Published:
    report = f"The report is in the {CIRCLECI.words.full_report}."
    return Published("refused", warning=f"No comment was written. {why} {report}")
