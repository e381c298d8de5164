"""The image under `docker run`: any user, nothing writable, no network, no capabilities; and its guide."""

import json
import os
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent_eval.errors import ExitCode
from tests.container.docker import Run, Unpacked, install
from tests.container.image import ROOT, TIMEOUT, Image
from tests.e2e.test_docs_commands import commands

pytestmark = [pytest.mark.container, pytest.mark.slow]

GUIDE = ROOT / "docs" / "guides" / "docker.md"
USER = 1001
USERS = {"root": "0:0", "a user of the runner": "1001:1001", "an arbitrary user of OpenShift": "1000740000:0"}
HARDENED = Run(arguments=(), read_only=True, offline=True, powerless=True, tmpfs=("/tmp",))
WITHOUT_HOME = ("/usr/bin/env", "--unset=HOME", "/entrypoint")
AGENT = """\
import json, os, sys
json.load(sys.stdin)
json.dump({"assistant_output": f"uid {os.getuid()}, home {os.environ.get('HOME', 'none')}"}, sys.stdout)
"""


@pytest.fixture
def unpacked(image: Image) -> Unpacked:
    return Unpacked.of(image)


def of(run: Run, workspace: Path, user: str) -> Run:
    """The run, in a workspace that belongs to this user and is mounted where it is."""
    uid, gid = map(int, user.split(":"))
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, uid, gid)
    return replace(run, user=user, workdir=str(workspace), volumes=(f"{workspace}:{workspace}",))


def with_arguments(run: Run, line: str) -> Run:
    """The run with a command line of agent-eval."""
    return replace(run, arguments=tuple(shlex.split(line)))


@pytest.mark.parametrize("run", [Run(()), HARDENED], ids=["as docker starts it", "with all taken away"])
@pytest.mark.parametrize("user", USERS.values(), ids=USERS)
def test_any_user_without_a_home_judges_a_suite(unpacked: Unpacked, workspace: Path, user: str, run: Run):
    run = of(replace(run, entrypoint=WITHOUT_HOME), workspace, user)
    done = with_arguments(run, "run suite_good.json --out runs/mine --format json").execute(unpacked)
    assert done.returncode == ExitCode.OK, done.stderr
    assert json.loads(done.stdout)["summary"]["pass_rate"] == 1
    verified = with_arguments(run, "pack verify --run runs/mine").execute(unpacked)
    assert verified.returncode == ExitCode.OK, verified.stderr
    assert {path.lstat().st_uid for path in workspace.rglob("*")} == {int(user.partition(":")[0])}


def test_a_pack_is_verified_without_a_place_for_temporary_files(unpacked: Unpacked, workspace: Path):
    run = of(Run(()), workspace, f"{USER}:{USER}")
    assert with_arguments(run, "run suite_good.json --out mine").execute(unpacked).returncode == ExitCode.OK
    run = replace(HARDENED, tmpfs=(), user=run.user, volumes=(f"{workspace}:/packs:ro",))
    done = with_arguments(run, "pack verify --run /packs/mine").execute(unpacked)
    assert done.returncode == ExitCode.OK, done.stderr


def test_an_agent_runs_with_all_taken_away(unpacked: Unpacked, workspace: Path):
    (workspace / "agent.py").write_text(AGENT)
    case = {"case_id": "a", "regex_patterns": ["^uid 1001, home none$"]}
    (workspace / "live.json").write_text(json.dumps({"dataset_id": "live", "cases": [case]}))
    run = of(replace(HARDENED, entrypoint=WITHOUT_HOME), workspace, f"{USER}:{USER}")
    line = "run live.json --agent-command 'python3 agent.py' --out mine --format json"
    done = with_arguments(run, line).execute(unpacked)
    assert done.returncode == ExitCode.OK, done.stderr
    assert json.loads(done.stdout)["summary"]["pass_rate"] == 1, done.stdout


def test_what_is_taken_away_is_really_gone(unpacked: Unpacked, workspace: Path):
    script = (
        "touch /etc/written && exit 11; touch /opt/agent-eval/written && exit 12;"
        " [ $(tail -n +3 /proc/net/dev | wc -l) = 1 ] || exit 13;"
        " grep -q 'CapBnd:.0*$' /proc/self/status || exit 14;"
        " grep -q 'NoNewPrivs:.1' /proc/self/status || exit 15; touch /tmp/written"
    )
    run = of(replace(HARDENED, entrypoint=("/bin/sh", "-c")), workspace, f"{USER}:{USER}")
    done = replace(run, arguments=(script,)).execute(unpacked)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Read-only file system") == 2
    assert not (unpacked.root / "tmp" / "written").exists()


def test_a_flag_that_docker_does_not_have_is_refused():
    with pytest.raises(SystemExit):
        Run.parse(["--readonly", "image"])


def test_commands_of_the_guide_leave_their_files_to_the_caller(image: Image, tmp_path: Path, workspace: Path):
    shown = commands(GUIDE.read_text(encoding="utf-8"))
    docker = [command for command in shown if command.text.startswith("docker ")]
    assert len(docker) >= 8
    assert {command.code for command in docker} == {0, 2}
    steps = [
        f"code=0; {command.text} || code=$?; [ $code = {command.code} ] || exit 99"
        for command in shown
        if command.text.startswith(("docker ", "export "))
    ]
    environ = install(image, tmp_path / "programs", user=USER)
    done = subprocess.run(
        ["bash", "-xuc", "\n".join(steps)], cwd=workspace, env=environ, capture_output=True, text=True,
        check=False, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "agent-eval-gate" in done.stdout
    for name in ("runs/change/manifest.json", "evaluations", "agent-eval-out"):
        assert (workspace / name).stat().st_uid == USER
    assert {path.lstat().st_uid for path in workspace.rglob("*")} == {USER}
