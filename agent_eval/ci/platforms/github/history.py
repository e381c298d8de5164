"""Find earlier workflow runs on GitHub that may be the baseline.

Anyone can open a pull request from a fork whose branch is called `main`; GitHub then lists its runs under
`branch=main` of this repository. So a run counts only when it was triggered by push, schedule or
workflow_dispatch and its code came from this very repository, compared by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent_eval.ci.candidates import (
    Candidate,
    NoHistory,
    Origin,
    Skipped,
    Withheld,
    checked_archive,
    refuse_large_archive,
)
from agent_eval.ci.platforms.github.api import Artifact, GitHubApi, WorkflowRun
from agent_eval.ci.platforms.github.event import GitHubEvent
from agent_eval.errors import UsageError
from agent_eval.http.errors import HttpError

TRUSTED_EVENTS = ("push", "schedule", "workflow_dispatch")


@dataclass(frozen=True, kw_only=True)
class GitHubHistory:
    """The search of one job for earlier runs.

    Example:
        `GitHubHistory(api=api, event=event, artifact="agent-eval-evidence").candidates(notes)` yields the
        runs for the merge base, then the newest on the base branch.

    Args:
        api: Of the repository.
        event: That triggered the job.
        artifact: Name of the artifact with the evidence.
        workflow: File name or id of the workflow; empty for the job's own.
        branch: Branch whose runs count; empty for the base branch of the event.
        run_id: The run that the user named; None for none.
    """

    api: GitHubApi
    event: GitHubEvent
    artifact: str
    workflow: str = ""
    branch: str = ""
    run_id: int | None = None

    def candidates(self, notes: list[str]) -> Iterator[Candidate]:
        """Yield the run that the user named; else those for the merge base, then those on the base branch.

        Raises:
            NoHistory: This job is no workflow run.
            UsageError: The run that the user named does not exist or is not this repository's.
            RemoteError: GitHub refuses or cannot be reached.
        """
        repository_id = self.event.repository_id or self.api.repository().id
        if self.run_id is not None:
            yield self._named(self.run_id, repository_id)
            return
        workflow = self.workflow or self._own_workflow()
        if workflow is None:
            raise NoHistory("This job is no workflow run (GITHUB_RUN_ID), so it has no earlier ones.")
        seen: set[int] = set()
        branch = self._base_branch()
        for how, run in self._runs(workflow, branch, notes):
            if run.id in seen or run.id == self.event.run_id or run.status != "completed":
                continue
            seen.add(run.id)
            if not _is_ours(run, repository_id):
                if _claims_the_branch(run, branch):
                    notes.append(f"Run {run.id} was passed over: its code is not from this repository.")
                continue
            yield self._candidate(run, how)

    def _runs(self, workflow: str | int, branch: str, notes: list[str]) -> Iterator[tuple[str, WorkflowRun]]:
        base = self._merge_base(branch, notes)
        if base is not None:
            at_base = _newest_first(self.api.runs(workflow, head_sha=base))
            if not any(run.event in TRUSTED_EVENTS for run in at_base):
                notes.append(f"There is no finished run for the merge base `{base[:7]}`.")
            yield from (("merge base", run) for run in at_base)
        on_branch = [
            run
            for event in TRUSTED_EVENTS
            for run in self.api.runs(workflow, branch=branch, event=event, exclude_pull_requests="true")
        ]
        for run in _newest_first(on_branch):
            # A run on the base branch itself is compared with what came before it, also when it is repeated.
            if self.event.branch == branch and self.event.run_id and run.id >= self.event.run_id:
                continue
            yield f"newest on {branch}", run

    def _merge_base(self, branch: str, notes: list[str]) -> str | None:
        head = self.event.head_sha
        if head is None or self.event.branch == branch:
            return None
        try:
            return self.api.merge_base(self.event.base_sha or branch, head)
        except HttpError as error:
            if error.status != 404:
                raise
            notes.append("GitHub knows no common commit of this change and its base.")
            return None

    def _base_branch(self) -> str:
        known = self.branch or self.event.base_branch or self.event.default_branch
        return known or self.api.repository().default_branch or "main"

    def _own_workflow(self) -> int | None:
        return self.api.run(self.event.run_id).workflow_id if self.event.run_id else None

    def _named(self, run_id: int, repository_id: int) -> Candidate:
        try:
            run = self.api.run(run_id)
        except HttpError as error:
            if error.status != 404:
                raise
            raise UsageError(
                f"There is no workflow run {run_id} in {self.event.repository}.",
                remedy="Correct `baseline-run-id`, or leave it out.",
                field="baseline-run-id",
            ) from error
        if not _same_repository(run, repository_id):
            raise UsageError(
                f"The code of workflow run {run_id} is not from {self.event.repository}.",
                remedy="Name a run of this repository in `baseline-run-id`.",
                field="baseline-run-id",
            )
        return self._candidate(run, "named run", named_by_user=True)

    def _candidate(self, run: WorkflowRun, how: str, *, named_by_user: bool = False) -> Candidate:
        origin = Origin(
            how=how,
            sha=run.head_sha,
            branch=run.head_branch,
            run_id=run.id,
            run_url=run.html_url,
            created_at=run.created_at,
        )
        return Candidate(f"run {run.id}", origin, lambda: self._fetch(run), named_by_user=named_by_user)

    def reported(self, run: WorkflowRun) -> Candidate:
        """Offer a run of a change for a report on it; it may be another repository's code."""
        origin = Origin(how="reported run", sha=run.head_sha, run_id=run.id, run_url=run.html_url)
        return Candidate(f"run {run.id}", origin, lambda: self._read(run, self._newest(run)))

    def _fetch(self, run: WorkflowRun) -> bytes:
        return self._read(run, self._usable(run))

    def _read(self, run: WorkflowRun, artifact: Artifact) -> bytes:
        data = self.api.download(artifact.id, label=f"run {run.id}")
        recorded = artifact.digest.removeprefix("sha256:") if artifact.digest is not None else None
        return checked_archive(data, recorded, f"run {run.id}")

    def _usable(self, run: WorkflowRun) -> Artifact:
        artifact = self._newest(run)
        owner = artifact.workflow_run
        if owner is not None and owner.repository_id != owner.head_repository_id:
            raise Withheld(f"The artifact of run {run.id} was made by another repository's code.", loud=True)
        return artifact

    def _newest(self, run: WorkflowRun) -> Artifact:
        named = self._named_artifacts(run)
        if not named:
            raise Skipped(f"Run {run.id} left no artifact `{self.artifact}`.")
        # Every attempt of a run may have left one; the last one counts.
        artifact = max(named, key=lambda row: row.id)
        if artifact.expired:
            raise Skipped(f"The artifact of run {run.id} has expired.")
        refuse_large_archive(artifact.size_in_bytes, f"run {run.id}")
        return artifact

    def _named_artifacts(self, run: WorkflowRun) -> list[Artifact]:
        try:
            return self.api.artifacts(run.id, self.artifact)
        except HttpError as error:
            if error.status != 404:
                raise
            raise Withheld(f"Run {run.id} is listed, and GitHub does not find its artifacts.") from error


def _same_repository(run: WorkflowRun, repository_id: int) -> bool:
    return (
        run.head_repository is not None
        and run.repository.id == repository_id
        and run.head_repository.id == repository_id
    )


def _is_ours(run: WorkflowRun, repository_id: int) -> bool:
    return run.event in TRUSTED_EVENTS and _same_repository(run, repository_id)


def _claims_the_branch(run: WorkflowRun, branch: str) -> bool:
    return run.head_branch == branch


def _newest_first(runs: list[WorkflowRun]) -> list[WorkflowRun]:
    return sorted(runs, key=lambda run: run.id, reverse=True)
