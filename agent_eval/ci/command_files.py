"""Keep the files through which a CI runner takes commands as they were before the agent ran.

A runner reads variables, outputs and the full report from files when a step has ended. The agent and
`setup-command` run as the same user as the job, so they can find these files and write to them: set `PATH`
for the steps that follow, or fill in a report that says "passed".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from agent_eval.ci.seal import Altered
from agent_eval.errors import StorageError
from agent_eval.storage.snapshot import FileSnapshot


@contextmanager
def guarded(variables: Sequence[str], environ: Mapping[str, str]) -> Iterator[None]:
    """Restore the runner's files when the block ends or raises, and refuse what wrote to them.

    Example:
        >>> report = Path("summary.md")
        >>> _ = report.write_text("of an earlier step")
        >>> with guarded(["REPORT"], {"REPORT": "summary.md"}):
        ...     _ = report.write_text("# Passed")
        Traceback (most recent call last):
        agent_eval.ci.seal.Altered: The agent wrote to a command file of the job: `REPORT`.
        >>> report.read_text()
        'of an earlier step'

    Args:
        variables: Names of the variables with the paths of such files.
        environ: The environment variables of the job.

    Raises:
        Altered: A file was changed.
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
        # After the last of them: one that cannot be written must not keep the others as the agent left them.
        if errors:
            raise errors[0]
        if changed:
            what = "command files" if len(changed) > 1 else "a command file"
            raise Altered(
                f"The agent wrote to {what} of the job: {', '.join(f'`{name}`' for name in changed)}.",
                remedy="What it wrote was taken back. Look at what the agent and `setup-command` do.",
            )
