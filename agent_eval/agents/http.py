"""An agent behind an address: the same JSON as a command gets, by POST."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.agents.base import AgentOptions, AttemptResult, Sent, Surroundings, Task, account_name
from agent_eval.agents.http_transport import Address
from agent_eval.agents.recorder import Recorder, UnusableAnswer, read_answer, record_answer


class HttpAgent:
    """Sends every attempt to an address. It is given `Task.payload` and answers as `answer` describes.

    Args:
        url: Where it is.
        headers: Sent along, and shown nowhere; for credentials.

    Raises:
        UsageError: `url` is no address.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._address = Address(url, secret_headers=headers)
        self.account = account_name(url, *(f"{name}: {value}" for name, value in (headers or {}).items()))

    @classmethod
    def from_options(cls, rest: str, options: AgentOptions) -> HttpAgent:
        """See `catalog.open_agent`."""
        return cls(rest, headers=options.headers)

    def describe(self) -> dict[str, Any]:
        """See `Agent.describe`."""
        return {"agent": "http", "url": self._address.url.partition("?")[0]}

    def close(self) -> None:
        """See `Agent.close`. Connections go with the threads that made them."""

    def attempt(self, task: Task, surroundings: Surroundings) -> AttemptResult:
        """See `Agent.attempt`."""
        recorder = Recorder(task, surroundings)
        recorder.asked()
        payload, limits = task.payload(), task.limits

        def send() -> Sent[bytes]:
            began = surroundings.clocks.monotonic()
            sent = self._address.post(payload, seconds=limits.seconds, max_bytes=limits.output_bytes)
            recorder.seconds = surroundings.clocks.monotonic() - began
            return sent

        sent, recorder.retries = surroundings.retry(send)
        if sent.value is None:
            return recorder.result(None, sent.failure, sent.problem)
        try:
            answer = read_answer(sent.value, what="its answer")
        except UnusableAnswer as unusable:
            recorder.artifacts["answer.txt"] = sent.value
            return recorder.result(None, unusable.failure, unusable.problem)
        return record_answer(recorder, answer, recorder.seconds)
