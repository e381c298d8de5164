"""What each platform shows of each exit code: the templates do it, and the page says it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.errors import ExitCode

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "ci-templates"
NOT_SETTLED = int(ExitCode.INCONCLUSIVE)
COLUMNS = ("Exit code", "GitHub", "GitLab", "Buildkite", "CircleCI", "Jenkins")


def template(name: str) -> Any:
    return yaml.safe_load((TEMPLATES / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("gitlab*.yml")))
def test_gitlab_softens_no_exit_code(name: str) -> None:
    jobs = [job for job in template(name).values() if isinstance(job, dict) and "script" in job]
    assert jobs
    assert not any("allow_failure" in job for job in jobs)


def deciding(step: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps that decide: this one, or of those that it uploads the one that runs `agent-eval ci`."""
    if "pipeline upload" not in str(step.get("command")):
        return [step]
    uploaded = step["command"].split("\n", 1)[1].rsplit("END", 1)[0].replace("$$", "$")
    return [inner for inner in yaml.safe_load(uploaded)["steps"] if "agent-eval ci" in str(inner["command"])]


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("buildkite*.yml")))
def test_buildkite_softens_no_exit_code(name: str) -> None:
    steps = [step for each in template(name)["steps"] for step in deciding(each)]
    assert steps
    assert not any("soft_fail" in step for step in steps)


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("Jenkinsfile*")))
def test_jenkins_fails_on_any_answer_but_success_and_says_which_could_not_tell(name: str) -> None:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    assert re.search(
        rf"if \(code == {NOT_SETTLED}\) {{ error\([^)]*\) }}\s*else if \(code != 0\) {{ error\(", text
    )
    assert "unstable(" not in text


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("circleci*.yml")))
def test_circleci_softens_no_exit_code(name: str) -> None:
    text = (TEMPLATES / name).read_text(encoding="utf-8")
    assert "|| true" not in text
    assert not re.search(r"exit 0|when: on_fail", text)


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("github*.yml")))
def test_github_hides_no_failure(name: str) -> None:
    assert "continue-on-error" not in (TEMPLATES / name).read_text(encoding="utf-8")


def test_the_page_has_a_row_for_each_exit_code() -> None:
    text = (ROOT / "docs" / "guides" / "outside-ci.md").read_text(encoding="utf-8")
    part = text.partition("## Exit codes\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in part.splitlines()
        if line.startswith("|")
    ]
    assert tuple(rows[0]) == COLUMNS
    assert [row[0].partition(" ")[0] for row in rows[2:]] == [str(int(code)) for code in ExitCode]
    assert all(len(row) == len(COLUMNS) and all(row) for row in rows[2:])
    assert all(row[1:] == ["failure", "failed", "failed", "failed", "failure"] for row in rows[3:])
