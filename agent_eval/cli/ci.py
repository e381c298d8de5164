"""`agent-eval ci`, `demo`, `dev demo-agent` and `init`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import Flag, TableCommand, metavar
from agent_eval.cli.output import emit
from agent_eval.text.escape import shell_word
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
                detail=row.detail,
                default=None,
                help=row.help + (f"  [default: {row.default}]" if row.default else ""),
                hidden=row.hidden,
                is_flag=False,
                # A switch without a value is on.
                flag_value="true" if row.kind == "switch" else None,
            )
            for row in INPUTS
        ]

    def of_platform(self) -> tuple[str, ...]:
        """Name the inputs of the platform that this is; outside CI, of a directory of earlier runs."""
        import os

        from agent_eval.ci.platforms.catalog import detected_platform

        return tuple(row.name for row in detected_platform(os.environ).inputs)


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
    """Write agent-eval.yml, a suite of two cases, and the file of the CI platform that the repository uses.

    On a terminal and without flags, asks at most three questions. Where the platform is not known, writes the
    file of each. Writes nothing if one of its files exists, unless --force is set.
    """
    import pathlib
    import sys

    from agent_eval.demo.scaffold import ADAPTER, ALL, PLATFORMS, SAMPLE, Repository, platforms_of, scaffold
    from agent_eval.operations.environment import git_origin

    remote, branch = git_origin(out)
    repository = Repository(remote, branch or "main")
    context, typed = click.get_current_context(), click.core.ParameterSource.COMMANDLINE
    is_stated = any(context.get_parameter_source(name) is typed for name in context.params)
    if not is_stated and sys.stdin.isatty() and sys.stdout.isatty():
        known = platforms_of(out, repository)
        agent, platforms, action = _ask(tuple(PLATFORMS), known, needs_sample=not (out / SAMPLE).exists())
    if "all" in platforms:
        platforms = tuple(dict.fromkeys((*ALL, *(name for name in platforms if name != "all"))))
    elif not platforms and action is not None:
        platforms = ("github",)
    wanted = () if platforms == ("none",) else platforms or None
    starter = _starter_agent(agent) if agent is not None else None
    made = scaffold(
        out, platforms=wanted, agent=starter, action=action, image=image, repository=repository, force=force
    )
    files = [str(path) for path in made.written]
    missing = made.to_fill_in()
    last = [f"Still to fill in: {'; '.join(missing)}."] if missing else []
    cd = "" if out == pathlib.Path() else f"cd {shell_word(str(out))} && "
    names = {path.name for path in made.written}
    yours = "agent.py by your agent, and " if SAMPLE in names else ""
    filled = [f"Look at {ADAPTER}, which calls your function."] if ADAPTER in names else []
    emit(
        output_format,
        {"written": files, "to_fill_in": missing, "to_add": made.to_add},
        lambda _colour: [
            *(f"Wrote {name}" for name in files),
            *made.to_add,
            *last,
            *filled,
            f"Next: {cd}agent-eval run   # what agent-eval.yml says",
            f"      {cd}agent-eval ci    # the same job as in CI",
            f"Replace {yours}the two cases by what your users ask.",
        ],
    )


def _ask(
    platforms: tuple[str, ...], known: tuple[str, ...], *, needs_sample: bool
) -> tuple[str | None, tuple[str, ...], str | None]:
    """Ask for the agent, for the CI platform where it is not known, and for the action where there is one."""
    without = "a sample" if needs_sample else "judge recorded traces"
    agent = click.prompt(
        f"Your agent: a command, an address or openai:MODEL (empty: {without})",
        default="",
        show_default=False,
        err=True,
    )
    chosen: tuple[str, ...] = ()
    if not known:
        names = ("all", *platforms)
        chosen = (click.prompt("CI", default="all", type=click.Choice(names), err=True),)
    action = ""
    if "github" in (known or chosen):
        action = click.prompt(
            "The action, as owner/repository@commit (empty: fill it in later)",
            default="",
            show_default=False,
            err=True,
        )
    if known and action.strip():
        chosen = known
    return agent.strip() or None, chosen, action.strip() or None


def _starter_agent(agent: str) -> StarterAgent:
    """Tell how `agent-eval.yml` names an agent, and the variable of its key.

    Raises:
        UsageError: It names no agent.
    """
    from agent_eval.agents.catalog import agent_forms, kind_of
    from agent_eval.demo.scaffold import ADAPTER, StarterAgent
    from agent_eval.errors import UsageError

    kind = kind_of(agent)
    spec = agent.removeprefix("python:")
    place, _, name = spec.partition(":")
    module = place.removesuffix(".py")
    can_be_imported = all(part.isidentifier() for part in module.split("."))
    if kind is None or (
        kind.sees_environment and not (name.isidentifier() and (can_be_imported or module != place))
    ):
        raise UsageError(
            f"{agent!r} names no agent", remedy=f"Write it as one of: {agent_forms()}.", field="agent"
        )
    if kind.sees_environment:  # a job runs it in a program of its own, which does not see the job's token
        file = place if module != place else f"{module.replace('.', '/')}.py"
        if can_be_imported and not _is_assigned(file, name):
            return StarterAgent(f"python3 {ADAPTER}", function=(module, name))
        command = f"python3 -m agent_eval.agents.program {shell_word(spec)}"
        return StarterAgent(command, "OPENAI_API_KEY", is_object=True)
    return StarterAgent(agent.removeprefix("command:"), kind.key_variable)


def _is_assigned(file: str, name: str) -> bool:
    """Whether a file gives a name to an object, as by `agent = …`, and not to a function."""
    import ast
    from pathlib import Path

    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False
    targets: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign):
            targets.append(node.target)
    return any(isinstance(target, ast.Name) and target.id == name for target in targets)


@click.command(cls=TableCommand, path="dev demo-agent")
def demo_agent(port: int, defects: tuple[str, ...]) -> None:
    """Serve the agents of the bundled suites by the AUI API on this machine, until it is interrupted.

    Any API key is accepted. With --defect the agents are worse in known ways, which their suites catch;
    `--defect list` lists them.
    """
    from agent_eval.demo.agents import DEFECTS, domains_by_agent
    from agent_eval.demo.aui_server import DemoAgents, DemoServer

    if "list" in defects:
        emit("text", {}, lambda _colour: [f"{name}: {each.does}" for name, each in DEFECTS.items()])
        return
    server = DemoServer(DemoAgents(defects), port)
    with_defects = f" Defects: {', '.join(defects)}." if defects else ""
    agents = count(len(domains_by_agent()), "AUI agent")
    lines = [
        f"Serving {agents} at {server.url}.{with_defects} Ctrl-C ends it.",
        f"  AUI_API_KEY=any agent-eval run demo:hr --set agent.base_url={server.url} ...",
    ]
    emit("text", {}, lambda _colour: lines)
    with suppress(KeyboardInterrupt):
        server.serve()
