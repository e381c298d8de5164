"""Only a CI platform's own folder names it, so that a further platform needs no change elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "agent_eval"
PLATFORMS = "ci/platforms/"
SHARED = {"base", "catalog", "rest", "spec"}
"""Modules of the folder of platforms that belong to none of them."""

NAMES = re.compile(
    r'(?i:github|gitlab|buildkite|circleci|jenkins)(?!\.com/google/re2)|\bGH_|\bCI_JOB_|"INPUT_[\"{]'
)
"""A platform, or a variable of its runner."""

TERMS = re.compile(
    r"pull request|merge request|merge group|job'?s?.summary|step.summary|workflow run"
    r"|actions: read|pull-requests: write",
    re.IGNORECASE,
)
"""What one platform calls things, and how it is told to permit them."""

ALLOWED = {
    "ci/platforms/catalog.py": "its table names every platform",
    "ci/platforms/spec.py": "the example of a platform", "ci/sides.py": "what a pointer of LFS begins with",
    "cli/main.py": "what the program is for", "cli/ci.py": "what `init` asks at a terminal",
    "demo/scaffold.py": "the table of the files that `init` writes for each platform",
    "demo/support_agent.py": "the story of the demonstration",
    "config/gone.py": "the variables that an action gave its inputs in",
    "config/rows/commands.py": "the choices of `init --ci`",
    "importers/agent_sessions.py": "the name of a tool whose sessions it reads",
    "storage/redaction_rules.py": "the shapes of the tokens that vendors give",
}  # fmt: skip
"""Files that may, and why."""


def modules() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def platform_of(module: str) -> str:
    """The platform to whose folder or file a module belongs; empty for none."""
    if not module.startswith(PLATFORMS):
        return ""
    name = module.removeprefix(PLATFORMS).split("/")[0].removesuffix(".py")
    return "" if name in SHARED | {"__init__"} else name.partition("_")[0]


@pytest.mark.parametrize("pattern", [NAMES, TERMS], ids=["names", "terms"])
def test_only_a_platforms_own_folder_speaks_of_it(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in modules()
        if not platform_of(name) and name not in ALLOWED
        for number, line in enumerate((PACKAGE / name).read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "a platform's words belong into its `PlatformSpec`:\n" + "\n".join(found)


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_every_exception_is_still_needed(name: str) -> None:
    text = (PACKAGE / name).read_text(encoding="utf-8")
    assert NAMES.search(text) or TERMS.search(text)


def test_no_module_imports_a_platform_but_itself_and_the_demonstration() -> None:
    imports = re.compile(r"^\s*from agent_eval\.ci\.platforms\.(\w+)(?:\.\w+)? import", re.MULTILINE)
    found = {
        (name, folder)
        for name in modules()
        for folder in imports.findall((PACKAGE / name).read_text(encoding="utf-8"))
        if folder not in SHARED and folder.partition("_")[0] != platform_of(name)
    }
    assert found == {("ci/demonstration.py", "local")}  # it runs outside CI
