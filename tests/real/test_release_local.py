"""scripts/release_local.sh builds and tries what a release publishes, from the commit and nothing else."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent_eval import __version__
from tests.contract.test_distribution import build_distributions
from tests.contract.test_locks import pins
from tests.extent import OTHERS, unavailable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TIMEOUT = 900
IDENTITY = ("-c", "user.name=releaser", "-c", "user.email=releaser@example.com")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A commit of the tracked files as they are now, with the environment of this checkout."""
    place = tmp_path / "checkout"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name)
    (place / ".venv" / "bin").mkdir(parents=True)
    for program in ("python", "agent-eval"):
        (place / ".venv" / "bin" / program).write_text(
            f'#!/bin/sh\nexec {Path(sys.executable).parent}/{program} "$@"\n', encoding="utf-8"
        )
        (place / ".venv" / "bin" / program).chmod(0o755)
    subprocess.run(["git", "init", "--quiet"], cwd=place, check=True)
    subprocess.run(["git", "add", "."], cwd=place, check=True)
    subprocess.run(["git", *IDENTITY, "commit", "--quiet", "--message", "all"], cwd=place, check=True)
    return place


def release(checkout: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Call the script."""
    return subprocess.run(
        ["scripts/release_local.sh", str(out)], cwd=checkout, capture_output=True, text=True, check=False,
        timeout=TIMEOUT,
    )  # fmt: skip


def test_what_differs_from_the_commit_is_not_released(checkout: Path, tmp_path: Path):
    (checkout / "agent_eval" / "forgotten.py").touch()
    done = release(checkout, tmp_path / "dist")
    assert (done.returncode, "commit or put away" in done.stderr) == (1, True), done.stderr
    assert not (tmp_path / "dist").exists()


@OTHERS
def test_wheel_source_bill_of_materials_and_checksums_are_built_and_tried(checkout: Path, tmp_path: Path):
    out = tmp_path / "dist"
    done = release(checkout, out)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "runs, compares and decides" in done.stdout
    name = f"agent_eval_gate-{__version__}"
    expected = {
        f"{name}-py3-none-any.whl", f"{name}.tar.gz", "agent-eval.cdx.json", "notes.md", "runtime.lock",
    }  # fmt: skip
    assert {path.name for path in out.iterdir()} == {*expected, "SHA256SUMS"}
    sums = dict(line.split("  ")[::-1] for line in (out / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in expected}
    names = zipfile.ZipFile(out / f"{name}-py3-none-any.whl").namelist()
    assert "agent_eval/schemas/suite.schema.json" in names
    bill = json.loads((out / "agent-eval.cdx.json").read_text(encoding="utf-8"))
    components = {component["name"].lower().replace("_", "-") for component in bill["components"]}
    assert components - {"agent-eval-gate"} == set(pins("runtime.lock"))
    tags = subprocess.run(["git", "tag", "--list"], cwd=checkout, capture_output=True, check=True)
    assert tags.stdout == b""


# The wheel as uvx and pipx run it: an environment for one command, dependencies from the package index

RUNNERS = {"uvx": ["--from"], "pipx": ["run", "--spec"]}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout."""
    (built,) = build_distributions(tmp_path_factory.mktemp("distribution")).glob("*.whl")
    return built


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_wheel_runs_in_an_environment_of_its_own(runner: str, wheel: Path, tmp_path: Path):
    program = shutil.which(runner, path=str(Path(sys.executable).parent))
    if program is None:
        unavailable(f"without {runner} (make oracles installs it)")
    shutil.copyfile(ROOT / "examples" / "suite_good.json", tmp_path / "suite.json")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environ = {
        **inherited, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIPX_HOME": str(tmp_path / "pipx"), "UV_CACHE_DIR": str(tmp_path / "uv"),
    }  # fmt: skip
    for arguments, expected in (
        (["--version"], f"agent-eval {__version__}\n"),
        (["run", "suite.json", "--out", "runs/one", "--format", "json"], '"pass_rate": 1.0'),
    ):
        done = subprocess.run(
            [program, *RUNNERS[runner], str(wheel), "agent-eval", *arguments], cwd=tmp_path, env=environ,
            capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert expected in done.stdout
    assert (tmp_path / "runs" / "one" / "manifest.json").is_file()
