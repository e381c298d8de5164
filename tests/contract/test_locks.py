"""The locks fit pyproject.toml, carry hashes, and name no place to download from."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
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
