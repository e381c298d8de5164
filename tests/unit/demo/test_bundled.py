"""What is bundled: the demonstration's suites and the files to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.ci.config import INPUT_BY_NAME
from agent_eval.contracts import definition_digest
from agent_eval.demo.scaffold import (
    ALL,
    IGNORE,
    PLATFORMS,
    SAMPLE,
    SETTINGS,
    SUITE,
    Repository,
    Scaffold,
    StarterAgent,
    scaffold,
)
from agent_eval.demo.support_agent import INPUTS, write_suites
from agent_eval.errors import UsageError
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
    assert INPUTS.keys() <= INPUT_BY_NAME.keys()


def names(made: Scaffold, out: Path) -> list[str]:
    return [path.relative_to(out).as_posix() for path in made.written]


def test_scaffold__writes_valid_and_short_files(tmp_path: Path) -> None:
    made = scaffold(tmp_path, platforms=["github"])
    assert names(made, tmp_path) == [SETTINGS, SUITE, SAMPLE, IGNORE, ".github/workflows/agent-eval.yml"]
    report = validate_suite(tmp_path / SUITE, strict=True, require_version="1.0.0")
    assert (report.passed, report.warnings, report.case_count) == (True, [], 2)
    assert len((tmp_path / SETTINGS).read_text().splitlines()) <= 12
    assert all(len(path.read_text().splitlines()) <= 40 for path in made.written)


@pytest.mark.parametrize(
    ("remote", "there", "written", "to_add"),
    [
        (None, [], [PLATFORMS[name][0] for name in ALL], []),
        ("git@github.com:acme/shop.git", [], [".github/workflows/agent-eval.yml"], []),
        ("https://gitlab.acme.example/shop.git", [], [".gitlab-ci.yml"], []),
        (None, [".github/dependabot.yml"], [".github/workflows/agent-eval.yml"], []),
        ("git@gitlab.com:acme/shop.git", [".gitlab-ci.yml"], [".gitlab/agent-eval.yml"],
         ["Add to .gitlab-ci.yml: include: [{local: .gitlab/agent-eval.yml}]"]),
        ("https://bitbucket.org/acme/shop", ["Jenkinsfile"], [],
         ["Add to Jenkinsfile the job that `agent-eval init --ci jenkins --out DIRECTORY` writes."]),
    ],
    ids=["nothing known", "github", "gitlab", "a folder of github", "a file of gitlab", "a Jenkinsfile"],
)  # fmt: skip
def test_scaffold__writes_for_the_platform_that_the_repository_uses_and_leaves_its_files_alone(
    remote: str | None, there: list[str], written: list[str], to_add: list[str], tmp_path: Path
) -> None:
    for name in there:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    made = scaffold(tmp_path, repository=Repository(remote))
    assert names(made, tmp_path)[4:] == written
    assert made.to_add == to_add
    assert all((tmp_path / name).read_text() == "mine" for name in there)


def test_scaffold__uses_the_default_branch_and_adds_what_is_missing_to_what_git_ignores(
    tmp_path: Path,
) -> None:
    (tmp_path / IGNORE).write_text("/runs/\n*.log")
    made = scaffold(tmp_path, platforms=["github"], repository=Repository(branch="trunk"))
    assert (tmp_path / IGNORE).read_text() == "/runs/\n*.log\n/agent-eval-out/\n__pycache__/\n"
    assert yaml.safe_load(made.written[-1].read_text())[True]["push"] == {"branches": ["trunk"]}


@pytest.mark.parametrize("force", [False, True])
def test_scaffold__an_agent_of_the_users_own_is_not_taken_for_the_sample(force: bool, tmp_path: Path) -> None:
    (tmp_path / SAMPLE).write_text("mine")
    made = scaffold(tmp_path, platforms=(), force=force)
    assert (tmp_path / SAMPLE).read_text() == "mine"
    assert names(made, tmp_path) == [SETTINGS, SUITE, IGNORE]
    assert "agent" not in yaml.safe_load((tmp_path / SETTINGS).read_text())


def test_scaffold__refuses_what_is_there_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / SETTINGS).symlink_to("nowhere")
    with pytest.raises(UsageError, match=r"agent-eval\.yml") as refused:
        scaffold(tmp_path)
    assert "--force" in refused.value.remedy
    assert not (tmp_path / "suites").exists()
    scaffold(tmp_path, force=True)
    assert not (tmp_path / SETTINGS).is_symlink()


COMMIT = "0123456789" * 4


@pytest.mark.parametrize(
    ("agent", "named"),
    [
        (StarterAgent("https://agent.example/ask?who='me'"), None),
        (StarterAgent("openai:gpt-5", "OPENAI_API_KEY"), "OPENAI_API_KEY"),
        (StarterAgent('python agent.py --say "it\'s: 7"'), None),
        (StarterAgent("./agent"), None),
    ],
    ids=["address", "hosted", "quoted", "plain"],
)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_scaffold__an_agent_is_named_in_the_settings_alone_and_its_key_in_the_workflow(
    platform: str, agent: StarterAgent, named: str | None, tmp_path: Path
) -> None:
    made = scaffold(tmp_path, platforms=[platform], agent=agent, action=f"acme/agent-eval@{COMMIT}")
    text = made.written[-1].read_text()
    assert yaml.safe_load((tmp_path / SETTINGS).read_text())["agent"] == agent.value
    assert agent.value not in text
    assert not (tmp_path / SAMPLE).exists()
    if platform == "github":
        step = yaml.safe_load(text)["jobs"]["evaluate"]["steps"][1]
        assert step["uses"] == f"acme/agent-eval@{COMMIT}"
        assert list(step.get("env", ())) == ([named] if named else [])
        assert "Put here" not in text


DIGEST = "sha256:" + "4f" * 32


@pytest.mark.parametrize("platform", ["gitlab", "buildkite", "circleci", "jenkins"])
@pytest.mark.parametrize("image", [f"registry.example:5000/tools/agent-eval@{DIGEST}", "agent-eval:v1"])
def test_scaffold__names_the_image_in_place_of_the_placeholder(
    platform: str, image: str, tmp_path: Path
) -> None:
    text = scaffold(tmp_path, platforms=[platform], image=image).written[-1].read_text()
    assert text.count(image) == 1
    assert "your-organisation" not in text
    assert "Put in place" not in text


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        *(({"platforms": ["gitlab"], "image": image}, "which image") for image in ("agent-eval",
            f"agent-eval@{DIGEST[:-1]}", "agent-eval:v1 --privileged", "")),
        *(({"action": action}, "which commit of which repository") for action in ("acme/agent-eval",
            "acme/agent-eval@v1", f"agent-eval@{COMMIT}", "")),
        ({"platforms": ["gitlab", "gitlab-pip"], "force": True}, r"gitlab and gitlab-pip: \.gitlab-ci\.yml"),
    ],
)  # fmt: skip
def test_scaffold__refuses_what_names_no_image_no_commit_or_one_file_twice(
    asked: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=problem):
        scaffold(tmp_path, **asked)
    assert not list(tmp_path.iterdir())


def test_scaffold__an_agents_suite_is_valid_and_has_no_recording(tmp_path: Path) -> None:
    scaffold(tmp_path, platforms=(), agent=StarterAgent("python agent.py"))
    suite = tmp_path / SUITE
    report = validate_suite(suite, strict=True, require_version="1.0.0")
    assert (report.passed, report.warnings) == (True, [])
    assert all("trace" not in raw for raw, _ in open_suite(suite).cases())
