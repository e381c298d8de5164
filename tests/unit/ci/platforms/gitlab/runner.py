"""A simulated GitLab runner: a checkout, the predefined variables, and the artifacts that a job leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_eval.ci.platforms.gitlab import GitLab
from tests.fakes.gitlab import FORK, JOB_TOKEN, PROJECT, TOKEN, WEB, FakeGitLab
from tests.unit.ci.platforms.build_runner import EVIDENCE, BuildRunner, Step


class GitLabRunner(BuildRunner):
    """One project's runner. The checkout has two commits on main, `earlier` and `base`.

    Args:
        root: Where the checkout is made.
        gitlab: The GitLab it talks to.
    """

    def __init__(self, root: Path, gitlab: FakeGitLab) -> None:
        super().__init__(root, GitLab, (TOKEN, JOB_TOKEN))
        self.gitlab = gitlab
        self._job = 90_000

    def push(
        self, pipeline: int, *, branch: str = "main", commit: str = "", source: str = "push", **inputs: str
    ) -> Step:
        """The job of a push; its artifacts are kept."""
        commit = commit or self.base
        self.repository.check_out(commit)
        if pipeline not in self.gitlab.pipelines:
            self.gitlab.add_pipeline(pipeline, sha=commit, ref=branch)
        step = self._start(pipeline, {"CI_COMMIT_BRANCH": branch, "CI_PIPELINE_SOURCE": source}, inputs)
        self.gitlab.add_job(pipeline, self.artifacts())
        return step

    def merge_request(
        self,
        pipeline: int = 500,
        *,
        source: int = PROJECT,
        runs_in: int = PROJECT,
        environ: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """The job of merge request 7 into main, for a commit that is made where none was."""
        if self.repository.git("rev-parse", "HEAD") in (self.base, self.earlier):
            self.repository.branch("topic", self.base)
            self.repository.commit()
        self.gitlab.add_pipeline(pipeline, source="merge_request_event", ref="refs/merge-requests/7/head")
        variables = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_PROJECT_ID": str(runs_in),
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
            "CI_MERGE_REQUEST_PROJECT_URL": WEB,
            "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": str(source),
            "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self.base,
            "CI_MERGE_REQUEST_EVENT_TYPE": "detached",
            "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "",
            **(environ or {}),
        }
        return self._start(pipeline, variables, inputs)

    def artifacts(self) -> dict[str, bytes]:
        """The files below the output directory, by path."""
        top = self.repository.top
        paths = [path for path in (top / "agent-eval-out").rglob("*") if path.is_file()]
        return {path.relative_to(top).as_posix(): path.read_bytes() for path in paths}

    def _start(self, pipeline: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        self._job += 1
        self.gitlab.branches["main"] = self.base
        job = {
            "GITLAB_CI": "true",
            "CI_PROJECT_ID": str(PROJECT),
            "CI_PROJECT_DIR": str(self.repository.top),
            "CI_API_V4_URL": self.gitlab.url,
            "CI_JOB_TOKEN": JOB_TOKEN,
            "CI_JOB_ID": str(self._job),
            "CI_JOB_NAME": "agent-eval",
            "CI_JOB_URL": f"{WEB}/-/jobs/{self._job}",
            "CI_PIPELINE_ID": str(pipeline),
            "CI_COMMIT_SHA": "c" * 40,
            "CI_DEFAULT_BRANCH": "main",
        }
        step = self.start({**job, **variables}, {"gitlab_token": TOKEN, **inputs})
        assert not any(token in "".join(self.gitlab.bodies()) for token in (TOKEN, JOB_TOKEN))
        return step


__all__ = ["EVIDENCE", "FORK", "GitLabRunner", "Step"]
