"""`agent-eval demo-agent`."""

from __future__ import annotations

from contextlib import suppress

import click

from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import emit
from agent_eval.text.numbers import count


@click.command("demo-agent", cls=TableCommand, path="demo-agent")
def demo_agent(port: int, defects: tuple[str, ...], list_defects: bool) -> None:
    """Serve the agents of the bundled suites by the AUI API on this machine, until it is interrupted.

    Any API key is accepted. With --defect the agents are worse in known ways, which their suites catch.
    """
    from agent_eval.demo.aui_server import DemoAgents, DemoServer
    from agent_eval.demo.defects import DEFECTS
    from agent_eval.demo.domain import domains_by_agent

    if list_defects:
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
