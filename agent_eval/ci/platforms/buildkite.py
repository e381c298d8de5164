"""Buildkite: the baseline is an earlier build's artifact, the comment an annotation of the build."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cached_property, partial
from urllib.parse import quote, urlencode

from pydantic import BaseModel

from agent_eval.ci.clone import Remote
from agent_eval.ci.comment import Marker, Published
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, Skipped, Withheld, refuse_large_archive
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, Platform, before_own
from agent_eval.ci.platforms.spec import PlatformSpec, Remedies, Words, commit_in, number_in, own_input
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.processes.child import ChildLimits, allowed_environment, run_child

BUILDKITE = PlatformSpec(
    name="buildkite",
    detect=lambda environ: environ.get("BUILDKITE") == "true",
    comment_limit=250_000,  # An annotation takes 1 MiB, and a character up to four bytes.
    words=Words(
        change="pull request",
        full_report="build's artifacts",
        earlier_run="build",
        job_of_fork="the build of a fork",
    ),
    inputs=(
        own_input(
            "buildkite-token",
            "secret",
            "Buildkite: API token for the baseline.",
            detail="Its scopes are `read_builds` and `read_artifacts`; the job's own token lists no builds.",
        ),
        own_input(
            "buildkite-api-url", "url", "REST address of Buildkite. Default: https://api.buildkite.com/v2."
        ),
    ),
    secret_names=frozenset({"BUILDKITE_AGENT_TOKEN", "BUILDKITE_API_TOKEN"}),
    secret_prefixes=("BUILDKITE_AGENT_ACCESS_TOKEN", "BUILDKITE_AGENT_JOB_API_"),
    remedies=Remedies(
        read_runs="Give `buildkite-token` the scopes `read_builds` and `read_artifacts`.",
        run_fork="Build forks in a cluster of their own, which has no secrets.",
        set_variable="Set it with the pipeline's secrets, or in an agent's `environment` hook",
    ),
)

PUBLIC_API = "https://api.buildkite.com/v2"
_STYLES = {"passed": "success", "inconclusive": "warning", "no-baseline": "info"}
"""Style of the annotation by outcome; `error` for any other."""
_JUDGED = frozenset({"passed", "failed"})
_SLUG = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ADDRESS = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/]*@)?(?P<host>[^:/]*)[:/]+(?:\d+/)?(?P<path>.+?)(?:\.git)?/*", re.I
)


def same_repository(first: str, second: str) -> bool:
    """Whether two addresses name one repository, whatever the protocol.

    Example:
        >>> same_repository("git@git.example:acme/shop.git", "https://git.example/acme/shop")
        True
    """

    def normalized(address: str) -> str:
        match = _ADDRESS.fullmatch(address.strip())
        return f"{match['host']}/{match['path']}".lower() if match else ""

    return normalized(first) == normalized(second) != ""


class _PullRequest(BaseModel):
    id: str | int | None = None


class _Build(BaseModel):
    """A build. `pull_request` is null or empty where there is none."""

    number: int
    state: str
    commit: str
    branch: str
    created_at: datetime
    pull_request: _PullRequest | None = None


class _Artifact(BaseModel):
    id: str
    job_id: str
    state: str
    path: str
    file_size: int
    sha1sum: str


class Buildkite(Platform):
    """One job of Buildkite."""

    spec = BUILDKITE

    def begin(self) -> None:
        """Read organization, pipeline and build, and open the API where there is a token."""
        environ = self._environ
        slugs = []
        for name in ("BUILDKITE_ORGANIZATION_SLUG", "BUILDKITE_PIPELINE_SLUG"):
            slugs.append(environ.get(name, ""))
            if not _SLUG.fullmatch(slugs[-1]):
                raise UsageError(
                    f"{name} is not the slug that Buildkite sets: {slugs[-1][:200]!r}",
                    remedy="Run this inside Buildkite, or unset BUILDKITE.",
                    field=name,
                )
        self._root = f"/organizations/{slugs[0]}/pipelines/{slugs[1]}/builds"
        self._number = number_in(environ.get("BUILDKITE_BUILD_NUMBER"))
        self._url = environ.get("BUILDKITE_BUILD_URL") or None
        self._head = commit_in(environ.get("BUILDKITE_COMMIT"))
        self._of_pull_request = environ.get("BUILDKITE_PULL_REQUEST", "false") not in ("", "false")
        self._repository = environ.get("BUILDKITE_REPO", "")
        self._outcome = ""
        if token := self._own["buildkite_token"]:
            base, secret = self._own["buildkite_api_url"] or PUBLIC_API, {"Authorization": f"Bearer {token}"}
            self._api = self._connect.open(base, secret, name="Buildkite", field="buildkite-api-url")

    @cached_property
    def run(self) -> CiRun:
        """The build, as Buildkite's variables describe it."""
        job, url = self._environ.get("BUILDKITE_JOB_ID", ""), self._url
        # A pull request whose repository is not shown to be this one may come from any.
        from_fork = self._of_pull_request and not same_repository(
            self._repository, self._environ.get("BUILDKITE_PULL_REQUEST_REPO", "")
        )
        return CiRun(
            head_sha=self._head or self._commit,
            run_url=f"{url}#{job}" if url and job else url,
            run_name=f"buildkite-{self._number}-{job[:8]}" if self._number else None,
            evidence_url=url,
            from_fork=from_fork,
            # Buildkite tells no build of a fork what it may do; a token of this pipeline shows that it may.
            fork_event="pull request" if from_fork and self._api is not None else "",
        )

    @cached_property
    def refs(self) -> Refs:
        """The branches as Buildkite names them."""
        environ = self._environ
        default = environ.get("BUILDKITE_PIPELINE_DEFAULT_BRANCH") or None
        target = environ.get("BUILDKITE_MERGE_QUEUE_BASE_BRANCH") or None
        if self._of_pull_request:
            target = environ.get("BUILDKITE_PULL_REQUEST_BASE_BRANCH") or default
        tag = environ.get("BUILDKITE_TAG") or None
        return Refs(
            default_branch=default,
            branch=None if tag or target else environ.get("BUILDKITE_BRANCH") or None,
            tag=tag,
            target=target,
            queue_base=commit_in(environ.get("BUILDKITE_MERGE_QUEUE_BASE_COMMIT")),
            remote=Remote(self._repository) if self._repository else self._origin,
        )

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the builds of the commit, then the newest hundred of each branch."""
        of_commit = [{"commit": asked.commit}] if asked.commit is not None else []
        for query in (*of_commit, *({"branch": branch} for branch in asked.branches)):
            words = urlencode({"state": "finished", "exclude_pipeline": "true", **query})
            builds = self._reads().rows(_Build, f"{self._root}?{words}", max_pages=1)
            finished = (self._earlier(build) for build in builds if build.state in _JUDGED)
            yield from before_own(finished, self._number, asked)

    def _earlier(self, build: _Build) -> EarlierRun:
        return EarlierRun(
            number=build.number,
            label=f"build {build.number}",
            commits=frozenset({build.commit}),
            branch=build.branch,
            created_at=build.created_at.isoformat(),
            # The branch of a pull request has the name that its author chose, also in a fork.
            is_own_code=build.pull_request is None or build.pull_request.id is None,
            fetch=partial(self._fetch, build.number),
        )

    def _fetch(self, number: int) -> bytes:
        path, label, root = self._evidence_path, f"build {number}", f"{self._root}/{number}"
        listed = self._reads().rows(_Artifact, f"{root}/artifacts?{urlencode({'path': path})}")
        artifacts = [artifact for artifact in listed if artifact.path == path]
        finished = [artifact for artifact in artifacts if artifact.state == "finished"]
        if len(finished) > 1:
            raise Withheld(f"Several jobs of {label} left `{path}`; which one counts is not known.")
        if not finished and any(artifact.state in ("expired", "deleted") for artifact in artifacts):
            raise Expired(f"The artifacts of {label} have expired.")
        if not finished:
            raise Skipped(f"{label.capitalize()} left no artifact `{path}`.")
        [artifact] = finished
        refuse_large_archive(artifact.file_size, label)
        # The address is built here: the answer's could lead the token elsewhere.
        place = f"jobs/{quote(artifact.job_id)}/artifacts/{quote(artifact.id)}/download"
        data = self._reads().evidence(f"{root}/{place}", label=label)
        # It proves that the transport lost nothing; who made the evidence only a signature shows.
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != artifact.sha1sum:
            raise Withheld(f"The evidence of {label} is not what Buildkite recorded; it was not used.")
        return data

    def keep_outputs(self, values: Mapping[str, str]) -> None:
        """Keep the outcome, which decides the annotation's style; later steps read the artifacts."""
        self._outcome = values.get("outcome", self._outcome)

    def write_comment(self, body: Callable[[str], str]) -> Published:
        """Write the annotation of this evaluation, or replace it."""
        comment_id, what = self._settings.comment_id, "The build was not annotated."
        marker = Marker(comment_id, self._head, self._number or 0, 1)
        style = _STYLES.get(self._outcome, "error")
        command = ["buildkite-agent", "annotate", "--context", f"agent-eval-{comment_id}", "--style", style]
        buildkite = {name: value for name, value in self._environ.items() if name.startswith("BUILDKITE")}
        try:
            done = run_child(
                command,
                stdin=body(str(marker)).encode("utf-8", "replace"),
                env={**allowed_environment(self._environ), **buildkite},
                limits=ChildLimits(seconds=60),
            )
        except AgentEvalError as error:
            why = f"{error.message} Run the job where `buildkite-agent` is on the PATH."
            return self._not_written(why, what)
        if done.failure is not None:
            stderr = done.stderr.decode("utf-8", "replace").strip()[-500:]
            return self._not_written(f"`buildkite-agent annotate` failed: {stderr}", what)
        return Published("updated", self._url or "")
