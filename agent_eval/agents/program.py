"""An agent object or a function as a program, which a CI job runs beside its token.

    python -m agent_eval.agents.program agent.py:agent

Each line of standard input is a task, and gets a line with the answer. Calls of tools are answered at the
address in `AGENT_EVAL_TOOLS` where the case has answers. What the agent prints goes to standard error, and so
does what it raises; a function that raises ends the program with 1.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import traceback
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import override

from agent_eval.agents.command import TOOLS_VARIABLE
from agent_eval.agents.frameworks import AgentObject, CaseTools, Unfinished
from agent_eval.agents.load import accepts, load_agent
from agent_eval.errors import UsageError
from agent_eval.processes.serving import own_streams

_WITHOUT_ADDRESS = {"answers": False, "steps": None, "answer_tool": None}


class Tools(CaseTools):
    """The tools of the case, at the address of the attempt."""

    def __init__(self, address: str | None) -> None:
        self._address = None if address is None else urlsplit(address)

    def limits(self) -> Mapping[str, Any]:
        """Return the `steps` and the `answer_tool` of the attempt, and whether its case has `answers`."""
        return _WITHOUT_ADDRESS if self._address is None else self._ask("GET", None)

    @override
    def answer(self, tool: str, arguments: Any, *, is_recorded: bool = False) -> Mapping[str, Any]:
        answer = self._ask("POST", {"tool": tool, "arguments": arguments, "recorded": is_recorded})
        if "output" not in answer:
            raise RuntimeError(answer["error"])
        return answer

    def _ask(self, method: str, body: Any) -> Mapping[str, Any]:
        if self._address is None:
            raise RuntimeError(f"{TOOLS_VARIABLE} is not set: nothing answers calls of tools")
        with closing(HTTPConnection(self._address.hostname or "", self._address.port)) as connection:
            connection.request(method, self._address.path, None if body is None else json.dumps(body))
            answer: Mapping[str, Any] = json.loads(connection.getresponse().read())
        return answer


def main(spec: str) -> None:
    """Answer tasks, until there are no more."""
    requests, answers = own_streams()
    try:
        agent = load_agent(spec)
    except UsageError as error:
        sys.exit(f"{error.message}. {error.remedy}")
    loop = asyncio.new_event_loop()  # one for all turns: clients of models are bound to theirs
    tools = Tools(os.environ.get(TOOLS_VARIABLE))
    for turns, line in enumerate(requests, start=1):
        task = json.loads(line)
        if task.get("turn", 1) > turns:
            sys.exit(
                "the conversation began in another process: keep this one, with --set agent.keep_alive=true"
            )
        try:
            answer = _ask(agent, task, tools)
            if inspect.iscoroutine(answer):
                answer = loop.run_until_complete(answer)
        except Unfinished as unfinished:
            if unfinished.__cause__ is not None:
                traceback.print_exception(unfinished.__cause__)
            answer = {"events": unfinished.events, "error": unfinished.problem}
        answers.send(json.dumps(answer, default=str).encode())


def _ask(agent: Any, task: Mapping[str, Any], tools: Tools) -> Any:
    if not isinstance(agent, AgentObject):
        return agent(task, tools) if accepts(agent, 2) else agent(task)
    limits = tools.limits()
    wanted = {"answers": limits["answers"], "turns": "turn" in task}
    for name, reason in agent.unable.items():
        if wanted[name]:
            sys.exit(f"the agent does not carry {reason}")
    return agent(task, limits, tools if limits["answers"] else None)


if __name__ == "__main__":
    main(sys.argv[1])
