"""`agent-eval init`: a suite, configuration and a workflow to start from."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from agent_eval.errors import UsageError
from agent_eval.storage.atomic import write_file

SCAFFOLD = {
    "suites/starter_suite.json": "starter_suite.json",
    "config/judges.json": "judges.json",
    "config/gate.json": "gate.json",
    "config/gate.yml": "gate.yml",
    ".github/workflows/agent-eval.yml": "workflow.yml",
}
"""Where each file is written, and its name among the bundled ones."""


def scaffold(out: Path, *, force: bool = False) -> list[Path]:
    """Write the starter files below a directory.

    Args:
        out: The directory, usually the top of a repository.
        force: Overwrite files that are already there.

    Returns:
        The files, in the order they were written.

    Raises:
        UsageError: Files are already there and `force` is false; nothing has been written.
        StorageError: A file could not be written.
    """
    bundled = files("agent_eval.demo") / "starter"
    contents = {out / place: (bundled / name).read_bytes() for place, name in SCAFFOLD.items()}
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
