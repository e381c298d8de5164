"""What is bundled: the demonstration's suites and the files to start from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from agent_eval.contracts import definition_digest
from agent_eval.contracts.policy import GatePolicy
from agent_eval.demo.scaffold import ALL, PLATFORMS, SCAFFOLD, StarterAgent, scaffold
from agent_eval.demo.support_agent import INPUTS, write_suites
from agent_eval.errors import StorageError, UsageError
from agent_eval.judges.catalog import DEFAULT_JUDGES, load_judges
from agent_eval.operations.gate import read_policy
from agent_eval.suites.reader import open_suite
from agent_eval.suites.validate import validate_suite

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            files("agent_eval.demo") / "suites" / "support_agent.baseline.json",
            files("agent_eval.demo") / "suites" / "support_agent.candidate.json",
        ),
        (REPOSITORY / "examples" / "suite_good.json", REPOSITORY / "examples" / "suite_bad.json"),
    ],
    ids=["demo", "examples"],
)
def test_both_recordings_ask_the_same_and_answer_differently(one: Path, other: Path) -> None:
    before, after = ([raw for raw, _ in open_suite(Path(path)).cases()] for path in (one, other))
    assert [definition_digest(raw) for raw in before] == [definition_digest(raw) for raw in after]
    assert [raw["trace"] for raw in before] != [raw["trace"] for raw in after]
    for path in (one, other):
        report = validate_suite(Path(path), strict=True)
        assert (report.passed, report.warnings) == (True, [])


def test_the_suites_are_written_under_one_name(tmp_path: Path) -> None:
    before, after = write_suites(tmp_path)
    assert before.name == after.name
    assert before != after
    assert open_suite(before).header.dataset_id == open_suite(after).header.dataset_id == "support-agent"


def test_the_demonstration_asks_the_job_only_for_what_it_knows() -> None:
    from agent_eval.ci.config import INPUT_BY_NAME

    assert set(INPUTS) <= set(INPUT_BY_NAME)


def test_scaffold__writes_valid_files(tmp_path: Path) -> None:
    written = scaffold(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in written] == [
        *SCAFFOLD,
        ".github/workflows/agent-eval.yml",
    ]
    report = validate_suite(tmp_path / "suites/starter_suite.json", strict=True, require_version="1.0.0")
    assert (report.passed, report.warnings) == (True, [])
    load_judges(DEFAULT_JUDGES, json.loads((tmp_path / "config/judges.json").read_text()))
    limits = read_policy(tmp_path / "config/gate.yml").thresholds
    assert {name: limit for name, limit in limits.to_json().items() if limit is not None} == {
        "max_regressed_cases": 0
    }


def test_scaffold__writes_the_file_of_every_platform_asked_for(tmp_path: Path) -> None:
    scaffold(tmp_path, platforms=ALL)
    for place in (".gitlab-ci.yml", ".buildkite/pipeline.yml", ".circleci/config.yml"):
        assert "agent-eval ci" in (tmp_path / place).read_text()
    assert "pipeline {" in (tmp_path / "Jenkinsfile").read_text()
    scaffold(tmp_path / "other", platforms=["gitlab"])
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == [
        ".agent_eval",
        ".gitlab-ci.yml",
        "agent-eval.yml",
        "config",
        "suites",
    ]


def test_scaffold__its_policy_is_that_of_pull_requests_and_shows_every_key(tmp_path: Path) -> None:
    scaffold(tmp_path)
    path = tmp_path / "config/gate.yml"
    assert read_policy(path) == GatePolicy(preset="pull-request")
    text = path.read_text()
    assert [key for key in GatePolicy.model_fields if f"{key}:" not in text] == []


def test_scaffold__the_examples_in_its_policy_load_when_they_are_uncommented(tmp_path: Path) -> None:
    scaffold(tmp_path)
    path = tmp_path / "config/gate.yml"
    text = re.sub(r"^#(?=  )|^# (?=[a-z_]+: )", "", path.read_text(), flags=re.MULTILINE)
    path.write_text(re.sub(r"^quarantine: \[\]$", "quarantine:", text, flags=re.MULTILINE))
    policy = read_policy(path)
    assert [name for name in GatePolicy.model_fields if getattr(policy, name) is None] == []
    assert [held.case for held in policy.quarantine] == ["refund-7"]


def test_scaffold__refuses_what_is_there_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "judges.json").symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"config/judges\.json") as refused:
        scaffold(tmp_path)
    assert "--force" in refused.value.remedy
    assert not (tmp_path / "suites").exists()
    scaffold(tmp_path, force=True)
    assert not (tmp_path / "config" / "judges.json").is_symlink()


def test_scaffold__below_a_file_is_not_possible(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        scaffold(tmp_path / "file")


def test_scaffold__editors_find_a_schema_that_the_files_satisfy(tmp_path: Path) -> None:
    scaffold(tmp_path)
    for name in ("suites/starter_suite.json", "config/gate.yml"):
        path = tmp_path / name
        text = path.read_text()
        (reference,) = re.findall(r'\$schema"?[=:] ?"?([^\s",]+)', text)
        schema = json.loads((path.parent / reference).read_text())
        jsonschema.validate(yaml.safe_load(text), schema)


COMMIT = "0123456789" * 4


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    "agent",
    [
        StarterAgent("agent-url", "https://agent.example/ask?who='me'"),
        StarterAgent("agent", "openai:gpt-5", "OPENAI_API_KEY"),
    ],
    ids=["address", "hosted"],
)
def test_scaffold__the_file_of_ci_names_an_agent_that_the_settings_may_not_name(
    platform: str, agent: StarterAgent, tmp_path: Path
) -> None:
    *_, written = scaffold(tmp_path, platforms=[platform], agent=agent, action=f"acme/agent-eval@{COMMIT}")
    text = written.read_text()
    assert "recorded traces" not in text
    if platform == "github":
        step = yaml.safe_load(text)["jobs"]["evaluate"]["steps"][1]
        assert step["uses"] == f"acme/agent-eval@{COMMIT}"
        assert step["with"] == {agent.option: agent.value}
        assert list(step.get("env", ())) == [agent.key] * bool(agent.key)
        assert "Put here" not in text
    elif platform.startswith("jenkins"):
        value = agent.value.replace("'", "\\'")
        assert f"\n        {agent.variable} = '{value}'\n" in text
    else:
        assert variables(platform, yaml.safe_load(text))[agent.variable] == agent.value
    assert agent.value not in (tmp_path / "agent-eval.yml").read_text()


def variables(platform: str, pipeline: dict[str, Any]) -> dict[str, str]:
    """The variables of the job in a platform's file."""
    where: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
        "gitlab": lambda read: read["agent-eval"]["variables"],
        "buildkite": lambda read: read["env"],
        "circleci": lambda read: read["jobs"]["agent-eval"]["environment"],
    }
    return where[platform.removesuffix("-pip")](pipeline)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_scaffold__a_program_is_named_in_the_settings_alone(platform: str, tmp_path: Path) -> None:
    command = 'python agent.py --say "it\'s"'
    agent = StarterAgent("agent-command", command, in_settings=True)
    *_, written = scaffold(tmp_path, platforms=[platform], agent=agent)
    assert yaml.safe_load((tmp_path / "agent-eval.yml").read_text()) == {
        "suites": "suites/*.json",
        "judges": "config/judges.json",
        "policy": "config/gate.yml",
        "agent": command,
    }
    assert "recorded traces" not in written.read_text()
    assert "agent.py" not in written.read_text()


