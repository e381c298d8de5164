"""The locks fit pyproject.toml, carry hashes, and name no place to download from."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^ \\]+)( ;[^\\]*)? \\$")


def pins(lock: str) -> dict[str, str]:
    """Version by canonical name."""
    lines = (ROOT / "requirements" / lock).read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(m[1]): m[2] for m in map(PINNED.match, lines) if m}


REQUIRED = {
    "runtime.lock": PROJECT["project"]["dependencies"],
    "dev.lock": PROJECT["project"]["dependencies"] + PROJECT["project"]["optional-dependencies"]["dev"],
    "build.lock": PROJECT["build-system"]["requires"],
    "sbom.lock": ["cyclonedx-bom"],
    "oracles.lock": PROJECT["project"]["optional-dependencies"]["oracles"],
    "docs.lock": PROJECT["project"]["optional-dependencies"]["docs"],
    "mutation.lock": PROJECT["project"]["optional-dependencies"]["mutation"],
}


@pytest.mark.parametrize("lock", sorted(REQUIRED))
def test_every_requirement_is_pinned_at_a_version_it_allows(lock):
    versions = pins(lock)
    for requirement in map(Requirement, REQUIRED[lock]):
        version = versions.get(canonicalize_name(requirement.name))
        assert version is not None, f"{lock} lacks {requirement.name}: run `make lock`"
        assert requirement.specifier.contains(version, prereleases=True), (
            f"{lock} pins {requirement.name} {version}, pyproject.toml wants {requirement}: run `make lock`"
        )


@pytest.mark.parametrize("lock", ["build.lock", "runtime.lock"])
def test_the_image_and_the_developer_have_the_same_versions(lock):
    developer = pins("dev.lock")
    assert pins(lock)
    assert {name: developer.get(name) for name in pins(lock)} == pins(lock)


def test_what_is_optional_changes_nothing_and_what_shares_the_developers_environment_agrees():
    """They are installed one after another without resolving, so that the last one would win."""
    versions: dict[str, set[str]] = {}
    for lock in ("dev.lock", "oracles.lock", "docs.lock", "mutation.lock"):
        for name, version in pins(lock).items():
            versions.setdefault(name, set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}
    developer = pins("dev.lock")
    assert {
        name for name, version in pins("sbom.lock").items() if developer.get(name, version) != version
    } == set()


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_is_a_pin_with_a_hash_or_a_comment(path):
    text = path.read_text(encoding="utf-8")
    for line in map(str.strip, text.splitlines()):
        is_hash = re.fullmatch(r"--hash=sha256:[0-9a-f]{64}( \\)?", line)
        assert not line or line.startswith("#") or is_hash or PINNED.match(line), f"{path.name}: {line}"
        assert "://" not in line
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert blocks
    assert [block.splitlines()[0] for block in blocks if "--hash=sha256:" not in block] == []


def test_an_installation_from_a_lock_resolves_nothing():
    """A lock is complete.

    An older pip that resolves it anew (pip 23.2 does, for `coverage[toml]`) refuses it from the day on which
    a package that is asked for with an extra has a newer release.
    """
    places = ("Makefile", "scripts/release_local.sh", "ci-templates/composite/action.yml")
    for path in (*places, "tests/real/fetch_json_schema_suite.py"):
        text = (ROOT / path).read_text(encoding="utf-8")
        installs = re.findall(r"[^\n]*--require-hashes[^\n]*", text)
        assert installs, path
        assert [line for line in installs if "--no-deps" not in line] == [], path


def test_the_image_resolves_nothing():
    assert "PIP_REQUIRE_HASHES=1 PIP_NO_DEPS=1" in (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_what_the_developer_installed_is_complete():
    check = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout


# The hook that this repository offers to pre-commit: what it names exists, and stops what it should

(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def run_hook(root: Path, *files: str) -> subprocess.CompletedProcess[str]:
    """Run the hook as pre-commit does: its entry in the repository, followed by the files."""
    program, *arguments = shlex.split(HOOK["entry"])
    command = [str(Path(sys.executable).with_name(program)), *arguments, *files]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two sound suites."""
    (tmp_path / "suites").mkdir()
    for name in ("suite_good.json", "suite_bad.json"):
        shutil.copyfile(ROOT / "examples" / name, tmp_path / "suites" / name)
    return tmp_path


def test_it_is_installed_from_this_repository_by_pip():
    assert HOOK["language"] == "python"
    assert set(HOOK) <= {"id", "name", "description", "entry", "language", "files"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("suites/orders.json", True),
        ("suites/team/orders.jsonl", True),
        ("suites/orders.yaml", True),
        ("suites/README.md", False),
        ("config/judges.json", False),
    ],
)
def test_it_takes_the_suites_where_init_writes_them(path: str, expected: bool):
    assert bool(re.search(HOOK["files"], path)) == expected


def test_sound_suites_are_let_through_and_a_faulty_one_among_them_is_named(repository: Path):
    suites = ("suites/suite_good.json", "suites/suite_bad.json")
    done = run_hook(repository, *suites)
    assert done.returncode == 0, done.stdout + done.stderr
    path = repository / "suites" / "suite_bad.json"
    suite: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    suite["cases"].append(suite["cases"][0])
    path.write_text(json.dumps(suite), encoding="utf-8")
    done = run_hook(repository, *suites)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "suites/suite_good.json is valid" in done.stdout
    assert "suites/suite_bad.json is not valid" in done.stdout


def test_what_is_no_suite_stops_the_commit(repository: Path):
    (repository / "suites" / "broken.json").write_text("{", encoding="utf-8")
    done = run_hook(repository, "suites/broken.json")
    assert done.returncode == 2
    assert "broken.json" in done.stderr
