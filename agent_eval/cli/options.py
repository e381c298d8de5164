"""Options and value types that several commands share. A flag has one spelling and one meaning."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

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
