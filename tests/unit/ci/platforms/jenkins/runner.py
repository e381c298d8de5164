"""A simulated build of Jenkins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_eval.ci.platforms.jenkins import Jenkins
from tests.fakes.jenkins import FOLDER, LOGIN, TOKEN, FakeJenkins
from tests.unit.ci.platforms.build_runner import BuildRunner, Step


class JenkinsRunner(BuildRunner):
    """Builds of one multibranch project in a folder."""

    def __init__(self, root: Path, jenkins: FakeJenkins) -> None:
        super().__init__(root, Jenkins, (TOKEN, LOGIN))
        self.jenkins = jenkins

    def push(self, number: int, *, commit: str = "", **inputs: str) -> Step:
        """A build of main; its evidence is archived."""
        commit = commit or self.base
        self.repository.check_out(commit)
        step = self._build("main", number, {"BRANCH_NAME": "main", "GIT_COMMIT": commit}, inputs)
        self.jenkins.add_build(f"{FOLDER}/job/main", number, commit, self.evidence())
        return step

    def pull_request(self, *, environ: Mapping[str, str] | None = None, **inputs: str) -> Step:
        """The build of pull request 12 into main."""
        variables = {
            "BRANCH_NAME": "PR-12",
            "CHANGE_ID": "12",
            "CHANGE_TARGET": "main",
            "GIT_COMMIT": self.change(),
            **(environ or {}),
        }
        return self._build("PR-12", 3, variables, inputs)

    def _build(self, job: str, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        address = f"{self.jenkins.url}{FOLDER}/job/{job}/"
        build = {
            "GIT_URL": str(self.repository.server),
            "JENKINS_URL": f"{self.jenkins.url}/ci/",
            "JOB_URL": address,
            "BUILD_NUMBER": str(number),
            "BUILD_URL": f"{address}{number}/",
        }
        return self.start({**build, **variables}, {"jenkins_user": "ci", "jenkins_token": TOKEN, **inputs})
