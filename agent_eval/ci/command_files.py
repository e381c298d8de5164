"""Keep the files through which a CI runner takes commands as they were before the agent ran.

A runner reads variables, outputs and the full report from files when a step has ended. The agent and
`setup-command` run as the same user as the job, so they can find these files and write to them: set `PATH`
for the steps that follow, or fill in a report that says "passed".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_eval.errors import StorageError
from agent_eval.storage.snapshot import FileSnapshot


@contextmanager
def guarded(
    variables: Sequence[str], environ: Mapping[str, str], warn: Callable[[str], None]
) -> Iterator[None]:
    """Restore the runner's files when the block ends or raises, and warn where that was necessary.

    Example:
        >>> report = Path("summary.md")
        >>> _ = report.write_text("of an earlier step")
        >>> with guarded(["REPORT"], {"REPORT": "summary.md"}, lambda _: print("warned")):
        ...     _ = report.write_text("# Passed")
        warned
        >>> report.read_text()
        'of an earlier step'

    Args:
        variables: Names of the variables with the paths of such files.
        environ: The environment variables of the job.
        warn: Points out a sentence that a user should act on.

    Raises:
        StorageError: A file was changed and cannot be written back; the others were.
    """
    snapshots = {name: FileSnapshot.of(Path(environ[name])) for name in variables if environ.get(name)}
    try:
        yield
    finally:
        changed, errors = [], []
        for name, snapshot in snapshots.items():
            try:
                if snapshot is not None and snapshot.restore():
                    changed.append(name)
            except StorageError as error:
                errors.append(error)
        if changed:
            warn(_sentence(changed))
        # After the last of them: one that cannot be written must not keep the others as the agent left them.
        if errors:
            raise errors[0]


def _sentence(variables: Sequence[str]) -> str:
    files, were = ("files", "They were") if len(variables) > 1 else ("file", "It was")
    return (
        f"The agent or `setup-command` changed the {files} of {', '.join(variables)}, through which the "
        f"runner takes commands. {were} restored."
    )
