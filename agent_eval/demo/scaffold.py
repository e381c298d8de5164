"""`agent-eval init`: a suite, configuration and a CI platform's file to start from."""

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
"""Where each file is written, and its name among the bundled ones."""

PLATFORMS = {
    "github": (".github/workflows/agent-eval.yml", "workflow.yml"),
    "gitlab": (".gitlab-ci.yml", "gitlab.yml"),
    "buildkite": (".buildkite/pipeline.yml", "buildkite.yml"),
    "circleci": (".circleci/config.yml", "circleci.yml"),
    "jenkins": ("Jenkinsfile", "Jenkinsfile"),
}
"""The same for the file of each CI platform."""


def scaffold(out: Path, *, platforms: Sequence[str] = ("github",), force: bool = False) -> list[Path]:
    """Write the starter files below a directory.

    Args:
        out: The directory, usually the top of a repository.
        platforms: Whose files are written too, of `PLATFORMS`.
        force: Overwrite files that are already there.

    Returns:
        The files, in the order they were written.

    Raises:
        UsageError: Files are already there and `force` is false; nothing has been written.
        StorageError: A file could not be written.
    """
    bundled = files("agent_eval.demo") / "starter"
    places = SCAFFOLD | dict(PLATFORMS[platform] for platform in platforms)
    contents = {out / place: (bundled / name).read_bytes() for place, name in places.items()}
    present = [str(path) for path in contents if path.exists() or path.is_symlink()]
    if present and not force:
        raise UsageError(
            f"already there: {', '.join(present)}",
            remedy="Choose another directory with --out, or overwrite them with --force.",
            file=present[0],
            files=present,
        )
    for path, data in contents.items():
        write_file(path, data)
    return list(contents)
