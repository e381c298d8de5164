"""The private clone of a job and its place, found before anything of the change is read or run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.place import JobPlace, find_place, read_base_branches
from agent_eval.ci.platforms.base import Platform
from agent_eval.errors import AgentEvalError
from agent_eval.storage.yaml import parse_yaml


class Standing:
    """The place of a job. `find` never raises: a job whose place is not known still reports why.

    Attributes:
        place: None outside of a repository, and where it could not be found.
        clone: The private clone of the checkout; None where there is none.
        problem: Why the place is not known; the job ends in this error before it evaluates anything.
    """

    def __init__(self) -> None:
        self.place: JobPlace | None = None
        self.clone: PrivateClone | None = None
        self.problem: AgentEvalError | None = None

    def find(self, platform: Platform, environ: Mapping[str, str], config_file: Path | None) -> None:
        """Clone the checkout, or of a job that reports on another run that run's commit, and find the place.

        Args:
            platform: Where the job runs.
            environ: The environment variables, of which git sees a part.
            config_file: `agent-eval.yml`, relative to the working directory; None for no file.
        """
        try:
            refs, reported = platform.refs, platform.run.reported
            if refs is None:
                return
            if reported is not None:
                self.clone = PrivateClone.of_remote(environ, refs.remote, min(reported.commits))
            else:
                self.clone = PrivateClone.of(Path.cwd(), environ, refs.remote)
            clone = self.clone
            top = clone.top if reported is None else platform.workspace
            file = os.path.relpath(os.path.abspath(config_file), top) if config_file is not None else None
            self.place = find_place(refs, clone, platform.tip, lambda tip: _base_branches(clone, tip, file))
        except AgentEvalError as error:
            self.problem = error

    def close(self) -> None:
        """Remove the private clone."""
        if self.clone is not None:
            self.clone.close()


def _base_branches(clone: PrivateClone, tip: str, file: str | None) -> list[str]:
    """Read the list of trusted branches as of the default branch's tip; empty where it cannot be read."""
    if file is None or file.startswith(".."):
        return []
    try:
        data = clone.file(Path(file).as_posix(), tip)
        values = parse_yaml(data, source=file) if data is not None else None
        return read_base_branches(values, source=file) if isinstance(values, dict) else []
    except AgentEvalError:
        return []
