"""A simulated Buildkite agent: a checkout, its variables, and a `buildkite-agent` that keeps annotations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_eval.ci.platforms.buildkite import Buildkite
from tests.fakes.buildkite import AGENT_TOKEN, TOKEN, WEB, FakeBuildkite
from tests.unit.ci.platforms.build_runner import EVIDENCE, BuildRunner, Step

FORK = "https://git.example/mallory/shop"
_AGENT = """\
#!/bin/sh
[ "$BUILDKITE_AGENT_ACCESS_TOKEN" = "{token}" ] || {{ echo "no token" >&2; exit 1; }}
[ "$1 $2 $4" = "annotate --context --style" ] || {{ echo "not annotate: $*" >&2; exit 1; }}
echo "$5" > "{left}/$3.style"
cat > "{left}/$3.md"
"""


class BuildkiteRunner(BuildRunner):
    """One pipeline's agent. The checkout has two commits on main, `earlier` and `base`.

    Args:
        root: Where the checkout and the programs are made.
        buildkite: The Buildkite it talks to.
    """

    def __init__(self, root: Path, buildkite: FakeBuildkite) -> None:
        super().__init__(root, Buildkite, (TOKEN, AGENT_TOKEN))
        self.buildkite = buildkite
        self.annotations, self._programs = root / "annotations", root / "bin"
        for directory in (self.annotations, self._programs):
            directory.mkdir()
        agent = self._programs / "buildkite-agent"
        agent.write_text(_AGENT.format(token=AGENT_TOKEN, left=self.annotations))
        agent.chmod(0o755)

    def push(self, number: int, *, commit: str = "", source: str = "webhook", **inputs: str) -> Step:
        """The build of a push to main; its evidence is uploaded."""
        commit = commit or self.base
        self.repository.check_out(commit)
        if number not in self.buildkite.builds:
            self.buildkite.add_build(number, commit=commit)
        variables = {"BUILDKITE_BRANCH": "main", "BUILDKITE_COMMIT": commit, "BUILDKITE_SOURCE": source}
        step = self._start(number, variables, inputs)
        self.buildkite.add_artifact(number, EVIDENCE, self.evidence())
        return step

    def pull_request(
        self,
        number: int = 500,
        *,
        source: str | None = None,
        environ: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> Step:
        """The build of pull request 7 into main."""
        head = self.change()
        self.buildkite.add_build(
            number, branch="topic", commit=head, state="running", pull_request={"id": "7"}
        )
        variables = {
            "BUILDKITE_BRANCH": "topic",
            "BUILDKITE_COMMIT": head,
            "BUILDKITE_PULL_REQUEST": "7",
            "BUILDKITE_PULL_REQUEST_BASE_BRANCH": "main",
            "BUILDKITE_PULL_REQUEST_REPO": str(self.repository.server) if source is None else source,
            **(environ or {}),
        }
        return self._start(number, variables, inputs)

    def annotation(self) -> tuple[str, str]:
        """Style and body of the annotation; empty for none."""
        left = [*self.annotations.glob("*.style"), *self.annotations.glob("*.md")]
        return (left[0].read_text().strip(), left[1].read_text()) if left else ("", "")

    def _start(self, number: int, variables: Mapping[str, str], inputs: Mapping[str, str]) -> Step:
        given = {"buildkite_token": TOKEN, "buildkite_api_url": self.buildkite.url, **inputs}
        job = {
            "PATH": f"{self._programs}:{self.repository.environ['PATH']}",
            "BUILDKITE": "true",
            "BUILDKITE_ORGANIZATION_SLUG": "acme",
            "BUILDKITE_PIPELINE_SLUG": "shop",
            "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "main",
            "BUILDKITE_BUILD_NUMBER": str(number),
            "BUILDKITE_BUILD_URL": f"{WEB}/builds/{number}",
            "BUILDKITE_JOB_ID": f"0190a3b4-{number}",
            "BUILDKITE_REPO": str(self.repository.server),
            "BUILDKITE_PULL_REQUEST": "false",
            "BUILDKITE_AGENT_ACCESS_TOKEN": AGENT_TOKEN,
        }
        step = self.start({**job, **variables}, given)
        assert not any(token in self.annotation()[1] for token in (TOKEN, AGENT_TOKEN))
        return step
