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


@pytest.mark.parametrize("lock", ["oracles.lock", "docs.lock", "mutation.lock", "sbom.lock"])
def test_what_is_optional_changes_nothing_that_is_installed(lock):
    developer, optional = pins("dev.lock"), pins(lock)
    assert {
        name: version for name, version in optional.items() if developer.get(name, version) != version
    } == {}


def test_what_shares_the_developers_environment_agrees():
    """They are installed one after another without resolving, so that the last one would win."""
    versions: dict[str, set[str]] = {}
    for lock in ("dev.lock", "oracles.lock", "docs.lock", "mutation.lock"):
        for name, version in pins(lock).items():
            versions.setdefault(name, set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_line_is_a_pin_a_hash_or_a_comment(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        is_hash = re.fullmatch(r"--hash=sha256:[0-9a-f]{64}( \\)?", text)
        assert not text or text.startswith("#") or is_hash or PINNED.match(line), f"{path.name}: {line}"
        assert "://" not in text


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_a_hash(path):
    text = path.read_text(encoding="utf-8")
    blocks = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.MULTILINE)[1:]
    assert blocks
    for block in blocks:
        assert "--hash=sha256:" in block, f"{path.name}: {block.splitlines()[0]} has no hash"


INSTALLS = [
    "Makefile",
    "scripts/release_local.sh",
    "ci-templates/composite/action.yml",
    "tests/real/fetch_json_schema_suite.py",
]


@pytest.mark.parametrize("path", INSTALLS)
def test_an_installation_from_a_lock_resolves_nothing(path):
    """A lock is complete.

    An older pip that resolves it anew (pip 23.2 does, for `coverage[toml]`) refuses it from the day on which
    a package that is asked for with an extra has a newer release.
    """
    text = (ROOT / path).read_text(encoding="utf-8")
    installs = re.findall(r"[^\n]*--require-hashes[^\n]*", text)
    assert installs
    assert [line for line in installs if "--no-deps" not in line] == []


def test_the_image_resolves_nothing():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "PIP_REQUIRE_HASHES=1 PIP_NO_DEPS=1" in text


def test_what_the_developer_installed_is_complete():
    check = subprocess.run(
        [sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout
