"""GitHub Actions: the event, what the runner obeys in the log, earlier runs, the comment."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from agent_eval.ci.clone import Remote
from agent_eval.ci.comment import Marker, Published, job_of
from agent_eval.ci.earlier import (
    Asked,
    EarlierRun,
    Expired,
    NoHistory,
    Skipped,
    Withheld,
    checked_archive,
    refuse_large_archive,
)
from agent_eval.ci.place import Refs
from agent_eval.ci.platforms.base import CiRun, Platform, Reporter, before_own
from agent_eval.ci.platforms.github_api import (
    PUBLIC_API,
    USUAL_AUTHOR,
    Artifact,
    Commit,
    Listing,
    PullRequest,
    PullRequestComments,
    Repository,
    WorkflowRun,
    connected,
    listed,
    upload_artifact,
)
from agent_eval.ci.platforms.spec import (
    SUMMARY_LIMIT,
    PlatformSpec,
    Remedies,
    Words,
    commit_in,
    number_in,
    own_input,
)
from agent_eval.ci.rest import NOT_FOUND
from agent_eval.config.options import CI, Option
from agent_eval.config.table import options_of
from agent_eval.errors import AgentEvalError, StorageError, UsageError
from agent_eval.http.errors import HttpError
from agent_eval.storage.atomic import append_file
from agent_eval.storage.json import Limits, read_json
from agent_eval.text.escape import many_lines, prose

GITHUB = PlatformSpec(
    name="github",
    detect=lambda environ: environ.get("GITHUB_ACTIONS") == "true",
    alert_boxes=True,
    words=Words(change="pull request", full_report="job summary"),
    inputs=(
        own_input(
            "github-token",
            "secret",
            "GitHub: token for the baseline and the comment.",
            action_default="${{ github.token }}",
        ),
        own_input(
            "github-api-url", "url", "REST address of GitHub. Default: GITHUB_API_URL, which the runner sets."
        ),
        own_input(
            "baseline-workflow",
            "text",
            "Workflow whose runs may be the baseline. Default: this one.",
            is_key=True,
        ),
        own_input(
            "upload-evidence", "switch", "GitHub: upload the evidence from within this step.", default="false"
        ),
        own_input(
            "comment-author",
            "text",
            f"Login that writes comments. Default: asked from GitHub, else `{USUAL_AUTHOR}`.",
            is_key=True,
        ),
    ),
    input_prefix="INPUT_",
    secret_names=frozenset(
        {"GITHUB_TOKEN", "GH_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN", "RUNNER_TOKEN"}
    ),
    secret_prefixes=("INPUT_", "ACTIONS_"),
    command_files=("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"),
    remedies=Remedies(
        read_runs="Grant the job `actions: read`, and check `baseline.job` where it is set.",
        write_comment="The token may not write comments: grant the job `pull-requests: write`",
        write_from_fork="A pull request from a fork runs with a token that may only read",
        run_fork="Use `on: pull_request`: there a fork's code has no secrets and a token that may only read.",
        set_variable="Set it in the step's `env`; a fork's pull request has no secrets",
    ),
)

ACTION_INPUTS: tuple[Option, ...] = tuple(
    row for row in (*options_of(CI), *GITHUB.inputs) if row.commands and not row.hidden
)
"""Inputs of the action, in the order of `action.yml`."""

OWN_EVENTS = ("push", "schedule", "workflow_dispatch")
"""Events whose runs have the repository's own code and workflow."""

_PULL_REQUEST_EVENTS = frozenset(
    {"pull_request", "pull_request_target", "pull_request_review", "pull_request_review_comment"}
)
_WITH_SECRETS = frozenset({"pull_request_target", "workflow_run"})
"""Events that a fork can cause, and whose jobs have the secrets and the token of the repository itself."""
_MAY_REPORT = frozenset({"workflow_run", "workflow_dispatch"})
"""Events whose jobs run the default branch's workflow, and which no change can alter."""
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_EVENT_LIMITS = Limits(max_bytes=32 << 20)
_BRANCH, _TAG = "refs/heads/", "refs/tags/"


