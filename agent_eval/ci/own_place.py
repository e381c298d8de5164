"""Tell what the merge base's agent shares with the change's, or lacks, so that it may fail for that alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from agent_eval.agents.command import split_command
from agent_eval.ci.config import Settings
from agent_eval.ci.merge_base import MergeBase
from agent_eval.ci.shared_build import first_altered, program_of
from agent_eval.text.escape import one_line

_DATA = r"(\.(txt|in|pip|lock|json|ya?ml|toml|list|xml|props|gradle))?"
_SAYS_WHAT_IS_INSTALLED = re.compile(
    rf"(.*/)?([^/]*(requirements|constraints|dependencies|deps|packages)[^/]*?{_DATA}|(requirements|deps)/.*"
    r"|[^/]+\.lockb?|[^/]*-lock\.(json|ya?ml)|npm-shrinkwrap\.json"
    r"|pyproject\.toml|setup\.(py|cfg)|uv\.toml|pipfile|conda[^/]*\.ya?ml|environment[^/]*\.ya?ml|pixi\.toml"
    r"|package\.json|pnpm-workspace\.yaml|\.npmrc|\.yarnrc[^/]*|bunfig\.toml|deno\.jsonc?"
    r"|gemfile|[^/]+\.gemspec|composer\.json|go\.(mod|sum|work)|cargo\.toml|pom\.xml|[^/]+\.gradle(\.kts)?"
    r"|[^/]+\.(cs|fs|vb)proj|mix\.exs|build\.sbt|package\.swift|project\.toml|description|cpanfile"
    r"|\.(python|node|ruby)-version|\.nvmrc|\.tool-versions|\.?mise\.toml"
    r"|makefile|gnumakefile|[^/]+\.mk|justfile|taskfile\.ya?ml|tox\.ini|noxfile\.py"
    r"|(docker|container)file[^/]*|[^/]+\.dockerfile|[^/]+\.nix|brewfile|aptfile|[^/]+\.(sh|bash))",
    re.IGNORECASE | re.DOTALL,
)
"""Paths of requirements, locks, manifests, versions of interpreters, and scripts that install."""

_NO_REQUIREMENTS = (".py", ".js", ".ts", ".md", ".rst")
"""Of these, `dependencies.py` and the like are code."""

_INSTALLS_BY_ITSELF = frozenset(
    {
        *("bun", "bundle", "cargo", "composer", "deno", "dotnet", "go", "gradle", "hatch", "mix", "mvn"),
        *("pdm", "pipenv", "poetry", "rye", "sbt", "swift", "uv", "uvx"),
    }
)
"""Programs that use what the directory they are started in requires, wherever they keep it."""

_PYTHON = re.compile(r"(python|pypy)[\d.]*t?")
_ENVIRONMENTS = ("node_modules", "vendor", "*/pyvenv.cfg")
"""What is in a directory where something was installed into it."""

_TRACES = re.compile(
    r"(.*/)?(__pycache__|\.(pytest|mypy|ruff|import_linter)_cache|\.cache|\.hypothesis|\.tox|\.nox|\.idea|\.vscode"
    r"|htmlcov|coverage|[^/]+\.egg-info|\.DS_Store|\.coverage[^/]*|[^/]+\.(pyc|log|tmp|swp))/?",
    re.DOTALL,
)
"""What tools leave behind: it is in most checkouts, and agents do not read it."""


def doubt_of_packages(
    base: MergeBase,
    agent: tuple[str, Path, Mapping[str, str]],
    setups: tuple[str, str],
    span: tuple[float, float],
) -> str:
    """Say why the merge base's agent may have failed by what the change installed; empty where it did not.

    Where its requirements hold already, its setup installs nothing, and both agents import what the change
    requires. That it passes there, and the change does not, still counts.

    Args:
        base: The merge base, installed.
        agent: Its command, where it is run, and what it sees.
        setups: `setup-command` of the change and of the merge base.
        span: When the change's setup began, and when that of the merge base did, in seconds since 1970.
    """
    cause = _alters_what_is_installed(base.changed or (), setups)
    if not cause:
        return ""
    command, directory, environ = agent
    altered = first_altered(command, directory, (base.tree, base.top), environ, span)
    if altered is None and _has_own_packages(command, directory, base.tree, environ):
        return ""
    seen = f", `{altered}` among it" if altered is not None else ""
    return (
        f"The change alters {cause}, and both agents use what is installed outside of the checkout{seen}: "
        "let `setup-command` install into the checkout, such as into a virtual environment there."
    )


def _alters_what_is_installed(changed: Iterable[str], setups: tuple[str, str]) -> str:
    """Name, as code, the first thing in a change that says what is installed; empty for none."""
    if setups[0] != setups[1]:
        return "`setup-command`"
    named = set(re.split(r"[\s'\"=;&|<>()]+", setups[1]))
    name = next((name for name in changed if _says_what_is_installed(name, named)), None)
    return "" if name is None else _as_code(name)


def _says_what_is_installed(name: str, named: set[str]) -> bool:
    path = PurePosixPath(name)
    if any(word and name.endswith(f"/{word.removeprefix('./')}") for word in named) or name in named:
        return True
    if path.suffix.lower() in _NO_REQUIREMENTS and path.name not in ("setup.py", "noxfile.py"):
        return False
    return _SAYS_WHAT_IS_INSTALLED.fullmatch(name) is not None


def _has_own_packages(command: str, directory: Path, tree: Path, environ: Mapping[str, str]) -> bool:
    """Tell whether an agent has an environment in its worktree, or a program that keeps one for it."""
    name = Path(split_command(command)[0]).name
    if name in _INSTALLS_BY_ITSELF:
        return True
    program = program_of(command, directory, environ)
    top = Path(os.path.realpath(tree))
    if program is not None and Path(os.path.realpath(program.parent)).is_relative_to(top):
        return True
    # An interpreter from elsewhere uses no environment beside it.
    if _PYTHON.fullmatch(name):
        return False
    return any(True for place in (directory, tree) for sign in _ENVIRONMENTS for _ in place.glob(sign))


def doubt_of_files(base: MergeBase, directory: Path, settings: Settings) -> str:
    """Name what the merge base's worktree lacks and an earlier step made, in a sentence; empty for nothing.

    Args:
        base: The merge base, installed.
        directory: The directory of the change's checkout in which the job runs.
        settings: The job's. What they name as files is read by the job, and need not be there for the agent.
    """
    start = os.path.realpath(directory)
    patterns = [
        os.path.relpath(os.path.join(start, name), base.top) for name in _read_by_job(settings) if name
    ]
    for name in base.not_in_git:
        if _TRACES.fullmatch(name) or _is_any_of(PurePosixPath(name), patterns):
            continue
        if os.path.lexists(base.top / name) and not os.path.lexists(base.tree / name):
            return (
                f"No trial of the merge base passed, and its worktree lacks {_as_code(name)}, which is in "
                "the checkout of the change and not in git. If the agent needs it, let `setup-command` "
                "make it."
            )
    return ""


def _read_by_job(settings: Settings) -> list[str]:
    paths = (settings.evidence, settings.policy, settings.registry_path, settings.baseline_public_key)
    named = (settings.baseline, settings.drift_release)
    return [*settings.suite, *named, *(str(path) for path in paths if path is not None)]


def _is_any_of(path: PurePosixPath, patterns: Sequence[str]) -> bool:
    """Tell whether a path matches a pattern, or is a directory of what does."""
    return any(
        pattern != os.curdir and (path.match(pattern) or PurePosixPath(pattern).is_relative_to(path))
        for pattern in patterns
    )


def _as_code(name: str) -> str:
    readable = name.encode("utf-8", "backslashreplace").decode().replace("`", "'")
    return f"`{one_line(readable, limit=100)}`"
