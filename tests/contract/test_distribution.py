"""The wheel that `pip install` gets is the whole package, and nothing but the package."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
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


# The project has a distribution name of its own, and every page installs that and nothing else

NAME = "agent-eval-gate"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "ci-templates/*", ".github/**/*.yml", "agent_eval/demo/starter/*")
    for path in ROOT.glob(pattern)
    if path.is_file()
)
BARE = re.compile(
    r"(?:pip|pipx|uv|uvx|poetry)\b[^\n`]*\b(?:install|add|run)\b[^\n`]*?(?<![\w./-])agent[-_]eval(?![\w/-])"
)
"""A line that would install the project of that name on the package index."""

COMMAND_OF = re.compile(r"(--(?:spec|from) \S+) agent-eval\b")
"""`uvx --from PACKAGE agent-eval` names the package, then its command."""


def installs_the_other_project(text: str) -> list[str]:
    """Lines that install the project of that name."""
    found: list[str] = BARE.findall(COMMAND_OF.sub(r"\1", text))
    return found


def test_the_distribution_has_its_own_name_and_command_and_import_keep_theirs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == NAME
    assert project["scripts"]["agent-eval"] == "agent_eval.cli.main:entry"


def test_no_page_installs_the_other_project() -> None:
    for page in PAGES:
        assert installs_the_other_project((ROOT / page).read_text(encoding="utf-8")) == [], page


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("pip install agent-eval", True),
        ("python -m pip install -U agent_eval==1.0", True),
        ('uv pip install "agent-eval[dask]"', True),
        ("pipx run --spec agent-eval==1.0 agent-eval --help", True),
        ("pipx run agent-eval --help", True),
        ("pip install .", False),
        ("pip install agent-eval-gate", False),
        (".agent-eval/bin/pip install x", False),
        ("pipx run --spec ./agent_eval_gate-1.0.0-py3-none-any.whl agent-eval --help", False),
    ],
)
def test_such_a_line_would_be_found(line: str, found: bool) -> None:
    assert bool(installs_the_other_project(line)) == found


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