class GitHubStep(Reporter):
    """One step of a workflow. It needs no settings and no event."""

    def keep_summary(self, markdown: str) -> None:
        """Append to the step's summary. A text that does not fit is left out, or GitHub would drop all."""
        if not (path := self._environ.get("GITHUB_STEP_SUMMARY", "")):
            return
        data = markdown.encode("utf-8", "replace") + b"\n"
        try:
            present = Path(path).stat().st_size
        except OSError:
            present = 0
        if present + len(data) > SUMMARY_LIMIT:
            self.warn("The job summary is full; the report is in the output directory.")
            return
        self._append(path, data, "The job summary")

    def keep_outputs(self, values: Mapping[str, str]) -> None:
        """Set the step's outputs. No value can set another one, because the delimiter cannot be guessed."""
        delimiter = f"agent-eval-{secrets.token_hex(16)}"
        lines = [f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in values.items()]
        if path := self._environ.get("GITHUB_OUTPUT", ""):
            self._append(path, "".join(lines).encode("utf-8", "replace"), "The step's outputs")

    def log_prose(self, text: str) -> None:
        """Print prose while the runner obeys no command."""
        token = secrets.token_hex(16)
        super().log_prose(f"::stop-commands::{token}\n{text}\n::{token}::")

    def log_note(self, kind: Literal["warning", "error"], text: str) -> None:
        """Print an annotation."""
        super().log_prose(annotation(kind, text))

    def _append(self, path: str, data: bytes, what: str) -> None:
        try:
            append_file(Path(path), data)
        except StorageError as error:
            self.warn(f"{what} could not be written: {error.message}")


def annotation(kind: Literal["warning", "error"], text: str) -> str:
    """Write an annotation on one line, as a command of the runner; controls but line breaks are dropped.

    Example:
        >>> annotation("warning", "100 %")
        '::warning title=agent-eval::100 %25'
    """
    data = many_lines(text, limit=10_000).replace("%", "%25").replace("\n", "%0A")
    return f"::{kind} title=agent-eval::{data}"


@dataclass(frozen=True, kw_only=True)
class GitHubEvent:
    """The trigger of a workflow run. Fields that an event does not have are None.

    Attributes:
        name: As in `on:` of the workflow.
        repository: `owner/name` in whose Actions the job runs.
        repository_id: Its number, which survives renames.
        attempt: Which attempt of the run, from 1.
        head_sha: The commit under review; for a pull request its head, not the trial merge.
        queue_base: The commit onto which the merge queue puts the change.
        base_branch: The branch that the change goes into.
        branch: The branch that the job runs on; None for pull requests and tags.
        from_fork: Also where the payload does not show that the change comes from this repository.
    """

    name: str
    repository: str
    repository_id: int | None
    run_id: int | None
    attempt: int
    run_url: str | None
    head_sha: str | None
    queue_base: str | None = None
    base_branch: str | None = None
    branch: str | None = None
    tag: str | None = None
    default_branch: str | None = None
    pull_request: int | None = None
    from_fork: bool = False


def read_event(environ: Mapping[str, str]) -> GitHubEvent:
    """Read the event of this job. `GITHUB_REPOSITORY` is `owner/name`."""
    repository = environ.get("GITHUB_REPOSITORY", "")
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(
            f"GITHUB_REPOSITORY is not owner/name: {repository[:200]!r}",
            remedy="Run this inside GitHub Actions, or unset GITHUB_ACTIONS.",
            field="GITHUB_REPOSITORY",
        )
    path, name = environ.get("GITHUB_EVENT_PATH", ""), environ.get("GITHUB_EVENT_NAME", "")
    payload = read_json(Path(path), limits=_EVENT_LIMITS) if path and Path(path).is_file() else {}
    run_id = number_in(environ.get("GITHUB_RUN_ID"))
    server = environ.get("GITHUB_SERVER_URL") or "https://github.com"
    reference, sha = environ.get("GITHUB_REF", ""), commit_in(environ.get("GITHUB_SHA"))
    repository_id = number_in(environ.get("GITHUB_REPOSITORY_ID")) or _int(payload, "repository", "id")
    event = GitHubEvent(
        name=name,
        repository=repository,
        repository_id=repository_id,
        run_id=run_id,
        attempt=number_in(environ.get("GITHUB_RUN_ATTEMPT")) or 1,
        run_url=f"{server}/{repository}/actions/runs/{run_id}" if run_id else None,
        default_branch=_text(payload, "repository", "default_branch"),
        head_sha=sha,
    )
    if name in _PULL_REQUEST_EVENTS:
        head, base = (_int(payload, "pull_request", side, "repo", "id") for side in ("head", "base"))
        return replace(
            event,
            pull_request=_int(payload, "pull_request", "number"),
            head_sha=commit_in(_text(payload, "pull_request", "head", "sha")),
            base_branch=_text(payload, "pull_request", "base", "ref"),
            # A head without a repository is of a deleted fork; without a base nothing shows that it is none.
            from_fork=base is None or head != base,
        )
    if name == "merge_group":
        return replace(
            event,
            head_sha=commit_in(_text(payload, "merge_group", "head_sha")) or sha,
            queue_base=commit_in(_text(payload, "merge_group", "base_sha")),
            base_branch=_branch(_text(payload, "merge_group", "base_ref") or ""),
        )
    if name == "workflow_run":
        source = _int(payload, "workflow_run", "head_repository", "id")
        if source is None or source != repository_id:
            head_sha = commit_in(_text(payload, "workflow_run", "head_sha"))
            return replace(event, head_sha=head_sha, base_branch=_branch(reference), from_fork=True)
    tag = reference.removeprefix(_TAG) if reference.startswith(_TAG) else None
    return replace(event, branch=_branch(reference), tag=tag)


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _text(payload: Any, *keys: str) -> str | None:
    value = _at(payload, *keys)
    return value if isinstance(value, str) and value else None


