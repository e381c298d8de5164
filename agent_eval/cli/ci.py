"""`agent-eval ci`, `demo`, `dev demo-agent` and `init`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import Flag, TableCommand, metavar
from agent_eval.cli.output import emit
from agent_eval.text.numbers import count

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.demo.scaffold import StarterAgent


class _JobCommand(TableCommand):
    """A command whose flags are the job's inputs.

    The job parses the flags' texts itself, since they may also come from variables, a file or the action.
    """

    def flags(self) -> list[click.Parameter]:
        """Make a flag for every input, including those of the platforms."""
        from agent_eval.ci.config import INPUTS

        return [
            Flag(
                [*(f"--{name}" for name in row.names), row.field],
                multiple=row.is_listed,
                metavar=metavar(row),
                default=None,
                help=row.documentation,
                is_flag=False,
                # A switch without a value is on.
                flag_value="true" if row.kind == "switch" else None,
            )
            for row in INPUTS
        ]


@click.command(cls=_JobCommand, path="ci")
def ci(**values: Any) -> int:
    """Score, compare with an earlier run's evidence, comment, and set the job's status.

    Every flag can also be set as the environment variable AGENT_EVAL_<NAME>, in the file agent-eval.yml,
    or as an input of the action. Outside CI the comment is printed.
    """
    import sys

    from agent_eval.ci.config import INPUTS
    from agent_eval.ci.job import run_job
    from agent_eval.processes.privacy import hide_environment

    environ = hide_environment()
    inputs = {}
    for row in INPUTS:
        value = values.get(row.field)
        if value is not None and value != ():
            inputs[row.name] = "\n".join(value) if isinstance(value, tuple) else value
    return int(run_job(inputs, environ, sys.stdout))


@click.command(cls=TableCommand, path="demo")
@click.argument("example", metavar="[conversations]", required=False, type=click.Choice(["conversations"]))
def demo(out: Path, example: str | None) -> int:
    """Run the whole job on a bundled example: a support agent that was moved to a smaller model.

    `demo conversations` shows a suite of conversations instead of recorded traces.
    Needs no key, no server and no Docker. The command makes the baseline, runs what `ci` runs, and prints one
    screen: the decision, the cases that regressed, and the files to look at. Exits 0 although the example's
    gate fails: the demonstration worked.
    """
    import os
    import sys

    from agent_eval.ci.demonstration import run_conversations, run_demonstration

    run = run_conversations if example else run_demonstration
    return int(run(out, os.environ, sys.stdout))


@click.command(cls=TableCommand, path="init")
def init(
    out: Path,
    agent: str | None,
    platforms: tuple[str, ...],
    action: str | None,
    image: str | None,
    force: bool,
    output_format: str,
) -> None:
    """Write a starter suite, judge configuration, a gate policy, agent-eval.yml, and files of CI platforms.

    On a terminal and without flags, asks which agent, which CI and which action. Writes nothing if one of the
    files exists, unless --force is set.
    """
    from agent_eval.demo.scaffold import ALL, PLATFORMS, scaffold, to_fill_in
    from agent_eval.text.escape import shell_word

    if _may_ask():
        agent, platforms, action = _ask(tuple(PLATFORMS))
    platforms = platforms or (("github",) if action is not None and image is None else ("all",))
    if "all" in platforms:
        platforms = tuple(dict.fromkeys((*ALL, *(name for name in platforms if name != "all"))))
    starter = starter_agent(agent) if agent is not None else None
    written = scaffold(out, platforms=platforms, agent=starter, action=action, image=image, force=force)
    files = [str(path) for path in written]
    missing = to_fill_in(written)
    last = [f"Still to fill in: {'; '.join(missing)}."] if missing else []
    running = f" --agent {shell_word(agent)}" if agent is not None else ""
    emit(
        output_format,
        {"written": files, "to_fill_in": missing},
        lambda _colour: [
            *(f"Wrote {name}" for name in files),
            f"Next: agent-eval run suites/starter_suite.json{running}",
            *last,
        ],
    )


def _may_ask() -> bool:
    """Tell whether a person can answer, and has not said anything by a flag."""
    import sys

    context = click.get_current_context()
    stated = [name for name in context.params if context.get_parameter_source(name) is _COMMAND_LINE]
    return not stated and sys.stdin.isatty() and sys.stdout.isatty()


_COMMAND_LINE = click.core.ParameterSource.COMMANDLINE


def _ask(platforms: tuple[str, ...]) -> tuple[str | None, tuple[str, ...], str | None]:
    """Ask for the agent, the CI platform and the action; an empty answer leaves one out."""
    agent = click.prompt(
        "Your agent: a command, an address or openai:MODEL (empty: judge recorded traces)",
        default="",
        show_default=False,
        err=True,
    )
    platform = click.prompt("CI", default="github", type=click.Choice(platforms), err=True)
    action = ""
    if platform == "github":
        action = click.prompt(
            "The action, as owner/repository@commit (empty: fill it in later)",
            default="",
            show_default=False,
            err=True,
        )
    return agent.strip() or None, (platform,), action.strip() or None


def starter_agent(agent: str) -> StarterAgent:
    """Find the input of the CI job that names an agent, and the variable of its key.

    Raises:
        UsageError: It names no agent, or one that CI does not run.
    """
    from agent_eval.agents.catalog import agent_forms, kind_of
    from agent_eval.demo.scaffold import StarterAgent
    from agent_eval.errors import UsageError

    kind = kind_of(agent)
    if kind is None:
        raise UsageError(
            f"{agent!r} names no agent", remedy=f"Write it as one of: {agent_forms()}.", field="agent"
        )
    if kind.sees_environment:
        raise UsageError(
            f"{agent!r} would see the job's token",
            remedy="Give a program that calls the function, such as 'python agent.py'.",
            field="agent",
        )
    if kind.name == "command":
        return StarterAgent("agent-command", agent.removeprefix("command:"), in_settings=True)
    if kind.name == "http":
        return StarterAgent("agent-url", agent)
    return StarterAgent("agent", agent, kind.key_variable or "")


@click.command(cls=TableCommand, path="dev demo-agent")
def demo_agent(port: int, defects: tuple[str, ...]) -> None:
    """Serve the agents of the bundled suites by the AUI API on this machine, until it is interrupted.

    Any API key is accepted. With --defect the agents are worse in known ways, which their suites catch;
    `--defect list` lists them.
    """
    from agent_eval.demo.aui_server import DemoAgents, DemoServer
    from agent_eval.demo.defects import DEFECTS
    from agent_eval.demo.domain import domains_by_agent

    if "list" in defects:
        emit("text", {}, lambda _colour: [f"{each.name}: {each.does}" for each in DEFECTS.values()])
        return
    server = DemoServer(DemoAgents(defects), port)
    with_defects = f" Defects: {', '.join(defects)}." if defects else ""
    agents = count(len(domains_by_agent()), "AUI agent")
    lines = [
        f"Serving {agents} at {server.url}.{with_defects} Ctrl-C ends it.",
        f"  AUI_API_KEY=any agent-eval run demo:hr --base-url {server.url} ...",
    ]
    emit("text", {}, lambda _colour: lines)
    with suppress(KeyboardInterrupt):
        server.serve()
