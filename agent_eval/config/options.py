"""One option: its name, kind, unit, default and help, which commands have it, and where its value goes.

The flags of a command, the inputs of the CI job (flags, `action.yml`, environment variables,
`agent-eval.yml`) and their reference are made from rows of this type, which `agent_eval.config.table` lists.
A platform contributes rows of its own to the job. Only the standard library may be imported here, because
`agent-eval COMMAND --help` imports this.

Example:
    >>> Option(
    ...     "max-steps",
    ...     "integer",
    ...     "Answers of a model in an attempt.",
    ...     goes_to="limits.attempt.steps",
    ...     commands=(RUN, CI),
    ...     unit="steps",
    ... ).flag
    '--max-steps'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "text",
    "lines",
    "list",
    "script",
    "path",
    "choice",
    "share",
    "amount",
    "count",
    "integer",
    "parallel",
    "switch",
    "case policy",
    "url",
    "secret",
]
"""`lines` is one value a line, and `list` the same or separated by commas; `script` is text of several lines;
`share` a number from 0 to 1, `amount` one above 0; `count` a whole number from 0; `integer` a positive whole
number; `parallel` one up to 256, or `auto`; `switch` is true or false; `case policy` as
`contracts.trials.case_policy` reads it; `secret` never appears in any output."""

RUN = "run"
RUN_LOOP = "run-loop"
STABILITY = "stability-check"
REPLAY = "replay-exec"
REJUDGE = "rejudge"
CI = "ci"

RUNS_AN_AGENT = (RUN, RUN_LOOP, STABILITY, CI)
"""Commands that can run an agent over a suite."""


@dataclass(frozen=True, slots=True)
class Option:
    """One thing that can be asked of one or several commands.

    Args:
        name: With hyphens. The same on every command, in `action.yml` and in `agent-eval.yml`.
        kind: How its text is read.
        help: One or two plain sentences, for `--help` and the reference.
        goes_to: Where the value goes: the part of the run specification, a dot, and the field.
        commands: The commands that have it; `ci` is the CI job.
        default: As text, what holds when it is not given; empty for nothing. Never put into `action.yml`.
        unit: What a number counts: `seconds`, `bytes`, `US dollars`.
        choices: The words a `choice` accepts.
        aliases: Other names that are accepted and not shown.
        required: Whether the command cannot run without it. An input of the CI job may come from several
            places, so `action.yml` says `required: false` for every one.
        action_default: The default that `action.yml` itself must carry (a token only).
        in_file: Whether `agent-eval.yml` may say it. The file comes with the code under test, so it may not
            say where a token goes, nor which secrets the agent gets and where they are sent.
    """

    name: str
    kind: Kind
    help: str
    goes_to: str
    commands: tuple[str, ...]
    default: str = ""
    unit: str = ""
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    required: bool = False
    action_default: str = ""
    in_file: bool = True

    @property
    def documentation(self) -> str:
        """The help with the default, as the job's reference and `action.yml` show it."""
        return f"{self.help} Default: {self.default}." if self.default else self.help

    @property
    def part(self) -> str:
        """The part of the specification that the value belongs to; empty for the specification itself."""
        return self.goes_to.rpartition(".")[0]

    @property
    def field(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The name as a command line flag."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """The environment variable in which any place can pass it to the job."""
        return f"AGENT_EVAL_{self.field.upper()}"
