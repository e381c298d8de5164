"""Write starter files: a suite, configuration, and the file of a CI platform (`agent-eval init`)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.storage.atomic import write_file

SCAFFOLD = {
    "suites/starter_suite.json": "starter_suite.json",
    "config/judges.json": "judges.json",
    "config/gate.json": "gate.json",
    "config/gate.yml": "gate.yml",
}
"""Path of each file below the target directory, with the name of the bundled file."""

PLATFORMS = {
    "github": (".github/workflows/agent-eval.yml", "workflow.yml"),
    "gitlab": (".gitlab-ci.yml", "gitlab.yml"),
    "buildkite": (".buildkite/pipeline.yml", "buildkite.yml"),
    "circleci": (".circleci/config.yml", "circleci.yml"),
    "jenkins": ("Jenkinsfile", "Jenkinsfile"),
}
"""The same for each CI platform."""


def scaffold(out: Path, *, platforms: Sequence[str] = ("github",), force: bool = False) -> list[Path]:
    """Write the starter files below a directory.

    Args:
        out: The directory, usually the top of a repository.
        platforms: CI platforms whose files are written too; keys of `PLATFORMS`.
        force: Overwrite existing files.

    Returns:
        The files, in the order of writing.

    Raises:
        UsageError: Files exist already and `force` is false; nothing has been written.
        StorageError: A file could not be written.

    Example:
        >>> [str(path) for path in scaffold(Path("."), platforms=["gitlab"])][-2:]
        ['config/gate.yml', '.gitlab-ci.yml']
    """
    bundled = files("agent_eval.demo") / "starter"
    places = SCAFFOLD | dict(PLATFORMS[platform] for platform in platforms)
    contents = {out / place: (bundled / name).read_bytes() for place, name in places.items()}
    existing = [str(path) for path in contents if path.exists() or path.is_symlink()]
    if existing and not force:
        raise UsageError(
            f"already there: {', '.join(existing)}",
            remedy="Choose another directory with --out, or overwrite them with --force.",
            file=existing[0],
            files=existing,
        )
    for path, data in contents.items():
        write_file(path, data)
    return list(contents)
