"""scripts/release_local.sh builds and tries what a release publishes, from the commit and nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from agent_eval import __version__
from tests.contract.test_locks import pins
from tests.extent import OTHERS

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
