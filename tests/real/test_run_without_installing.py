"""The wheel as uvx and pipx run it: an environment for one command, dependencies from the package index."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_eval import __version__
from tests.contract.test_distribution import build_distributions
from tests.extent import unavailable

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
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
