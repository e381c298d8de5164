"""The image that GitHub builds and runs: what is in it, and the main job inside it."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest

from agent_eval.errors import ExitCode
from tests.container.image import Image

pytestmark = [pytest.mark.container, pytest.mark.slow]

MEGABYTE = 1_000_000
LARGEST = 300 * MEGABYTE
NOT_NEEDED = ("gcc", "cc", "make", "git", "pip-compile", "pytest")


def job(workspace: Path, tmp_path: Path, **inputs: str) -> dict[str, object]:
    """Keyword arguments of `Image.run` for a job on a push: the runner's files and `INPUT_` variables."""
    commands = tmp_path / f"commands-{uuid.uuid4().hex}"
    commands.mkdir()
    for name in ("output", "summary"):
        (commands / name).touch()
    environ = {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_API_URL": "http://127.0.0.1:9",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_OUTPUT": "/github/commands/output",
        "GITHUB_REF": "refs/heads/main",
        "GITHUB_REPOSITORY": "octo/agent",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_ID": "7",
        "GITHUB_SERVER_URL": "http://127.0.0.1:9",
        "GITHUB_SHA": "0" * 40,
        "GITHUB_STEP_SUMMARY": "/github/commands/summary",
        "GITHUB_WORKSPACE": "/github/workspace",
        "HOME": "/github/home",
        **{f"INPUT_{name.upper().replace('_', '-')}": value for name, value in inputs.items()},
    }
    return {"workspace": workspace, "environ": environ, "mounts": {commands: "/github/commands"}}


def written(arguments: dict[str, object], name: str) -> str:
    """What the job wrote into one of the runner's files."""
    (commands,) = arguments["mounts"]
    return (commands / name).read_text(encoding="utf-8")


def test_it_holds_only_what_runs_and_stays_small(image: Image):
    files = {path: path.lstat() for path in image.root.rglob("*") if not path.is_dir() or path.is_symlink()}
    size = sum(status.st_blocks * 512 for status in {s.st_ino: s for s in files.values()}.values())
    print(f"unpacked: {size / MEGABYTE:.0f} MB")
    assert size <= LARGEST
    programs = {path.name for path in files if path.parent.name == "bin"}
    assert programs.isdisjoint(NOT_NEEDED)
    assert not [path for path in files if path.suffix == ".whl" and "python-wheels" not in path.parts]
    assert not (image.root / "build").exists()


def test_it_starts_the_entrypoint_itself_and_sets_neither_user_nor_directory(image: Image):
    assert image.config["Entrypoint"] == ["/entrypoint"]
    assert not image.config.get("User")
    assert image.config.get("WorkingDir", "/") in ("", "/")


def test_arguments_are_those_of_the_command_line(image: Image, workspace: Path):
    done = image.run(["--help"], workspace=workspace)
    assert done.returncode == ExitCode.OK
    assert "ci" in done.stdout


AGENT = """\
import json, os, sys
json.load(sys.stdin)
with open("/etc/installed-for-the-agent") as installed:
    said = installed.read()
said += f" in {sys.prefix}, token: {'INPUT_GITHUB-TOKEN' in os.environ}"
json.dump({"assistant_output": said}, sys.stdout)
"""


def test_an_agent_runs_with_what_was_set_up_and_the_python_of_the_base(
    image: Image, workspace: Path, tmp_path: Path
):
    (workspace / "agent.py").write_text(AGENT)
    case = {"case_id": "a", "regex_patterns": ["^ready in /usr, token: False$"]}
    (workspace / "live.json").write_text(json.dumps({"dataset_id": "live", "cases": [case]}))
    inputs = {
        "suite": "live.json",
        "setup_command": "set -u\nprintf ready > /etc/installed-for-the-agent",
        "agent_command": "python3 agent.py",
        "baseline": "none",
        "min_pass_rate": "1",
        "github_token": "ghs_not_a_token",
    }
    step = job(workspace, tmp_path, **inputs)
    done = image.run([], **step)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "passed" in written(step, "output")


def test_the_main_job_passes_then_fails_against_its_baseline_and_leaves_nothing_of_root(
    image: Image, workspace: Path, tmp_path: Path
):
    first = job(
        workspace, tmp_path, suite="suite_good.json", baseline="none", min_pass_rate="1", out="a/first"
    )
    done = image.run([], **first)
    assert done.returncode == ExitCode.OK, done.stdout + done.stderr
    assert "outcome" in written(first, "output")
    (pack,) = {path.parent for path in (workspace / "a/first").rglob("manifest.json")}

    (workspace / "suite_good.json").unlink()
    (workspace / "suite_bad.json").rename(workspace / "suite_good.json")
    baseline = str(pack.relative_to(workspace))
    second = job(workspace, tmp_path, suite="suite_good.json", baseline=baseline, max_regressed_cases="0")
    done = image.run([], **second)
    assert done.returncode == ExitCode.NO, done.stdout + done.stderr
    assert written(second, "summary").strip()

    assert {path.lstat().st_uid for path in workspace.rglob("*")} == {1001}


def test_it_runs_as_somebody_who_is_not_root(image: Image, workspace: Path):
    arguments = ["run", "--suite", "suite_good.json", "--out", "runs/mine"]
    done = image.run(arguments, workspace=workspace, user="1001:1001")
    assert done.returncode == ExitCode.OK, done.stderr
    assert (workspace / "runs/mine/manifest.json").stat().st_uid == 1001


def test_an_exit_code_of_a_wrong_request_is_passed_on(image: Image, workspace: Path, tmp_path: Path):
    wrong = job(workspace, tmp_path, suite="suite_good.json", max_regressed_cases="many")
    done = image.run([], **wrong)
    assert done.returncode == ExitCode.WRONG_REQUEST
    assert "max-regressed-cases" in done.stdout + done.stderr


def test_a_folder_that_may_not_be_written_is_said_and_exits_4(image: Image, workspace: Path):
    os.chmod(workspace, 0o555)
    done = image.run(
        ["run", "--suite", "suite_good.json", "--out", "runs/mine"], workspace=workspace, user="1001:1001"
    )
    assert done.returncode == ExitCode.NOT_EVALUABLE
    assert '"storage_error"' in done.stderr
