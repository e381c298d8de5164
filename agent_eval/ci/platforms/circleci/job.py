"""A job of CircleCI: its baseline is an artifact of an earlier pipeline, its report one of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TextIO

from agent_eval.ci.candidates import Candidate, NoHistory
from agent_eval.ci.comment import Published
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.checkout_job import CheckoutJob
from agent_eval.ci.platforms.circleci.api import CircleCIApi
from agent_eval.ci.platforms.circleci.history import CircleCIHistory
from agent_eval.ci.platforms.circleci.pipeline import read_pipeline
from agent_eval.ci.platforms.circleci.spec import CIRCLECI
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.errors import RemoteError, UsageError
from agent_eval.http.client import Session
from agent_eval.http.errors import HttpError
from agent_eval.http.retry import Patience

PUBLIC_API = "https://circleci.com/api/v2"


@dataclass(frozen=True, kw_only=True)
class CircleCISettings:
    """Values of the rows that only CircleCI has. Fields are named as the inputs.

    Example:
        `CircleCISettings(**settings.values_of(CIRCLECI.inputs)).circleci_api_url` is one of the inputs.
    """

    circleci_token: str = field(repr=False)
    circleci_project_slug: str
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
        own = CircleCISettings(**settings.values_of(CIRCLECI.inputs))
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

            try:
                self._api = CircleCIApi(session, base, project=own.circleci_project_slug)
            except HttpError as error:
                raise UsageError(error.message, remedy=error.remedy, field="circleci-api-url") from error

    @property
    def spec(self) -> PlatformSpec:
        """CircleCI's variables, limits and words."""
        return CIRCLECI

    @cached_property
    def run(self) -> CiRun:
        """The job, as CircleCI's variables describe it."""
        pipeline = self.pipeline
        # A fork's job that has the token was given the project's secrets.
        has_secrets = pipeline.from_fork and self._api is not None
        return CiRun(
            head_sha=pipeline.commit or self._checkout.commit,
            run_url=pipeline.url,
            run_name=f"circleci-{pipeline.build}" if pipeline.build else None,
            evidence_url=f"{pipeline.url}/artifacts" if pipeline.url else None,
            base_sha=self._base_of_rules,
            from_fork=pipeline.from_fork,
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
        if self._api is None and self.pipeline.from_fork:
            raise NoHistory("This is the job of a fork, which has no token for earlier pipelines.")
        if self._api is None:
            raise RemoteError(
                "Without a token earlier pipelines cannot be read: whether there is a baseline is not known.",
                remedy="Set `circleci-token`; or, to evaluate without a baseline, `baseline: none`.",
            )
        history = CircleCIHistory(
            api=self._api,
            own=self.pipeline,
            evidence=self._evidence_path,
            branch=self._base_branch,
            base_sha=self._base_sha,
            named=self._settings.baseline_run_id,
        )
        return history.candidates(notes)

    def publish(self, body: Callable[[str], str]) -> Published:
        """Write no comment: CircleCI has none, and the report is among the artifacts."""
        del body
        return Published("none")
