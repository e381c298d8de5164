"""The context of a job: where it is, found before anything of the change is read, and all its steps share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.config import Settings, base_branches_in
from agent_eval.ci.place import JobPlace, find_place
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.rules import Rules
from agent_eval.errors import AgentEvalError
from agent_eval.storage.redaction import Redactor


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
        refs, reported = platform.refs, platform.run.reported
        if refs is None:
            return
        try:
            if reported is not None:
                clone = PrivateClone.of_remote(environ, refs.remote, min(reported.commits))
            else:
                clone = PrivateClone.of(Path.cwd(), environ, refs.remote)
            self.clone = clone
            top = clone.top if reported is None else platform.workspace
            file = os.path.relpath(os.path.abspath(config_file), top) if config_file is not None else ".."
            is_inside = not file.startswith("..")

            def listed(tip: str) -> tuple[str, ...]:
                """Those of the default branch's tip; none where the list cannot be read."""
                try:
                    data = clone.file(Path(file).as_posix(), tip) if is_inside else None
                    return base_branches_in(Path(file), data) if data is not None else ()
                except AgentEvalError:
                    return ()

            self.place = find_place(refs, clone, platform.tip, listed)
        except AgentEvalError as error:
            self.problem = error

    def close(self) -> None:
        """Remove the private clone."""
        if self.clone is not None:
            self.clone.close()


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """One CI job, once its settings and the rules it judges by are known.

    Attributes:
        redactor: Knows the secrets; nothing that the job writes holds one.
        clock: The time to record.
        stated: The settings as they are stated, without the places of the tip's files; for people.
        place: None outside of a repository, as `clone`.
        settings_at: Reads the settings as of another checkout of the repository, given the directory that is
            the job's working directory there.
    """

    settings: Settings
    platform: Platform
    environ: Mapping[str, str]
    redactor: Redactor
    rules: Rules
    clock: Callable[[], datetime]
    stated: Settings | None = None
    place: JobPlace | None = None
    clone: PrivateClone | None = None
    settings_at: Callable[[Path], Settings] | None = None

    @property
    def writes_history(self) -> bool:
        """Whether the run is one of a reviewed commit, whose counts later runs rely on."""
        return (self.place is None or self.place.is_reviewed) and not self.platform.run.from_fork

    def timestamp(self) -> str:
        """The time to record, as ISO 8601 with its offset."""
        return self.clock().isoformat()
