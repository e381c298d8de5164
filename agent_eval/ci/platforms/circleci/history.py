"""Find earlier pipelines on CircleCI whose evidence may be the baseline.

A pipeline counts only when its code is from the repository itself and of the base branch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent_eval.ci.candidates import Candidate, Origin, Skipped, Withheld
from agent_eval.ci.platforms.checkout_job import Search
from agent_eval.ci.platforms.circleci.api import Artifact, CircleCIApi, Pipeline
from agent_eval.ci.platforms.circleci.pipeline import CircleCIPipeline
from agent_eval.ci.platforms.order import MERGE_BASE, best_first
from agent_eval.errors import UsageError
from agent_eval.http.errors import HttpError

_JUDGED = frozenset({"success", "failed"})


@dataclass(frozen=True)
class CircleCIHistory:
    """The search of one job for earlier pipelines.

    Example:
        `CircleCIHistory(api, own, search).candidates(notes)` yields the newest pipelines of main.

    Args:
        api: Of the project.
        own: The pipeline of this job.
        search: Which of them may be the baseline.
    """

    api: CircleCIApi
    own: CircleCIPipeline
    search: Search

    def candidates(self, notes: list[str]) -> Iterator[Candidate]:
        """Yield the pipeline that the user named; else those of the merge base, then those of the branch.

        Raises:
            UsageError: The pipeline that the user named does not exist, or is a fork's.
            HttpError: CircleCI refuses or cannot be reached.
        """
        if self.search.named is not None:
            yield self._named_by_user(self.search.named)
            return
        ordered = best_first(
            self._pipelines(),
            key=lambda row: row.number,
            base_sha=self.search.base_sha,
            noun="pipeline",
            notes=notes,
        )
        yield from (self._candidate(pipeline, how) for how, pipeline in ordered)

    def _pipelines(self) -> Iterator[tuple[str, Pipeline]]:
        """Look through the branch, as CircleCI finds no pipeline by its commit."""
        others: list[Pipeline] = []
        reached_own = self.own.branch != self.search.branch
        for pipeline in self.api.pipelines(self.search.branch):
            if pipeline.id == self.own.pipeline:
                reached_own = True
            elif reached_own and self._counts(pipeline):
                if pipeline.vcs is not None and pipeline.vcs.revision == self.search.base_sha:
                    yield MERGE_BASE, pipeline
                else:
                    others.append(pipeline)
        yield from ((f"newest on {self.search.branch}", pipeline) for pipeline in others)

    def _counts(self, pipeline: Pipeline) -> bool:
        source = pipeline.vcs
        return (
            source is not None
            and pipeline.state == "created"
            and source.branch == self.search.branch
            and source.origin_repository_url == source.target_repository_url
        )

    def _named_by_user(self, number: int) -> Candidate:
        try:
            pipeline = self.api.pipeline(number)
        except HttpError as error:
            if error.status != 404:
                raise
            raise _unusable(f"There is no pipeline {number} that the token may read.") from error
        source = pipeline.vcs
        if source is None or source.origin_repository_url != source.target_repository_url:
            raise _unusable(f"The code of pipeline {number} is not from this repository.")
        return self._candidate(pipeline, "named run", named_by_user=True)

    def _candidate(self, pipeline: Pipeline, how: str, *, named_by_user: bool = False) -> Candidate:
        source = pipeline.vcs
        origin = Origin(
            how=how,
            sha=source.revision if source is not None else None,
            branch=source.branch if source is not None else None,
            run_id=pipeline.number,
            created_at=pipeline.created_at.isoformat(),
        )
        label = f"pipeline {pipeline.number}"
        return Candidate(label, origin, lambda: self._fetch(pipeline, label), named_by_user=named_by_user)

    def _fetch(self, pipeline: Pipeline, label: str) -> bytes:
        artifacts = self._artifacts(pipeline)
        if not artifacts:
            raise Skipped(f"{label.capitalize()} left no artifact `{self.search.evidence}`.")
        if len(artifacts) > 1:
            raise Withheld(
                f"Several nodes of {label} left `{self.search.evidence}`; which one counts is not known."
            )
        return self.api.download(artifacts[0], label=label)

    def _artifacts(self, pipeline: Pipeline) -> list[Artifact]:
        """Find the evidence of the newest workflow in which the job of this name came to an end."""
        workflows = sorted(self.api.workflows(pipeline.id), key=lambda row: row.created_at, reverse=True)
        for workflow in workflows:
            for job in self.api.jobs(workflow.id):
                if job.name == self.own.job and job.status in _JUDGED and job.job_number is not None:
                    listed = self.api.artifacts(job.job_number)
                    return [artifact for artifact in listed if artifact.path == self.search.evidence]
        return []


def _unusable(message: str) -> UsageError:
    return UsageError(
        message,
        remedy="Correct `baseline-run-id` (the number of a pipeline), or leave it out.",
        field="baseline-run-id",
    )
