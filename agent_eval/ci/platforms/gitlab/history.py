"""Find earlier pipelines on GitLab whose evidence may be the baseline.

The pipeline of a merge request has its source branch's code; the pipelines of a fork run in the fork. So a
pipeline counts only when it is of this very project, of the base branch, and was not started for a merge
request.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from agent_eval.ci.candidates import (
    Candidate,
    NoHistory,
    Origin,
    Skipped,
    refuse_large_archive,
)
from agent_eval.ci.platforms.gitlab.api import GitLabApi, Job, JobPipeline
from agent_eval.ci.platforms.gitlab.pipeline import GitLabPipeline
from agent_eval.ci.platforms.order import MERGE_BASE, best_first
from agent_eval.errors import UsageError
from agent_eval.http.errors import HttpError

TRUSTED_SOURCES = frozenset({"push", "schedule", "web", "api", "trigger"})
_FINISHED = frozenset({"success", "failed"})
_NOT_PERMITTED = frozenset({401, 403, 404})


@dataclass(frozen=True, kw_only=True)
class GitLabHistory:
    """The search of one job for earlier pipelines.

    Example:
        `GitLabHistory(api=api, job=job, evidence="agent-eval-out/evidence.zip", now=now)` looks for the
        pipelines of the merge base, then for the newest on the base branch.

    Args:
        api: Of the project that the change goes into.
        pipeline: Of this job.
        evidence: Path of the evidence archive in a job's artifacts.
        now: The time, with its offset; artifacts that have expired by then are not asked for.
        base_sha: The commit where the change left the base branch; None when unknown.
        job_name: Name of the job that leaves the evidence.
        branch: Branch whose pipelines count.
        named: The pipeline that the user named; None for none.
    """

    api: GitLabApi
    pipeline: GitLabPipeline
    evidence: str
    now: datetime
    base_sha: str | None
    job_name: str
    branch: str
    named: int | None = None

    def candidates(self, notes: list[str]) -> Iterator[Candidate]:
        """Yield the pipeline that the user named; else those of the merge base, then those of the branch.

        Raises:
            NoHistory: The job of a fork may not read this project's pipelines.
            UsageError: The pipeline that the user named does not exist, or has no such job.
            HttpError: GitLab refuses or cannot be reached.
        """
        if self.named is not None:
            yield self._named_by_user(self.named)
            return
        try:
            yield from self._earlier(notes)
        except HttpError as error:
            if self.pipeline.has_secrets_of_target or error.status not in _NOT_PERMITTED:
                raise
            raise NoHistory(
                "This pipeline runs in a fork, whose token may not read the pipelines of the project."
            ) from error

    def _earlier(self, notes: list[str]) -> Iterator[Candidate]:
        jobs = self._jobs_by_listing() if self.api.by_job_token else self._jobs_by_pipeline()
        ordered = best_first(
            jobs, key=lambda job: job.pipeline.id, base_sha=self.base_sha, noun="pipeline", notes=notes
        )
        yield from (self._candidate(job, how) for how, job in ordered)

    def _jobs_by_pipeline(self) -> Iterator[tuple[str, Job]]:
        newest_first = {"order_by": "id", "sort": "desc"}
        if self.base_sha is not None:
            for pipeline in self.api.pipelines(sha=self.base_sha, **newest_first):
                yield from ((MERGE_BASE, job) for job in self._jobs_of(pipeline))
        for pipeline in self.api.pipelines(ref=self.branch, scope="finished", **newest_first):
            yield from ((f"newest on {self.branch}", job) for job in self._jobs_of(pipeline))

    def _jobs_by_listing(self) -> Iterator[tuple[str, Job]]:
        """Filter the list of all jobs, as the job's own token may not list pipelines."""
        others: list[Job] = []
        for job in self.api.jobs():
            if job.name != self.job_name or not self._counts(job.pipeline):
                continue
            if self.base_sha is not None and job.pipeline.sha == self.base_sha:
                yield MERGE_BASE, job
            else:
                others.append(job)
        yield from ((f"newest on {self.branch}", job) for job in others)

    def _jobs_of(self, pipeline: JobPipeline) -> Iterator[Job]:
        if self._counts(pipeline):
            named = [job for job in self.api.jobs_of(pipeline.id) if job.name == self.job_name]
            # A job that was retried is listed once, unless GitLab is asked for all attempts.
            yield from sorted(named, key=lambda job: job.id, reverse=True)[:1]

    def _counts(self, pipeline: JobPipeline) -> bool:
        """Whether the code of a pipeline is the base branch's, and it is not this one or a later one."""
        own = self.pipeline
        later = own.branch == self.branch and own.pipeline_id is not None and pipeline.id >= own.pipeline_id
        return (
            pipeline.project_id == own.target_project
            and pipeline.ref == self.branch
            and pipeline.source in TRUSTED_SOURCES
            and pipeline.id != own.pipeline_id
            and not later
        )

    def _named_by_user(self, number: int) -> Candidate:
        try:
            jobs = [job for job in self.api.jobs_of(number) if job.name == self.job_name]
        except HttpError as error:
            if error.status != 404:
                raise
            raise _no_pipeline(f"There is no pipeline {number} that the token may read.") from error
        if not jobs:
            raise _no_pipeline(f"Pipeline {number} has no finished job `{self.job_name}`.")
        newest = max(jobs, key=lambda job: job.id)
        if newest.pipeline.project_id != self.pipeline.target_project:
            raise _no_pipeline(f"Pipeline {number} is another project's.")
        return self._candidate(newest, "named run", named_by_user=True)

    def _candidate(self, job: Job, how: str, *, named_by_user: bool = False) -> Candidate:
        pipeline = job.pipeline
        origin = Origin(
            how=how,
            sha=pipeline.sha,
            branch=pipeline.ref,
            run_id=pipeline.id,
            run_url=pipeline.web_url,
            created_at=pipeline.created_at.isoformat() if pipeline.created_at is not None else None,
        )
        return Candidate(
            f"pipeline {pipeline.id}", origin, lambda: self._fetch(job), named_by_user=named_by_user
        )

    def _fetch(self, job: Job) -> bytes:
        label = f"pipeline {job.pipeline.id}"
        archive = job.archive
        if job.status not in _FINISHED or archive is None:
            raise Skipped(f"Job `{self.job_name}` of {label} left no artifacts.")
        if job.artifacts_expire_at is not None and job.artifacts_expire_at <= self.now:
            raise Skipped(f"The artifacts of {label} have expired.")
        refuse_large_archive(archive.size or 0, label)
        return self.api.artifact(job.id, self.evidence, label=label)


def _no_pipeline(message: str) -> UsageError:
    return UsageError(
        message,
        remedy="Correct `baseline-run-id` (the number of a pipeline), or leave it out.",
        field="baseline-run-id",
    )
