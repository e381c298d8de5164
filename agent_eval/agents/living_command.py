"""Programs of a `command` agent that stay alive for a conversation: one line of JSON a turn, in and out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from agent_eval.agents.recorder import Recorder
from agent_eval.agents.tool_address import TOOLS_VARIABLE, ToolAddress
from agent_eval.processes.conversing_child import ConversingChild

Starter = Callable[[Mapping[str, str]], ConversingChild]
"""Starts the program, with further variables in its environment."""


@dataclass
class LivingProgram:
    """One program with the address of its tools.

    Example:
        >>> LivingProgram.__annotations__["tools"]
        'ToolAddress'
    """

    child: ConversingChild
    tools: ToolAddress
    stack: ExitStack = field(default_factory=ExitStack)


class LivingPrograms:
    """The programs of the conversations in progress, by the ids of their sessions. Safe to use from threads.

    Example:
        >>> programs = LivingPrograms()
        >>> programs.end("no such session")
    """

    def __init__(self) -> None:
        self._programs: dict[str, LivingProgram] = {}
        self._lock = threading.Lock()

    def of_session(self, session_id: str, recorder: Recorder, start: Starter) -> LivingProgram:
        """Return the program of a session, which is started for its first turn.

        Args:
            session_id: The session.
            recorder: Records the calls of tools in the present turn.
            start: Starts the program.
        """
        with self._lock:
            program = self._programs.get(session_id)
        if program is not None:
            program.tools.record_with(recorder)
            return program
        with ExitStack() as stack:
            tools = stack.enter_context(ToolAddress(recorder))
            child = start({TOOLS_VARIABLE: tools.url})
            stack.callback(child.close)
            program = LivingProgram(child, tools, stack.pop_all())
        with self._lock:
            self._programs[session_id] = program
        return program

    def end(self, session_id: str) -> None:
        """End the program of a session, with everything that it started."""
        with self._lock:
            program = self._programs.pop(session_id, None)
        if program is not None:
            program.stack.close()

    def end_all(self) -> None:
        """End every program."""
        for session_id in list(self._programs):
            self.end(session_id)
