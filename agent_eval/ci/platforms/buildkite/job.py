"""A job of Buildkite: its baseline is an earlier build's artifact, its comment an annotation of the build."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TextIO

from agent_eval.ci.candidates import Candidate
from agent_eval.ci.comment import Marker, Published
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.buildkite.api import BuildkiteApi
from agent_eval.ci.platforms.buildkite.build import read_build
from agent_eval.ci.platforms.buildkite.history import BuildkiteHistory
from agent_eval.ci.platforms.buildkite.spec import BUILDKITE
from agent_eval.ci.platforms.checkout_job import CheckoutJob, opened
from agent_eval.ci.platforms.settings import PlatformSettings
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.errors import AgentEvalError
from agent_eval.http.client import Session
from agent_eval.http.retry import Patience
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child

PUBLIC_API = "https://api.buildkite.com/v2"
_STYLES = {"passed": "success", "inconclusive": "warning", "no-baseline": "info"}
"""Style of the annotation by outcome; `error` for any other."""
_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class BuildkiteSettings:
    """Values of the rows that only Buildkite has. Fields are named as the inputs.

    Example:
        `BuildkiteSettings(**settings.values_of(BUILDKITE.inputs)).buildkite_api_url` is one of the inputs.
    """

    buildkite_token: str = field(repr=False)
    buildkite_api_url: str


class Buildkite(CheckoutJob):
    """One job of Buildkite.

    Example:
        `Buildkite(settings, os.environ, sys.stdout).run.run_url` is the page of the build.

    Args:
        settings: The checked settings.
        environ: The environment variables that the agent sets.
        stream: The job's log.
        sleep: Waits that many seconds between attempts.
        patience: How long and how often Buildkite is asked.

    Raises:
        UsageError: The variables cannot be read, or the API address is not https.
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
        self._outcome = ""
        own = BuildkiteSettings(**settings.values_of(BUILDKITE.inputs))
        self._api: BuildkiteApi | None = None
        if own.buildkite_token:
            session = _session(own, sleep, patience)
            build = self.build
            self._api = BuildkiteApi(session, organization=build.organization, pipeline=build.pipeline)

    @property
    def spec(self) -> PlatformSpec:
        """Buildkite's variables, limits and words."""
        return BUILDKITE

    @cached_property
    def run(self) -> CiRun:
        """The build, as Buildkite's variables describe it."""
        build = self.build
        # Buildkite tells no build of a fork what it may do; a token of this pipeline shows that it may.
        trusted_with_secrets = build.from_fork and self._api is not None
        return CiRun(
            head_sha=build.commit or self._checkout.commit,
            run_url=f"{build.url}#{build.job}" if build.url and build.job else build.url,
            run_name=f"buildkite-{build.number}-{build.job[:8]}" if build.number else None,
            evidence_url=build.url,
            base_sha=self._base_of_rules,
            from_fork=build.from_fork,
            on_base_branch=not (self._is_change or build.from_fork),
            is_scheduled=build.source in ("schedule", "ui") if build.source else None,
            fork_event="pull request" if trusted_with_secrets else "",
        )

    @property
    def _is_change(self) -> bool:
        return self.build.pull_request or self.build.branch != self._base_branch

    @property
    def _base_branch(self) -> str:
        build = self.build
        stated = self._settings.baseline_branch or build.target_branch or build.default_branch
        return stated or self._checkout.default_branch or "main"

    def candidates(self, notes: list[str]) -> Iterable[Candidate]:
        """Yield earlier builds, as `BuildkiteHistory` finds them.

        Raises:
            NoHistory: The build is one of a fork, and has no token.
            RemoteError: There is no token: whether there is a baseline is not known.
        """
        if self._api is None:
            fork = "the build of a fork" if self.build.from_fork else ""
            raise self._cannot_search(noun="build", of_a_fork=fork, remedy="Set `buildkite-token`")
        return BuildkiteHistory(self._api, self.build, self._search).candidates(notes)

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Keep the outcome, which decides the annotation's style; later steps read the artifacts."""
        self._outcome = values.get("outcome", self._outcome)

    def publish(self, body: Callable[[str], str]) -> Published:
        """Write the annotation of this evaluation, or replace it."""
        build, comment_id = self.build, self._settings.comment_id
        marker = Marker(comment_id, build.commit, build.number or 0, 1)
        style = _STYLES.get(self._outcome, "error")
        command = ["buildkite-agent", "annotate", "--context", f"agent-eval-{comment_id}", "--style", style]
        buildkite = {name: value for name, value in self._environ.items() if name.startswith("BUILDKITE")}
        try:
            done = run_child(
                command,
                stdin=body(str(marker)).encode("utf-8", "replace"),
                env={**allowed_environment(self._environ), **buildkite},
                limits=ChildLimits(seconds=_SECONDS),
            )
        except AgentEvalError as error:
            return _no_annotation(f"{error.message} Run the job where `buildkite-agent` is on the PATH.")
        if done.failure is not None:
            stderr = done.stderr.decode("utf-8", "replace").strip()[-500:]
            return _no_annotation(f"`buildkite-agent annotate` failed: {stderr}")
        return Published("updated", build.url or "")


def _no_annotation(why: str) -> Published:
    report = f"The report is in the {BUILDKITE.words.full_report}."
    return Published("refused", warning=f"The build was not annotated. {why} {report}")


def _session(own: BuildkiteSettings, sleep: Callable[[float], None], patience: Patience | None) -> Session:
    address = own.buildkite_api_url or PUBLIC_API
    secret = {"Authorization": f"Bearer {own.buildkite_token}"}
    return opened(
        lambda: Session(address, secret_headers=secret, patience=patience, sleep=sleep),
        field="buildkite-api-url",
    )
