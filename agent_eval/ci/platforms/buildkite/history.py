"""Find earlier builds on Buildkite whose evidence may be the baseline.

The branch of a build of a pull request is the name that its author chose, also in a fork. So a build counts
only when it belongs to no pull request.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from agent_eval.ci.candidates import Candidate, Origin, Skipped, Withheld, refuse_large_archive
from agent_eval.ci.platforms.buildkite.api import Artifact, Build, BuildkiteApi
from agent_eval.ci.platforms.buildkite.build import BuildkiteBuild
from agent_eval.ci.platforms.checkout_job import Search
from agent_eval.ci.platforms.order import MERGE_BASE, best_first
from agent_eval.errors import UsageError
from agent_eval.http.errors import HttpError

_JUDGED = frozenset({"passed", "failed"})


@dataclass(frozen=True)
class BuildkiteHistory:
    """The search of one job for earlier builds.

    Example:
        `BuildkiteHistory(api, build, search).candidates(notes)` yields the newest builds of main.

    Args:
        api: Of the pipeline.
        build: Of this job.
        search: Which of them may be the baseline.
    """

    api: BuildkiteApi
    build: BuildkiteBuild
    search: Search

    def candidates(self, notes: list[str]) -> Iterator[Candidate]:
        """Yield the build that the user named; else those of the merge base, then those of the branch.

        Raises:
            UsageError: The build that the user named does not exist, or is one of a pull request.
            HttpError: Buildkite refuses or cannot be reached.
        """
        if self.search.named is not None:
            yield self._named_by_user(self.search.named)
            return
        ordered = best_first(
            self._builds(),
            key=lambda build: build.number,
            base_sha=self.search.base_sha,
            noun="build",
            notes=notes,
        )
        yield from (self._candidate(build, how) for how, build in ordered)

    def _builds(self) -> Iterator[tuple[str, Build]]:
        if self.search.base_sha is not None:
            at_base = self.api.builds(commit=self.search.base_sha, branch=self.search.branch)
            yield from ((MERGE_BASE, build) for build in at_base if self._counts(build))
        newest = self.api.builds(branch=self.search.branch)
        yield from ((f"newest on {self.search.branch}", build) for build in newest if self._counts(build))

    def _counts(self, build: Build) -> bool:
        """Whether the code of a build is the base branch's, and it is not this one or a later one."""
        own = self.build
        later = own.branch == self.search.branch and own.number is not None and build.number >= own.number
        return (
            build.branch == self.search.branch
            and build.state in _JUDGED
            and not build.of_pull_request
            and build.number != own.number
            and not later
        )

    def _named_by_user(self, number: int) -> Candidate:
        try:
            build = self.api.build(number)
        except HttpError as error:
            if error.status != 404:
                raise
            raise _unusable(f"There is no build {number} that the token may read.") from error
        if build.of_pull_request:
            raise _unusable(f"Build {number} is one of a pull request.")
        return self._candidate(build, "named run", named_by_user=True)

    def _candidate(self, build: Build, how: str, *, named_by_user: bool = False) -> Candidate:
        origin = Origin(
            how=how,
            sha=build.commit,
            branch=build.branch,
            run_id=build.number,
            run_url=build.web_url,
            created_at=build.created_at.isoformat(),
        )
        return Candidate(
            f"build {build.number}", origin, lambda: self._fetch(build), named_by_user=named_by_user
        )

    def _fetch(self, build: Build) -> bytes:
        label = f"build {build.number}"
        artifact = self._usable(build, label)
        data = self.api.download(build.number, artifact, label=label)
        # It proves that the transport lost nothing; who made the evidence only a signature shows.
        if hashlib.sha1(data, usedforsecurity=False).hexdigest() != artifact.sha1sum:
            raise Withheld(
                f"The evidence of {label} is not what Buildkite recorded; it was not used.", loud=True
            )
        return data

    def _usable(self, build: Build, label: str) -> Artifact:
        artifacts = self.api.artifacts(build.number, self.search.evidence)
        finished = [artifact for artifact in artifacts if artifact.state == "finished"]
        if len(finished) > 1:
            raise Withheld(
                f"Several jobs of {label} left `{self.search.evidence}`; which one counts is not known."
            )
        if finished:
            refuse_large_archive(finished[0].file_size, label)
            return finished[0]
        if any(artifact.state in ("expired", "deleted") for artifact in artifacts):
            raise Skipped(f"The artifacts of {label} have expired.")
        raise Skipped(f"{label.capitalize()} left no artifact `{self.search.evidence}`.")


def _unusable(message: str) -> UsageError:
    return UsageError(
        message,
        remedy="Correct `baseline-run-id` (the number of a build), or leave it out.",
        field="baseline-run-id",
    )
