"""The `http` agent: an address that receives the same JSON as a command does, by POST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from typing_extensions import override

from agent_eval.agents.base import Agent, AgentOptions, AttemptResult, Surroundings, Task
from agent_eval.agents.http_transport import Address
from agent_eval.agents.recorder import Recorder, UnusableAnswer, read_answer, record_answer
from agent_eval.models.reply import Reply, account_name


class HttpAgent(Agent):
    """Posts every attempt to an address as JSON (`Task.payload`); `recorder.read_answer` reads the answer.

    Args:
        url: The agent's address.
        headers: Headers of each request, such as credentials; never shown or recorded.
        is_gateway: Whether a gateway answers there that is not the agent's own (`agent-gateway`).

    Raises:
        UsageError: `url` is not a usable address.

    Example:
        >>> HttpAgent("https://agent.example/run?key=secret").describe()
        {'agent': 'http', 'url': 'https://agent.example/run'}
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, is_gateway: bool = False
    ) -> None:
        self._address = Address(url, secret_headers=headers, is_gateway=is_gateway)
        self._is_gateway = is_gateway
        self.account = account_name(url, *(f"{name}: {value}" for name, value in (headers or {}).items()))

    @classmethod
    @override
    def from_options(cls, rest: str, options: AgentOptions) -> HttpAgent:
        return cls(rest, headers=options.headers, is_gateway=options.gateway)

    @classmethod
    @override
    def from_description(
        cls, described: Mapping[str, Any], options: AgentOptions
    ) -> tuple[str, AgentOptions]:
        gateway = options.gateway or described.get("gateway") is True
        return str(described["url"]), replace(options, gateway=gateway)

    @override
    def describe(self) -> dict[str, Any]:
        described: dict[str, Any] = {"agent": "http", "url": self._address.url.partition("?")[0]}
        return {**described, "gateway": True} if self._is_gateway else described

    @override
    def close(self) -> None:
        self._address.close()

    @override
    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        recorder = Recorder(task, surroundings)
        recorder.record_input()
        payload, limits = task.payload(), task.limits

        def send() -> Reply[bytes]:
            began = surroundings.clocks.monotonic()
            reply = self._address.post(payload, seconds=limits.seconds, max_bytes=limits.output_bytes)
            recorder.seconds = surroundings.clocks.monotonic() - began
            return reply

        reply, recorder.retries = surroundings.retry(send)
        if reply.value is None:
            return recorder.result(None, reply.failure, reply.problem)
        try:
            answer = read_answer(reply.value, what="its answer")
        except UnusableAnswer as unusable:
            recorder.artifacts["answer.txt"] = reply.value
            return recorder.result(None, unusable.failure, unusable.problem)
        return record_answer(recorder, answer, recorder.seconds)
