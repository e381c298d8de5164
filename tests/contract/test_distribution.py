"""The wheel that `pip install` gets is the whole package, and nothing but the package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agent_eval"
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "agent_eval")


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with the source distribution and the wheel built from it."""
    return build_distributions(tmp_path_factory.mktemp("distribution"))


def build_distributions(place: Path) -> Path:
    """Build the source distribution, and the wheel from it, in an empty directory; return where they are."""
    source = place / "source"
    source.mkdir()
    for name in SOURCES:
        path = ROOT / name
        if path.is_dir():
            shutil.copytree(path, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(path, source / name)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(place / "dist"), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return place / "dist"


@pytest.fixture(scope="module")
def installed(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a directory of its own."""
    target = tmp_path_factory.mktemp("installed")
    (wheel,) = distributions.glob("*.whl")
    command = [*(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")]
    subprocess.run([*command, f"--target={target}", str(wheel)], check=True, timeout=300)
    return target


def shipped() -> set[str]:
    """Every file of the package in the checkout, as a path from its top."""
    return {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_exactly_the_package(distributions):
    (wheel,) = distributions.glob("*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == shipped()
    assert {"agent_eval/py.typed", "agent_eval/schemas/suite.schema.json"} <= names
    assert any(name.startswith("agent_eval/demo/starter/") for name in names)


def test_the_source_distribution_can_build_the_same_wheel(distributions):
    (archive,) = distributions.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert shipped() | {"pyproject.toml", "README.md", "LICENSE"} <= names
    assert not [name for name in names if name.startswith(("tests", "requirements"))]


def test_the_wheel_says_its_licence_and_its_version(distributions):
    (wheel,) = distributions.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(opened.read(metadata).decode())
    assert headers["License-Expression"] == "MIT"
    assert f"-{headers['Version']}-" in wheel.name


def test_the_installed_wheel_runs_without_the_checkout(installed, tmp_path):
    environ = {**os.environ, "PYTHONPATH": str(installed)}
    for name in [name for name in environ if name.startswith("COVERAGE")]:
        del environ[name]
    where = "import agent_eval; print(agent_eval.__file__)"
    for arguments in (
        ["-c", where],
        ["-m", "agent_eval", "--help"],
        ["-m", "agent_eval", "init", "--out", "."],
    ):
        done = subprocess.run(
            [sys.executable, "-P", *arguments], cwd=tmp_path, env=environ, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert arguments[-1] != where or done.stdout.startswith(str(installed))
    assert (tmp_path / "suites" / "starter_suite.json").is_file()
