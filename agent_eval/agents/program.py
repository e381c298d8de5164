"""An agent object or a function as a program, which a CI job runs beside its token.

    python -m agent_eval.agents.program agent.py:agent

Each line of standard input is a task, and gets a line with the answer. What the agent prints goes to standard
error, and so does what it raises; then the program ends with 1.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import sys
import traceback
from typing import Any

from agent_eval.agents.frameworks import AgentObject, Unfinished
from agent_eval.agents.frameworks.catalog import QUIET
from agent_eval.agents.load import load_agent
from agent_eval.errors import UsageError
from agent_eval.processes.serving import own_streams


def main(spec: str) -> None:
    """Answer tasks, until there are no more."""
    requests, answers = own_streams()
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        agent = load_agent(spec)
    except UsageError as error:
        sys.exit(f"{error.message}. {error.remedy}")
    loop = asyncio.new_event_loop()  # one for all turns: clients of models are bound to theirs
    for turns, line in enumerate(requests, start=1):
        task = json.loads(line)
        if task.get("turn", 1) > turns:
            sys.exit(
                "the conversation began in another process: keep this one, with --set agent.keep_alive=true"
            )
        try:
            answer: Any = (
                agent(task, {"steps": None, "answer_tool": None}, None)
                if isinstance(agent, AgentObject)
                else agent(task)
            )
            if inspect.iscoroutine(answer):
                answer = loop.run_until_complete(answer)
        except Unfinished as unfinished:
            if unfinished.__cause__ is not None:
                traceback.print_exception(unfinished.__cause__)
            sys.exit(f"the agent {unfinished.problem}")
        answers.send(json.dumps(answer, default=str).encode())


if __name__ == "__main__":
    main(sys.argv[1])
