"""Find earlier builds on Jenkins whose evidence may be the baseline: those of the base branch's own job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from agent_eval.ci.candidates import Candidate, Origin, Skipped
from agent_eval.ci.platforms.checkout_job import Search
from agent_eval.ci.platforms.jenkins.api import Build, JenkinsApi
from agent_eval.ci.platforms.order import MERGE_BASE, best_first
from agent_eval.errors import UsageError

_JUDGED = frozenset({"SUCCESS", "UNSTABLE", "FAILURE"})


@dataclass(frozen=True)
class JenkinsHistory:
    """The search of one build for earlier ones.

    Example:
        `JenkinsHistory(api, search).candidates(notes)` yields the newest builds of main.

    Args:
        api: Of the job of the base branch.
        search: Which of them may be the baseline; its branch is empty for a job of one branch.
        before: This build's number, where it is one of the same job.
    """

    api: JenkinsApi
    search: Search
    before: int | None = None

    def candidates(self, notes: list[str]) -> Iterator[Candidate]:
        """Yield the build that the user named; else those of the merge base, then the newest.

        Raises:
            UsageError: The build that the user named does not exist.
            HttpError: Jenkins refuses or cannot be reached.
        """
        # Jenkins answers "not found" also where the account may not look, so that is never "there is none".
        builds = self.api.builds()
        if self.search.named is not None:
            yield self._named_by_user(self.search.named, builds)
            return
        counted = [build for build in builds if self._counts(build)]
        where = f"newest on {self.search.branch}" if self.search.branch else "newest run"
        at_base = [(MERGE_BASE, build) for build in counted if self.search.base_sha in build.commits]
        ordered = best_first(
            [*at_base, *((where, build) for build in counted)],
            key=lambda build: build.number,
            base_sha=self.search.base_sha,
            noun="build",
            notes=notes,
        )
        yield from (self._candidate(build, how) for how, build in ordered)

    def _counts(self, build: Build) -> bool:
        earlier = self.before is None or build.number < self.before
        return build.result in _JUDGED and earlier

    def _named_by_user(self, number: int, builds: list[Build]) -> Candidate:
        for build in builds:
            if build.number == number and build.result in _JUDGED:
                return self._candidate(build, "named run", named_by_user=True)
        raise UsageError(
            f"The newest hundred builds have no finished build {number}.",
            remedy="Correct `baseline-run-id` (the number of a build), or leave it out.",
            field="baseline-run-id",
        )

    def _candidate(self, build: Build, how: str, *, named_by_user: bool = False) -> Candidate:
        commits = sorted(build.commits)
        origin = Origin(
            how=how,
            sha=self.search.base_sha if how == MERGE_BASE else commits[0] if len(commits) == 1 else None,
            branch=self.search.branch or None,
            run_id=build.number,
            run_url=build.url,
            created_at=datetime.fromtimestamp(build.timestamp / 1000, UTC).isoformat(),
        )
        label = f"build {build.number}"
        return Candidate(label, origin, lambda: self._fetch(build, label), named_by_user=named_by_user)

    def _fetch(self, build: Build, label: str) -> bytes:
        if all(artifact.relativePath != self.search.evidence for artifact in build.artifacts):
            raise Skipped(f"{label.capitalize()} left no artifact `{self.search.evidence}`.")
        return self.api.download(build.number, self.search.evidence, label=label)