DIGEST = "sha256:" + "4f" * 32


@pytest.mark.parametrize("platform", ["gitlab", "buildkite", "circleci", "jenkins"])
@pytest.mark.parametrize("image", [f"registry.example:5000/tools/agent-eval@{DIGEST}", "agent-eval:v1"])
def test_scaffold__names_the_image_in_place_of_the_placeholder(
    platform: str, image: str, tmp_path: Path
) -> None:
    *_, written = scaffold(tmp_path, platforms=[platform], image=image)
    text = written.read_text()
    assert text.count(image) == 1
    assert "your-organisation" not in text
    assert "Put in place" not in text


@pytest.mark.parametrize(
    "image", ["agent-eval", f"agent-eval@{DIGEST[:-1]}", "agent-eval:v1 --privileged", ""]
)
def test_scaffold__an_image_has_a_tag_or_a_digest(image: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which image"):
        scaffold(tmp_path, platforms=["gitlab"], image=image)
    assert not list(tmp_path.iterdir())


def test_scaffold__refuses_two_variants_for_one_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gitlab and gitlab-pip are the same file, \.gitlab-ci\.yml"):
        scaffold(tmp_path, platforms=["gitlab", "gitlab-pip"], force=True)
    assert not list(tmp_path.iterdir())


def test_scaffold__an_agents_suite_is_valid_and_has_no_recording(tmp_path: Path) -> None:
    suite, *_ = scaffold(tmp_path, platforms=(), agent=StarterAgent("agent-command", "python agent.py"))
    report = validate_suite(suite, strict=True, require_version="1.0.0")
    assert (report.passed, report.warnings) == (True, [])
    assert all("trace" not in raw for raw, _ in open_suite(suite).cases())


@pytest.mark.parametrize("action", ["acme/agent-eval", "acme/agent-eval@v1", f"agent-eval@{COMMIT}", ""])
def test_scaffold__an_action_is_pinned_by_commit(action: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="which commit of which repository"):
        scaffold(tmp_path, action=action)
    assert not list(tmp_path.iterdir())


def test_the_readme_shows_the_workflow_that_init_writes() -> None:
    bundled = (files("agent_eval.demo") / "starter" / "workflow.yml").read_text(encoding="utf-8")
    shown = (REPOSITORY / "README.md").read_text(encoding="utf-8").split("<!-- workflow -->\n```yaml\n")[1]
    assert shown.split("```\n")[0] == bundled
    assert (REPOSITORY / "ci-templates" / "github.yml").read_text(encoding="utf-8") == bundled
