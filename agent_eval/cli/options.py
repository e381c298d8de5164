"""Options and value types that several commands share. A flag has one spelling and one meaning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from agent_eval.agents.base import AgentOptions
    from agent_eval.operations.run_agent import AgentRequest


Command = TypeVar("Command", bound=Callable[..., Any])


class Share(click.ParamType):  # type: ignore[type-arg]  # generic only in new versions of click
    """A share from 0 to 1. NaN and infinity are numbers to Python and nonsense to a gate."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse and bound the value; a usage error names the flag."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number <= 1:
            self.fail(f"{value!r} is not a share from 0 to 1, such as 0.95.", param, ctx)
        return number


class Text(click.ParamType):  # type: ignore[type-arg]
    """Text that is written into JSON files and reports: not empty, nothing unprintable."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse what a report could not show; a usage error names the flag."""
        text = str(value)
        if not text.strip():
            self.fail("it is empty.", param, ctx)
        if not text.isprintable():
            self.fail(f"{text!r} contains characters that cannot be printed.", param, ctx)
        return text


SHARE = Share()
TEXT = Text()
COUNT = click.IntRange(min=0)
SEED = click.IntRange(min=-(2**63), max=2**63 - 1)

THRESHOLDS: tuple[tuple[str, Any, str], ...] = (
    ("--min-pass-rate", SHARE, "The candidate's pass rate must be at least this."),
    ("--max-hard-fail-rate", SHARE, "The candidate's hard-fail rate must be at most this."),
    ("--max-pass-rate-drop", SHARE, "The pass rate may fall by at most this."),
    ("--max-hard-fail-increase", SHARE, "The hard-fail rate may rise by at most this."),
    ("--max-regressed-cases", COUNT, "At most this many cases may regress."),
    ("--max-new-hard-fail-cases", COUNT, "At most this many cases may newly hard-fail."),
)
"""The gate's six rules, in the specification's order."""

REGISTRY = ".agent_eval/registry.json"
"""Where the registry is unless said otherwise."""


def output_format(command: Command) -> Command:
    """`--format`: prose on a terminal and JSON when piped, unless said otherwise."""
    return click.option(
        "--format",
        "output",
        type=click.Choice(["auto", "text", "json"]),
        default="auto",
        show_default=True,
        help="Prose, JSON, or auto: prose on a terminal and JSON when piped.",
    )(command)


def thresholds(command: Command) -> Command:
    """The six thresholds of the gate."""
    for flag, kind, text in reversed(THRESHOLDS):
        command = click.option(flag, type=kind, default=None, help=text)(command)
    return command


def registry_path(command: Command) -> Command:
    """`--registry-path`: where names are looked up."""
    return click.option(
        "--registry-path", metavar="FILE", default=REGISTRY, show_default=True, help="The registry."
    )(command)


def judging(command: Command) -> Command:
    """`--judge` and `--judge-config`."""
    command = click.option(
        "--judge-config",
        metavar="FILE",
        help="JSON or YAML file: judge name to that judge's configuration.",
    )(command)
    return click.option(
        "--judge",
        "judges",
        type=TEXT,
        multiple=True,
        metavar="NAME",
        help="Judge to apply: a built-in or plug-in name, or module:Class. Repeat for several; "
        "without it the five default judges.",
    )(command)


def trials(command: Command) -> Command:
    """`--case-policy`."""
    return click.option(
        "--case-policy",
        type=TEXT,
        default="all",
        show_default=True,
        metavar="POLICY",
        help="When a case with several trials passes: all, any, majority, or pass_rate>=0.75.",
    )(command)


def run_identity(command: Command) -> Command:
    """What a run records of itself: who was tested, with which inputs."""
    declared: tuple[tuple[str, str], ...] = (
        ("--dependency-lock-hash", "Digest of the agent's locked dependencies."),
        ("--git-commit", "Commit of the agent; read from the checkout when not given."),
        ("--container-image", "Image the agent ran in, best with its digest."),
        ("--policy-hash", "Digest of the agent's policy."),
        ("--prompt-hash", "Digest of the agent's prompts."),
    )
    for flag, text in declared:
        command = click.option(flag, type=TEXT, default=None, help=text)(command)
    command = click.option(
        "--seed", type=SEED, default=0, metavar="INTEGER", show_default=True, help="Seed of the run."
    )(command)
    for flag, text in (
        ("--model", "Model the agent used."),
        ("--agent-version", "Version of the agent."),
    ):
        command = click.option(flag, type=TEXT, default="unknown", show_default=True, help=text)(command)
    return click.option(
        "--run-id", type=TEXT, default=None, help="Name of this run; made from the time when not given."
    )(command)


def written(command: Command) -> Command:
    """Which cases are run, and how the pack is written."""
    options = (
        click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case. Repeatable."),
        click.option(
            "--shard",
            metavar="K/N",
            help="Only the cases of shard K of N, which `merge` joins with the others; such as 3/8.",
        ),
    )
    command = sealed(command)
    for option in reversed(options):
        command = option(command)
    return command


