"""One option: its name, kind, unit, default and help, which commands have it, and where its value goes.

The flags of a command, the inputs of the CI job (flags, `action.yml`, environment variables,
`agent-eval.yml`), what a pack records of a run, and the reference are made from rows of this type, which
`agent_eval.config.table` lists. A platform contributes rows of its own to the job. Only the standard library
may be imported here, because `agent-eval COMMAND --help` imports this.
"""

from typing import Literal, NamedTuple

Kind = Literal[
    "text",
    "id",
    "path",
    "url",
    "secret",
    "private key",
    "script",
    "choice",
    "switch",
    "share",
    "amount",
    "count",
    "integer",
    "seed",
    "parallel",
    "lines",
    "list",
    "variables",
    "headers",
    "object",
]
"""`text` is a line that can be printed, `id` any text that a suite or pack may use as a name; `script` is
text of several lines; `secret` and `private key`, which has several lines, never appear in any output.
`switch` is true or false. `share` is a number from 0 to 1, `amount` one above 0; `count` is a whole number
from 0, `integer` a positive one, `seed` any that 64 bits hold; `parallel` is one up to 256, or `auto`.

The four after it have several values, one a line in the CI job and one for each time that the flag is given:
`lines`; `list`, also separated by commas; `variables`, a `list` of names of environment variables;
`headers`, lines of `NAME=VARIABLE`.

`object` is a value of the file with a shape of its own, as JSON."""

SECRET: frozenset[Kind] = frozenset({"secret", "private key"})
"""Kinds whose values are redacted from everything, and never repeated in a message."""

LISTED: frozenset[Kind] = frozenset({"lines", "list", "variables", "headers"})
"""Kinds with several values."""

# fmt: off
Command = Literal[
    "init", "demo", "run", "show", "view", "compare", "gate", "diff", "report markdown", "report html",
    "bless", "ci", "merge", "history show", "history drift", "history health", "validate", "plan",
    "import", "generate", "rejudge", "replay", "stability-check", "judge-agreement", "verify", "attest",
    "keygen", "export junit", "export csv", "export otel", "registry list", "registry log",
    "registry verify", "registry dataset-add", "registry baseline-set", "registry baseline-promote",
    "registry waiver-add", "registry waiver-revoke", "completion", "list-suites", "schema show",
    "schema migrate", "dev demo-agent", "dev adapter-conformance", "dev contracts-check", "dev compact",
    "dev expand",
]
# fmt: on
"""Every command. `ci` is the CI job as well, whose rows are the inputs of the action."""

CI: Command = "ci"

RUNS_AN_AGENT: tuple[Command, ...] = ("run", "stability-check", "ci")
"""Commands that can run an agent over a suite."""

REGISTRY = ".agent_eval/registry.json"
"""Where the registry is unless an option says otherwise."""

A_WEEK = 7 * 24 * 3600.0
SECONDS_BOUNDS = (0.001, A_WEEK)
"""Times that the operating system's timers hold."""


class Option(NamedTuple):  # half the start-up time of a dataclass
    """One thing that can be asked of one or several commands.

    Args:
        name: With hyphens. The same on every command, in `action.yml` and in `agent-eval.yml`.
        kind: How its text is read.
        help: At most twelve words, for `--help`.
        commands: The commands that have a flag for it.
        goes_to: Where the value goes: the part of the run specification, a dot, and the field; or the
            parameter of the command's function, which the table takes from the name where it is not said.
        of_file: The commands that know it from `agent-eval.yml` and `--set` alone.
        detail: What the reference says beside the help.
        default: As text, what holds when it is not given; empty for nothing, and for a switch that is off.
            Never put into `action.yml`.
        unit: What a number counts, as `--help` shows it: `seconds`, `bytes`, `USD`.
        bounds: The smallest and the largest number, where they are not those of the kind.
        metavar: How `--help` shows the value, where kind and unit do not say it.
        aliases: Other names, which are accepted everywhere and shown nowhere.
        recorded: The field of a pack's `execution_config` that holds the value; empty for none.
        required: Whether the command cannot run without it. An input of the CI job may come from several
            places, so `action.yml` says `required: false` for every one.
        action_default: The default that `action.yml` itself must carry (a token only).
        hidden: Whether it is accepted and not shown: another way to say what an argument or option says.
    """

    name: str
    kind: Kind
    help: str
    commands: tuple[Command, ...] = ()
    goes_to: str = ""
    of_file: tuple[Command, ...] = ()
    default: str = ""
    unit: str = ""
    bounds: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    recorded: str = ""
    required: bool = False
    action_default: str = ""
    hidden: bool = False
    detail: str = ""

    @property
    def documentation(self) -> str:
        """The help with detail and default, as the references and `action.yml` show it."""
        default = f"Default: {self.default}." if self.default else ""
        return " ".join(filter(None, (self.help, self.detail, default)))

    @property
    def names(self) -> tuple[str, ...]:
        """The name, then the aliases."""
        return (self.name, *self.aliases)

    @property
    def is_listed(self) -> bool:
        """Whether it has several values."""
        return self.kind in LISTED

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
        return variable(self.name)


def variable(name: str) -> str:
    """Name the environment variable in which any place can pass an input to the job."""
    return f"AGENT_EVAL_{name.replace('-', '_').upper()}"
