"""A simulated job of CircleCI."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_eval.ci.platforms.circleci import CircleCI
from tests.fakes.circleci import SLUG, TOKEN, FakeCircleCI, identity
from tests.unit.ci.platforms.build_runner import EVIDENCE, BuildRunner, Step


class CircleCIRunner(BuildRunner):
    """Jobs of one project."""

    def __init__(self, root: Path, circleci: FakeCircleCI) -> None:
        super().__init__(root, CircleCI, (TOKEN,))
        self.circleci = circleci

    def push(self, number: int, *, commit: str = "", **inputs: str) -> Step:
        """The pipeline of a push to main; its artifacts are stored."""
        commit = commit or self.base
        self.repository.check_out(commit)
        if number not in self.circleci.pipelines:
            self.circleci.add_pipeline(number, source={"revision": commit})
        step = self._job(number, {"CIRCLE_BRANCH": "main", "CIRCLE_SHA1": commit}, inputs)
        self.circleci.add_job(number, {EVIDENCE: self.evidence()})
        return step

    def branch(self, number: int = 500, *, environ: Mapping[str, str] | None = None, **inputs: str) -> Step:
        """The pipeline of a branch."""
        head = self.change()
        self.circleci.add_pipeline(number, source={"revision": head, "branch": "topic"})
        return self._job(number, {"CIRCLE_BRANCH": "topic", "CIRCLE_SHA1": head, **(environ or {})}, inputs)

    def _job(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        given = {
            "circleci_token": TOKEN,
            "circleci_project_slug": SLUG,
            "circleci_api_url": self.circleci.url,
            **inputs,
        }
        job = {
            "CIRCLECI": "true",
            "CIRCLE_REPOSITORY_URL": str(self.repository.server),
            "CIRCLE_JOB": "agent-eval",
            "CIRCLE_BUILD_NUM": "9000",
            "CIRCLE_BUILD_URL": "https://circleci.com/gh/acme/shop/9000",
            "CIRCLE_PIPELINE_ID": identity(f"pipeline {number}"),
        }
        return self.start({**job, **variables}, given)