def sealed(command: Command) -> Command:
    """How a pack is judged and written."""
    options = (
        click.option(
            "--summary-json", metavar="FILE", help="Also write the summary to this file, outside the pack."
        ),
        pack_layout,
        click.option(
            "--workers",
            type=click.IntRange(min=1),
            metavar="N",
            help="Processes that judge; as many as help when not given.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def pack_layout(command: Command) -> Command:
    """`--layout`."""
    return click.option(
        "--layout",
        type=click.Choice(["auto", "files", "compact"]),
        default="auto",
        show_default=True,
        help="A folder a case, or shards; auto takes shards beyond 2,000 cases.",
    )(command)


def declared(options: Callable[[Callable[..., Any]], Callable[..., Any]]) -> list[click.Parameter]:
    """The options that a decorator of this room adds to a command."""

    def nothing() -> None:
        """Carries the options."""

    return list(getattr(options(nothing), "__click_params__", []))


class Amount(click.FloatRange):
    """A number within bounds. NaN is within any to Python."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse and bound the value; a usage error names the flag."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


SECONDS = Amount(min=0.001, max=7 * 24 * 3600)
DOLLARS = Amount(min=0, min_open=True, max=1e9)
POSITIVE = click.IntRange(min=1)
DEFAULT_REPAIRS = 2
"""Of the commands that are about repairing."""
CASSETTE_MODES = ("record", "replay", "update")


class Parallel(click.ParamType):  # type: ignore[type-arg]
    """How many at once: a number, or `auto`."""

    name = "parallel"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """None for `auto`; a usage error names the flag."""
        if value is None or value == "auto":
            return None
        try:
            number = int(value)
        except ValueError:
            number = 0
        if not 1 <= number <= 256:
            self.fail(f"{value!r} is neither auto nor a number from 1 to 256.", param, ctx)
        return number


class Assignment(click.ParamType):  # type: ignore[type-arg]
    """`NAME=VALUE`."""

    name = "assignment"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Both sides; a usage error names the flag."""
        if isinstance(value, tuple):
            return value
        name, separator, given = str(value).partition("=")
        if not separator or not name.strip() or not given.strip():
            self.fail(f"{value!r} is not of the form NAME=VALUE.", param, ctx)
        return name.strip(), given.strip()


_LIMITS: tuple[tuple[str, Any, str], ...] = (
    ("--max-output-bytes", POSITIVE, "What an attempt may write or answer."),
    ("--max-steps", POSITIVE, "Answers of a model in an attempt."),
    ("--max-tool-calls", POSITIVE, "Tool calls in an attempt."),
    ("--max-case-seconds", SECONDS, "Time of all attempts at a case."),
    ("--max-case-tokens", POSITIVE, "Tokens of all attempts at a case."),
    ("--max-case-cost", DOLLARS, "US dollars for all attempts at a case."),
    ("--max-run-seconds", SECONDS, "The run stops cleanly after this time; resume it for the rest."),
    ("--max-run-cost", DOLLARS, "The run stops cleanly once this many US dollars are spent."),
)


def running(command: Command) -> Command:
    """Everything but which agent: attempts, limits, tools, concurrency, resuming."""
    for flag, kind, text in reversed(_LIMITS):
        command = click.option(flag, type=kind, help=text)(command)
    for mode, text in (
        ("update", "Call live tools and refresh this file of recorded answers."),
        ("replay", "Answer tool calls from this file; a call that is not in it fails."),
        ("record", "Call live tools and write what they answer to this file."),
    ):
        command = click.option(f"--{mode}", metavar="FILE", help=text)(command)
    options = (
        click.option(
            "--max-repairs", type=COUNT, metavar="N", help="Attempts after a failed one, until one passes."
        ),
        click.option(
            "--command-timeout-seconds",
            type=SECONDS,
            default=30.0,
            show_default=True,
            help="Time of each attempt.",
        ),
        click.option(
            "--strict-side-effects",
            is_flag=True,
            help="Fail an attempt with a tool call for which the case has no answer.",
        ),
        click.option(
            "--share-expected-output",
            is_flag=True,
            help="Hand the expected output to the agent; one that gets the answer is not evaluated.",
        ),
        click.option("--tools", metavar="TOOLS", help="Live tools: an address, or module:function."),
        parallel,
        click.option("--resume", is_flag=True, help="Go on with what an ended run has finished."),
    )
    for option in reversed(options):
        command = option(command)
    return connecting(command)


def connecting(command: Command) -> Command:
    """What an agent is given to work with: variables, headers, an endpoint, a prompt."""
    options = (
        click.option(
            "--agent-env",
            multiple=True,
            type=TEXT,
            metavar="NAME",
            help="Environment variable that the agent's program may see. Repeatable.",
        ),
        click.option(
            "--agent-header",
            multiple=True,
            type=Assignment(),
            metavar="NAME=VARIABLE",
            help="Header for an http agent, its value from an environment variable. Repeatable.",
        ),
        click.option("--base-url", metavar="URL", help="Endpoint of a hosted model."),
        click.option("--system-prompt", metavar="FILE", help="System prompt of a hosted model."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def proposing(command: Command) -> Command:
    """Which agent: a program and another one for repairs, or another kind of agent."""
    options = (
        click.option(
            "--propose-command",
            type=TEXT,
            metavar="COMMAND",
            help="The agent: a program that reads a task as JSON and writes its answer as JSON.",
        ),
        click.option(
            "--repair-command",
            type=TEXT,
            metavar="COMMAND",
            help="What is run after a failed attempt; the same program when not given.",
        ),
        click.option(
            "--agent",
            type=TEXT,
            help="Another kind of agent: an address, openai:MODEL, anthropic:MODEL, python:MODULE:FUNCTION.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def parallel(command: Command) -> Command:
    """`--parallel`."""
    return click.option(
        "--parallel",
        type=Parallel(),
        default="1",
        show_default=True,
        metavar="N|auto",
        help="Cases at once; auto adapts to what a hosted model takes.",
    )(command)


def repeated(command: Command) -> Command:
    """`--trials`, for commands whose pack holds them."""
    return click.option(
        "--trials",
        type=click.IntRange(1, 1000),
        default=1,
        show_default=True,
        metavar="N",
        help="How often each case is run by the agent.",
    )(command)


def proposed(propose: str | None, repair: str | None, agent: str | None) -> str | None:
    """The agent that `proposing` names, as `--agent` would; None where it names none.

    Raises:
        UsageError: It names two, or repairs for one that is no program.
    """
    if propose is not None and agent is not None:
        raise click.UsageError("Give --propose-command or --agent.")
    if repair is not None and propose is None:
        raise click.UsageError("--repair-command goes with --propose-command.")
    return agent or (f"command:{propose}" if propose else None)


def take_proposed(
    propose: str | None, repair: str | None, agent: str | None, options: dict[str, Any]
) -> AgentRequest | None:
    """Take what `proposing`, `running` and `repeated` declared; None, with all of it taken, without an agent.

    Raises:
        UsageError: As `proposed` and `take_agent`.
        InvalidInput: As `take_agent`.
    """
    spec = proposed(propose, repair, agent)
    if spec is None:
        for param in [*declared(running), *declared(repeated)]:
            options.pop(param.name or "", None)
        return None
    if options["max_repairs"] is None:
        options["max_repairs"] = DEFAULT_REPAIRS
    return take_agent(spec, options, repair=repair)


def take_agent(agent: str, options: dict[str, Any], *, repair: str | None = None) -> AgentRequest:
    """Take what `running` and `repeated` declared out of a command's options.

    Raises:
        UsageError: Options contradict each other; a variable is not set.
        InvalidInput: The system prompt cannot be read.
    """
    from agent_eval.contracts import AttemptLimits, TrialLimits
    from agent_eval.engine.trial import RunLimits
    from agent_eval.operations.run_agent import AgentRequest

    take = options.pop
    each = AttemptLimits(seconds=take("command_timeout_seconds"))
    for name, key in (
        ("output_bytes", "max_output_bytes"),
        ("steps", "max_steps"),
        ("tool_calls", "max_tool_calls"),
    ):
        value = take(key)
        each = each if value is None else each.model_copy(update={name: value})
    return AgentRequest(
        agent=agent,
        options=agent_settings(options, repair=repair),
        trials=take("trials", 1),
        max_repairs=take("max_repairs") or 0,
        attempt=each,
        trial=TrialLimits(
            seconds=take("max_case_seconds"), tokens=take("max_case_tokens"), cost_usd=take("max_case_cost")
        ),
        run=RunLimits(seconds=take("max_run_seconds"), cost_usd=take("max_run_cost")),
        strict_side_effects=take("strict_side_effects"),
        share_expected_output=take("share_expected_output"),
        tool_server=take("tools"),
        cassette=_cassette(options),
        parallel=take("parallel"),
        resume=take("resume"),
    )


def agent_settings(options: dict[str, Any], *, repair: str | None = None) -> AgentOptions:
    """Take what `connecting` declared out of a command's options.

    Raises:
        UsageError: A header's variable is not set.
        InvalidInput: The system prompt cannot be read.
    """
    import os
    from pathlib import Path

    from agent_eval.agents.base import AgentOptions
    from agent_eval.operations.run_agent import read_prompt

    take = options.pop
    prompt = take("system_prompt")
    return AgentOptions(
        environ=os.environ,
        repair_command=repair,
        pass_on=take("agent_env"),
        headers={name: _variable(variable) for name, variable in take("agent_header")},
        base_url=take("base_url"),
        system=read_prompt(Path(prompt)) if prompt else None,
    )


def _variable(name: str) -> str:
    import os

    value = os.environ.get(name)
    if not value:
        raise click.UsageError(f"--agent-header names the environment variable {name}, which is not set.")
    return value


def _cassette(options: dict[str, Any]) -> Any:
    from pathlib import Path

    named = [(mode, options.pop(mode)) for mode in CASSETTE_MODES]
    given = [(mode, Path(path)) for mode, path in named if path is not None]
    if len(given) > 1:
        raise click.UsageError("Give one of --record, --replay and --update.")
    return given[0] if given else None