def _int(payload: Any, *keys: str) -> int | None:
    value = _at(payload, *keys)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _branch(reference: str) -> str | None:
    return reference.removeprefix(_BRANCH) if reference.startswith(_BRANCH) else None


class GitHub(GitHubStep, Platform):
    """One job of GitHub Actions."""

    spec, reporter = GITHUB, GitHubStep

    def begin(self) -> None:
        """Read the event, and open the API where there is a token."""
        self._trigger, environ = read_event(self._environ), self._environ
        self._token: str = self._own["github_token"] or environ.get("GITHUB_TOKEN", "").strip()
        self._root = f"/repos/{self._trigger.repository}"
        if self._token:
            base = self._own["github_api_url"] or environ.get("GITHUB_API_URL") or PUBLIC_API
            self._api = connected(self._connect, base, self._token)

    @property
    def event(self) -> GitHubEvent:
        """What triggered the job; of a job that reports on another run, with the change of that run."""
        return self._trigger if self._reported is None else self._reported.event

    @cached_property
    def workspace(self) -> Path:
        """The directory in which `actions/checkout` puts the repository."""
        return Path(self._environ.get("GITHUB_WORKSPACE", "").strip() or Path.cwd())

    @cached_property
    def run(self) -> CiRun:
        """The workflow run, as the runner's environment and the event describe it."""
        event, reported = self.event, self._reported
        page = event.run_url if reported is None else reported.run.html_url
        runs_code = reported is None and event.from_fork and event.name in _WITH_SECRETS
        return CiRun(
            head_sha=event.head_sha,
            run_url=event.run_url,
            run_name=f"github-{event.run_id}-{event.attempt}" if event.run_id else None,
            evidence_url=f"{page}#artifacts" if page else None,
            from_fork=event.from_fork,
            fork_event=event.name if runs_code else "",
            reported=self._earlier(reported.run, of_any_code=True) if reported is not None else None,
        )

    @cached_property
    def refs(self) -> Refs:
        """The branches as the event names them."""
        event, default = self.event, self.event.default_branch
        if default is None and self._api is not None:
            default = self._api.get(Repository, self._root).default_branch
        server = self._environ.get("GITHUB_SERVER_URL") or "https://github.com"
        return Refs(
            default_branch=default,
            branch=event.branch,
            tag=event.tag,
            target=event.base_branch,
            queue_base=event.queue_base,
            remote=Remote.by_token(f"{server}/{event.repository}.git", "x-access-token", self._token),
        )

    def tip(self, branch: str) -> str | None:
        """Ask GitHub; None without a token, and where there is no such branch."""
        if self._api is None:
            return None
        path = f"{self._root}/commits/{quote(f'heads/{branch}', safe='')}?per_page=1"
        commit = self._api.find(Commit, path, none=(NOT_FOUND, 422))
        return commit.sha if commit is not None else None

    @cached_property
    def _repository_id(self) -> int:
        return self._trigger.repository_id or self._reads().get(Repository, self._root).id

    def earlier_runs(self, asked: Asked) -> Iterator[EarlierRun]:
        """Yield the runs of the commit, then the newest of each branch and event."""
        workflow: str | int = self._own["baseline_workflow"]
        own = self.event.run_id
        if not workflow:
            if own is None:
                raise NoHistory("This job is no workflow run (GITHUB_RUN_ID), so it has no earlier ones.")
            workflow = self._reads().get(WorkflowRun, f"{self._root}/actions/runs/{own}").workflow_id
        of_commit = [{"head_sha": asked.commit}] if asked.commit is not None else []
        of_branches = [
            {"branch": branch, "event": event, "exclude_pull_requests": "true"}
            for branch in asked.branches
            for event in OWN_EVENTS
        ]
        path = f"{self._root}/actions/workflows/{quote(str(workflow), safe='')}/runs"
        for query in (*of_commit, *of_branches):
            rows = listed(self._reads(), Listing[WorkflowRun], path, {"status": "completed", **query})
            finished = (self._earlier(run) for run in rows if run.status == "completed")
            yield from before_own(finished, own, asked)

    def _earlier(self, run: WorkflowRun, *, of_any_code: bool = False) -> EarlierRun:
        # By number: anyone can open a pull request from a fork whose branch is called `main`.
        ids = {run.repository.id, run.head_repository.id if run.head_repository is not None else None}
        return EarlierRun(
            number=run.id,
            label=f"run {run.id}",
            commits=frozenset({run.head_sha}),
            branch=run.head_branch or "",
            created_at=run.created_at,
            is_own_code=run.event in OWN_EVENTS and ids == {self._repository_id},
            fetch=partial(self._fetch, run.id, of_any_code),
        )

    def _fetch(self, run_id: int, of_any_code: bool) -> bytes:
        """Download the newest artifact of a run, each of whose attempts may have left one.

        Only what is reported on may be of another repository's code.
        """
        api, name, label = self._reads(), self._settings.evidence_name, f"run {run_id}"
        try:
            path = f"{self._root}/actions/runs/{run_id}/artifacts"
            rows = listed(api, Listing[Artifact], path, {"name": name})
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise
            raise Withheld(f"Run {run_id} is listed, and GitHub does not find its artifacts.") from error
        artifact = max((row for row in rows if row.name == name), key=lambda row: row.id, default=None)
        if artifact is None:
            raise Skipped(f"Run {run_id} left no artifact `{name}`.")
        if artifact.expired:
            raise Expired(f"The artifact of run {run_id} has expired.")
        refuse_large_archive(artifact.size_in_bytes, label)
        owner = artifact.workflow_run
        if not of_any_code and owner is not None and owner.repository_id != owner.head_repository_id:
            raise Withheld(f"The artifact of run {run_id} was made by another repository's code.")
        data = api.evidence(f"{self._root}/actions/artifacts/{artifact.id}/zip", label=label)
        recorded = artifact.digest.removeprefix("sha256:") if artifact.digest is not None else None
        return checked_archive(data, recorded, label)

    def keep_evidence(self, archive: Path) -> None:
        """Upload the archive where the settings ask for it; else a step of the workflow does."""
        if not self._own["upload_evidence"]:
            return
        name = self._settings.evidence_name
        try:
            upload_artifact(name, archive, self._environ, self._connect)
        except AgentEvalError as error:
            why = f"The evidence was not uploaded: {error.message} {error.remedy}".strip()
            self.warn(why)
            self.write_summary(f"> ⚠️ {prose(why, limit=1_000)}\n")
        else:
            self.say(f"Uploaded the evidence as the artifact {name}.")

    def write_comment(self, body: Callable[[str], str]) -> Published:
        """Create or update this evaluation's comment on the pull request, where there is one."""
        event, reported = self.event, self._reported
        if reported is not None and reported.why_no_comment:
            return self._not_written(reported.why_no_comment)
        if event.pull_request is None and event.name not in _PULL_REQUEST_EVENTS:
            return Published("none")
        if event.pull_request is None:
            return self._not_written("The event's payload (GITHUB_EVENT_PATH) names no pull request.")
        if self._api is None:
            return self._not_written("There is no token: set `github-token`, or `comment: never`.")
        workflow, _, _ = self._environ.get("GITHUB_WORKFLOW_REF", "").partition("@")
        job = job_of(workflow, self._environ.get("GITHUB_JOB", ""))
        marker = Marker(self._settings.comment_id, event.head_sha, event.run_id or 0, event.attempt, job=job)
        author = self._own["comment_author"]
        comments = PullRequestComments(self._api, event.repository, event.pull_request, author)
        return self._publish(comments, marker, body, from_fork=event.from_fork and reported is None)

    @cached_property
    def _reported(self) -> ReportedRun | None:
        """The run that this job reports on, by its id, with its pull request; None where the job evaluates.

        Raises `UsageError` where a change can alter this job, or there is no finished run of a pull request
        into this repository by that id.
        """
        run_id, event = self._settings.report_run_id, self._trigger
        if run_id is None:
            return None
        if self._api is None or not self._own["baseline_workflow"]:
            lacking = "github-token" if self._api is None else "baseline.job"
            raise UsageError(
                f"`report-run-id` needs `{lacking}`.",
                remedy=f"Set `{lacking}`: a run does not say itself what it is to be compared with.",
                field=lacking,
            )
        if event.name not in _MAY_REPORT:
            raise _wrong_report(
                f"A job of `{event.name or 'no event'}` runs a workflow that the change itself may have "
                "written.",
                "Use `on: workflow_run`.",
            )
        try:
            run = self._api.get(WorkflowRun, f"{self._root}/actions/runs/{run_id}")
        except HttpError as error:
            if error.status != NOT_FOUND:
                raise
            raise _wrong_report(f"There is no workflow run {run_id} in this repository.") from error
        if run.repository.id != self._repository_id or run.event != "pull_request":
            raise _wrong_report(f"Run {run_id} is no run of a pull request into this repository.")
        if run.status != "completed":
            raise _wrong_report(f"Run {run_id} is not finished.", "Use `types: [completed]`.")
        pulls = self._pulls_of(run)
        why_none = ""
        if not pulls:
            why_none = f"No open pull request has the commit of run {run.id} as its newest one."
        elif len(pulls) > 1:
            numbers = ", ".join(str(pull.number) for pull in pulls)
            why_none = f"Run {run.id} may belong to any of the pull requests {numbers}."
        pull = pulls[0] if len(pulls) == 1 else None
        change = replace(
            event,
            # The comment's marker names the run that evaluated: of two reports that on the newer run stays.
            run_id=run.id,
            attempt=run.run_attempt,
            head_sha=run.head_sha,
            base_branch=pull.base.ref if pull is not None else event.default_branch,
            branch=None,
            tag=None,
            pull_request=pull.number if pull is not None else None,
            # As a fork's, so that only the base branch's rules count.
            from_fork=True,
        )
        return ReportedRun(run=run, event=change, why_no_comment=why_none)

    def _pulls_of(self, run: WorkflowRun) -> list[PullRequest]:
        """List the open pull requests into the repository that point at the commit and the fork of a run.

        Each is compared with the run, whatever GitHub's filter let pass.
        """
        source = run.head_repository
        if source is None or source.owner is None or not run.head_branch:
            return []
        query = {"state": "open", "head": f"{source.owner.login}:{run.head_branch}"}
        wanted = (run.head_sha, source.id, self._repository_id)
        return [
            pull
            for pull in self._reads().rows(PullRequest, f"{self._root}/pulls", max_pages=1, params=query)
            if pull.head.repo is not None and pull.base.repo is not None
            if (pull.head.sha, pull.head.repo.id, pull.base.repo.id) == wanted
        ]


@dataclass(frozen=True, kw_only=True)
class ReportedRun:
    """The finished run of a pull request that a second, trusted job reports on.

    The first job ran the code and the workflow of a fork, so nothing that it wrote says whose comment is
    written. Commit, fork and pull request come from GitHub, by the number of the run that the runner passes.
    `event` is this job's, with the change that the run evaluated. `why_no_comment` is a sentence, empty
    where a comment is written.
    """

    run: WorkflowRun
    event: GitHubEvent
    why_no_comment: str = ""


def _wrong_report(why: str, remedy: str = "Correct `report-run-id`.") -> UsageError:
    return UsageError(why, remedy=remedy, field="report-run-id")
