"""A row of the table of what `agent-eval ci` takes and gives; see `inputs`."""

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

Part = Literal["job", "thresholds", "agent"]
"""Where a value goes: `Settings`, `contracts.Thresholds`, or `agent_settings.AgentSettings`."""


@dataclass(frozen=True, slots=True)
class Input:
    """One thing the user can say.

    Args:
        name: As in `action.yml`, with hyphens.
        kind: How the text is read.
        default: What holds when nobody says anything; empty for none. Never put into `action.yml`.
        description: One or two plain sentences for the reference.
        choices: The words a `choice` accepts.
        required: Whether the job cannot run without it. It may still come from any of the places above,
            so `action.yml` says `required: false` for every input.
        action_default: The default that `action.yml` itself must carry (the token only).
        in_file: Whether `agent-eval.yml` may say it. The file comes with the code under test, so it may
            not say where the token goes, nor which secrets the agent gets and where they are sent.
        part: Where the value goes.
    """

    name: str
    kind: Kind
    default: str
    description: str
    choices: tuple[str, ...] = ()
    required: bool = False
    action_default: str = ""
    in_file: bool = True
    part: Part = "job"

    @property
    def documentation(self) -> str:
        """The description with the default, as the command's help and `action.yml` show it."""
        return f"{self.description} Default: {self.default}." if self.default else self.description

    @property
    def field(self) -> str:
        """The name as a Python identifier."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """The name as a command line flag."""
        return f"--{self.name}"

    @property
    def runner_variable(self) -> str:
        """The environment variable in which the GitHub runner passes it."""
        return f"INPUT_{self.name.upper()}"

    @property
    def variable(self) -> str:
        """The environment variable for every other place."""
        return f"AGENT_EVAL_{self.field.upper()}"


@dataclass(frozen=True, slots=True)
class Output:
    """One thing the job says to the steps after it."""

    name: str
    description: str
