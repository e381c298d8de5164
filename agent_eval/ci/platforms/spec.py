"""Describe a CI platform before a job runs on it: its variables, limits and words; and its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.ci.clone import COMMIT
from agent_eval.config.options import CI, Kind, Option

SUMMARY_LIMIT = 1 << 20
"""Bytes of UTF-8 of the full report: GitHub drops a larger one."""


def own_input(name: str, kind: Kind, about: str, *, is_key: bool = False, **more: Any) -> Option:
    """Make a row of the job that only one platform needs; with `is_key`, a key of the file and no input.

    The address of an API, which only a server of one's own needs, is not in the help.
    """
    flag, key = ((), (CI,)) if is_key else ((CI,), ())
    place = f"platform.{name.replace('-', '_')}"
    hidden = kind == "url"
    return Option(name, kind, about, goes_to=place, commands=flag, of_file=key, hidden=hidden, **more)


def number_in(text: str | None) -> int | None:
    """Read a number that a platform's variable holds; None where it holds none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= 18 else None


def commit_in(text: str | None) -> str | None:
    """Read a commit that a platform's variable holds; None where it holds none, such as `HEAD`."""
    return text if text and COMMIT.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The platform's terms in sentences that people read.

    Attributes:
        change: What is under review, such as `merge request`.
        full_report: Where the job leaves the full report, such as `job's artifacts`.
        earlier_run: What it calls an earlier run, such as `pipeline`.
        job_of_fork: The job of a fork, where that never has a token, such as `the build of a fork`.
    """

    change: str
    full_report: str
    earlier_run: str = "run"
    job_of_fork: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """Steps that a user can take where the platform refuses something.

    Those of `read_runs` and `run_fork` are sentences, the others phrases without a full stop. `run_fork` says
    how to evaluate a fork's code without this repository's secrets.
    """

    read_runs: str = "Check the permissions of the job's token."
    write_comment: str = "The token may not write comments: check its permissions"
    write_from_fork: str = "The job of a fork may not write comments"
    run_fork: str = "Run the jobs of forks without this repository's secrets."
    set_variable: str = "Set it in the job's environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformSpec:
    """One CI platform, as `ci.platforms.catalog` lists it: names and figures, without the code.

    Attributes:
        detect: Whether this job runs there, given the environment variables.
        comment_limit: Characters that the platform accepts in a comment.
        inputs: Rows of the job that only this platform needs, such as its token. They go to `platform`.
        input_prefix: What begins the variables in which its runner passes inputs; the input's name follows in
            upper case, hyphens kept. Empty where it passes none.
        secret_names: Variables with the job's own secrets. No agent may see them, on any platform.
        secret_prefixes: What the names of further such variables begin with.
        command_files: Variables with the paths of files that its runner reads as commands when the step has
            ended. What an agent writes there is taken back.
        alert_boxes: Whether it shows `> [!WARNING]` as a box; elsewhere these are plain quotes.
    """

    name: str
    detect: Callable[[Mapping[str, str]], bool]
    words: Words
    comment_limit: int = 65_536
    inputs: tuple[Option, ...] = ()
    input_prefix: str = ""
    secret_names: frozenset[str] = frozenset()
    secret_prefixes: tuple[str, ...] = ()
    command_files: tuple[str, ...] = ()
    remedies: Remedies = Remedies()
    alert_boxes: bool = False

    def keeps_from_agents(self, variable: str) -> bool:
        """Whether the variable holds a secret of the platform's own."""
        inputs = {row.variable for row in self.inputs if row.kind == "secret"}
        return variable in self.secret_names | inputs or variable.startswith(self.secret_prefixes)

    def input_variable(self, name: str) -> str:
        """The variable in which the platform's runner passes an input; empty where it passes none."""
        return f"{self.input_prefix}{name.upper()}" if self.input_prefix else ""


@dataclass(frozen=True, kw_only=True)
class PlatformSettings:
    """The settings of a job that its platform reads.

    The evidence is found again as `evidence_name`; `report_run_id` is the run whose evidence is reported
    on, None where the job evaluates; `own` has the rows of every platform, by field, and each reads its own.
    """

    comment_id: str
    evidence_name: str
    report_run_id: int | None = None
    out: Path
    own: Mapping[str, Any] = field(repr=False)
