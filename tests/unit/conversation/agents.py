"""An agent that answers as a script says, and conversations with a scripted user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_eval.agents.base import Agent, AttemptResult, Clocks, Surroundings, Task
from agent_eval.agents.recorder import Recorder
from agent_eval.contracts.conversation import ConversationEnd, conversation_end
from agent_eval.conversation.loop import Setting, attempt_case
from agent_eval.conversation.simulated_user import Simulation
from agent_eval.errors import FailureKind
from agent_eval.models.scripted import ScriptedModel
from tests.unit.agents.tasks import STILL, around, make_task

Answer = str | None | FailureKind | Mapping[str, Any]

FORWARDED = {"executed_workflows": ["CONVERSATION_FORWARDING"], "trace_info": {}}
ERROR = {"executed_workflows": [], "trace_info": {"response": {"type": "error"}}}
BOTH = {**ERROR, "executed_workflows": ["CONVERSATION_FORWARDING"]}


class ScriptedAgent(Agent):
    """Answers each turn with the next answer, the last one again and again; remembers its tasks.

    A text is said, a failure fails the turn, and a mapping is the `aui` attribute of the answer.
    """

    def __init__(self, *answers: Answer, takes: float = 0.0) -> None:
        self.answers: Sequence[Answer] = answers or ("ok",)
        self.takes = takes
        self.tasks: list[Task] = []

    def describe(self) -> dict[str, Any]:
        return {"agent": "scripted"}

    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        turn = task.session.turn if task.session is not None else 1
        self.tasks.append(task)
        answer = self.answers[min(turn, len(self.answers)) - 1]
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        limit = task.limits.seconds
        recorder.seconds = self.takes if limit is None else min(self.takes, limit)
        if limit is not None and self.takes > limit:
            return recorder.result(None, FailureKind.TIMEOUT, f"did not end within {limit:g} s")
        if isinstance(answer, FailureKind):
            return recorder.result(None, answer, "failed as the script says")
        if isinstance(answer, Mapping):
            recorder.add("agent", "message", output="said", attributes={"aui": dict(answer)})
            return recorder.result("said")
        if answer is not None:
            recorder.record_message(answer)
        return recorder.result(answer)


def hold(
    agent: Agent,
    *rows: Mapping[str, Any],
    cancelled: Callable[[], bool] = lambda: False,
    seconds: float | None = None,
    clocks: Clocks | None = None,
    **fields: Any,
) -> AttemptResult:
    """Hold a conversation whose user says what the rows of a script say."""
    given = {"given": None, "conversation": {"guidelines": "You want a refund."}, **fields}
    task = make_task(**given)
    task = replace(task, limits=task.limits.model_copy(update={"seconds": seconds}))
    simulation = Simulation(ScriptedModel(rows))
    surroundings = around(task, clocks=clocks or STILL)
    return attempt_case(agent, task, surroundings, Setting(simulation, cancelled=cancelled))


def end_of(result: AttemptResult) -> ConversationEnd:
    """The end that the trace records."""
    end = conversation_end(result.events)
    assert end is not None
    return end


def said(result: AttemptResult) -> list[Any]:
    """What the user said, in order."""
    return [event.input for event in result.events if event.actor == "user"]
