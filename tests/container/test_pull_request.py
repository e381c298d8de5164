"""The main job inside the image, against a localhost GitHub: a pull request is held to what main left."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.container.image import Image
from tests.e2e.runner import PULL, Runner, orders
from tests.fakes.contract import Contract
from tests.fakes.github import FakeGitHub

pytestmark = [pytest.mark.container, pytest.mark.slow]

OWNER = 1001


class ContainerRunner(Runner):
    """A runner whose step is the image, as root in a workspace of somebody else."""

    def __init__(self, root: Path, github: FakeGitHub, image: Image) -> None:
        super().__init__(root, github)
        self.image = image
        os.chown(self.workspace, OWNER, OWNER)

    def execute(self, environ: dict[str, str], command: tuple[str, ...]) -> tuple[int, str]:
        """Run the image's entrypoint instead of `command`."""
        # Mounted where they are, so that the runner's paths hold inside as well.
        binds = {self.root: str(self.root)}
        done = self.image.execute([], binds, str(self.workspace), environ)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub(Contract("github")) as server:
        yield server
    assert server.violations == []


def test_a_worse_agent_gets_a_comment_and_fails(tmp_path: Path, github: FakeGitHub, image: Image):
    runner = ContainerRunner(tmp_path, github, image)
    runner.write_suite(*orders())
    main = runner.push(min_pass_rate="0.5")
    assert (main.code, main.outcome) == (0, "no-baseline"), main.log
    runner.upload(main, 400)

    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request(max_regressed_cases="0")
    assert (step.code, step.outcome) == (1, "failed"), step.log
    assert step.outputs["baseline-run-id"] == "400"
    assert step.outputs["regressed-cases"] == "1"
    [comment] = github.bodies(PULL)
    assert "order-2" in comment
    assert "order-2" in step.summary
    made = (runner.workspace / "suite.json", runner.workspace / ".git")
    written = [path for path in runner.workspace.rglob("*") if not {path, *path.parents} & {*made}]
    assert {path.lstat().st_uid for path in written} == {OWNER}


AGENT = """\
import json, os, sys
json.load(sys.stdin)
with open("/etc/installed-for-the-agent") as installed:
    said = installed.read()
said += f" in {sys.prefix}, token: {'INPUT_GITHUB-TOKEN' in os.environ}"
json.dump({"assistant_output": said}, sys.stdout)
"""


def test_an_agent_runs_with_its_setup_and_the_bases_python(tmp_path: Path, github: FakeGitHub, image: Image):
    runner = ContainerRunner(tmp_path, github, image)
    runner.commits_files = True
    (runner.workspace / "agent.py").write_text(AGENT)
    case = {"case_id": "a", "regex_patterns": ["^ready in /usr, token: False$"]}
    (runner.workspace / "suite.json").write_text(json.dumps({"dataset_id": "live", "cases": [case]}))
    step = runner.push(
        setup_command="set -u\nprintf ready > /etc/installed-for-the-agent",
        agent_command="python3 agent.py",
        min_pass_rate="1",
    )
    assert (step.code, step.outcome) == (0, "no-baseline"), step.log
    assert step.outputs["pass-rate"] == "1", step.log
