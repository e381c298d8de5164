"""Google ADK: agents and apps. A plugin records; every run of the process gets it, so also what tools run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner, Runner
from google.adk.tools.base_tool import BaseTool
from google.genai import types
from typing_extensions import override

from agent_eval.agents.frameworks.conversation import Conversation, in_place_of, in_progress
from agent_eval.agents.frameworks.trajectory import Call, Thought, Trajectory, at, plain, read_json, tokens
from agent_eval.agents.recorder import as_text
from agent_eval.contracts.event import AGENT, HANDOFF

_ANSWER_TOOL = "set_model_response"
_OF_THE_FRAMEWORK = {_ANSWER_TOOL, "transfer_to_agent"}
_CODE = "code_execution"
_USAGE = "prompt_token_count candidates_token_count cached_content_token_count thoughts_token_count"


class GoogleADKConversation(Conversation):
    """A session, kept in memory."""

    @override
    def begin(self) -> None:
        app = self.agent if isinstance(self.agent, App) else App(name="agent_eval", root_agent=self.agent)
        self._root, self._runner = app.root_agent, InMemoryRunner(app=app)
        self._runner.auto_create_session = True

    @classmethod
    @override
    def unable(cls, agent: Any) -> Mapping[str, str]:
        members = list(_members(agent.root_agent if isinstance(agent, App) else agent))
        tools = [tool for each in members for tool in getattr(each, "tools", [])]
        runs_elsewhere = any(getattr(type(tool), "run_async", 0) is BaseTool.run_async for tool in tools)
        if not runs_elsewhere and not any(getattr(each, "code_executor", None) for each in members):
            return {}
        return {
            "answers": "answers of tools, which cannot take the place of the provider's tools and of code"
        }

    @override
    async def say(self, message: Any) -> Any:
        answer = error = None
        async for event in self._runner.run_async(
            user_id="user", session_id="session", new_message=types.UserContent(as_text(message))
        ):
            names = [call.name for call in event.get_function_calls()]
            self.must_not_wait([name for name in names if name == "adk_request_confirmation"])
            error = event.error_code and f"{event.error_code}: {event.error_message}"
            texts = [part.text for part in at(event, "content.parts") or [] if part.text and not part.thought]
            if event.is_final_response() and texts:
                answer = "".join(texts)
        if error is not None and answer is None:
            raise RuntimeError(error)
        return read_json(answer) if getattr(self._root, "output_schema", None) else answer


def _members(agent: Any) -> Iterator[BaseAgent]:
    yield agent
    inner = [getattr(tool, "agent", None) for tool in getattr(agent, "tools", [])]
    for each in [*agent.sub_agents, *filter(None, inner)]:
        yield from _members(each)


class _Watch(BasePlugin):
    """Records models and tools of the turn in whose context they run, and answers for a case's tools."""

    @override
    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        conversation = in_progress()
        if conversation is None or llm_response.partial:
            return
        trajectory, parts = conversation.trajectory, list[Any]()
        for part in at(llm_response, "content.parts") or []:
            if call := part.function_call:
                parts.append(Call(call.name, call.args, call.id or call.name))
            elif part.executable_code:
                trajectory.call(Call(_CODE, part.executable_code.code, _CODE), ran_on="server")
            elif part.code_execution_result:
                trajectory.result(_CODE, part.code_execution_result.output)
            else:
                parts.append(Thought(part.text) if part.thought else part.text)
        trajectory.answered(
            *parts,
            agent_name=callback_context.agent_name,
            model=llm_response.model_version,
            stop_reason=(at(llm_response, "finish_reason.name") or "").lower() or None,
            usage=tokens(llm_response.usage_metadata, _USAGE),
        )

    @override
    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> Any:
        conversation = in_progress()
        if conversation is None or conversation.tools is None or tool.name in _OF_THE_FRAMEWORK:
            return None
        call_id = _call_id(conversation.trajectory, tool, tool_args, tool_context)
        answer = plain(await conversation.answer_of_the_case(tool.name, tool_args, call_id))
        return answer if isinstance(answer, dict) else {"result": answer}

    @override
    async def after_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any) -> None:
        if (conversation := in_progress()) is None:
            return
        trajectory = conversation.trajectory
        call_id = _call_id(trajectory, tool, tool_args, tool_context)
        if tool.name == _ANSWER_TOOL:
            trajectory.is_the_answer(call_id)
        elif trajectory.lacks_result(call_id):
            trajectory.result(call_id, result)
        if (to := tool_context.actions.transfer_to_agent) is not None:
            trajectory.add(AGENT, HANDOFF, agent_name=tool_context.agent_name, output=to)

    @override
    async def on_tool_error_callback(self, *, error: Exception, **call: Any) -> None:
        if (conversation := in_progress()) is not None:
            conversation.trajectory.result(_call_id(conversation.trajectory, **call), error=error)


def _call_id(trajectory: Trajectory, tool: Any, tool_args: Any, tool_context: Any) -> str:
    """The id of a call; where a model gives none, the framework makes one up when the answer is recorded."""
    call_id = str(tool_context.function_call_id)
    return trajectory.running(tool.name, tool_args, call_id) or call_id


_WATCH = _Watch("agent_eval")


@in_place_of(Runner, "run_async")
def _run(real: Any, _: Conversation, runner: Any, /, **options: Any) -> Any:
    if runner.plugin_manager.get_plugin(_WATCH.name) is None:
        runner.plugin_manager.plugins.insert(0, _WATCH)  # before others, which may answer in place of a tool
    return real(runner, **options)
