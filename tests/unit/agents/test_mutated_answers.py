"""Malformed answers of hosted models, through the real SDKs: no exception, and no pass of a cut answer."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from agent_eval.agents.base import Agent, AttemptResult
from agent_eval.agents.hosted import agent_of
from agent_eval.contracts import AttemptLimits, Case, Trace, canonical_json
from agent_eval.judges import judge_case, load_judges
from tests.extent import amount
from tests.fakes.json_server import JsonServer
from tests.fakes.models import FAKES, Step
from tests.unit.agents.tasks import attempt

ANSWERS = amount(150, 750, 3_000)
"""Mutated answers of each provider."""

CUT_OR_REFUSED = {
    "openai": ["length", "content_filter", "LENGTH", "content-filter", "max_tokens", "refusal"],
    "anthropic": ["max_tokens", "refusal", "model_context_window_exceeded", "MAX_TOKENS", "content_filter"],
}
STRANGE: list[Any] = [
    *(None, True, False, 0, -1, 1.5, 10**30, 1e308),
    *("", " ", "x" * 5_000, "12", "NaN", "\u200b", "\U0001f600"),
    *([], {}, [[]], [None], {"type": "text"}, {"text": 5}, {"a": {"b": []}}),
    [{"type": "text", "text": None}],
]
TASK = {
    "metadata": {"tools": [{"name": "lookup"}], "tool_responses": {"lookup": "shipped"}},
    "limits": AttemptLimits(steps=4),
    "policy": {"forbidden_tools": ["delete"]},
}


FINISH_AT: dict[str, tuple[Any, ...]] = {
    "openai": ("choices", 0, "finish_reason"),
    "anthropic": ("stop_reason",),
}
"""Where a provider says why the model stopped."""


class Provider:
    """A provider's agent, its server, and its answers.

    `finish_at` is the path of the provider's word for why the model stopped.
    """

    def __init__(self, name: str, stack: ExitStack) -> None:
        self.name, self.finish_at = name, FINISH_AT[name]
        self.server = stack.enter_context(JsonServer())
        base_url = f"{self.server.origin}/v1" if name == "openai" else self.server.origin
        self.agent: Agent = agent_of(name)("small", base_url=base_url, api_key="k")
        stack.enter_context(closing(self.agent))

    def body(self, *, calls: bool = False, finish: Any = None) -> dict[str, Any]:
        step = Step(text="It is shipped.", calls=[("lookup", {"id": 7})] if calls else [])
        body = FAKES[self.name].answer({"model": "small"}, step, 1)
        if finish is not None:
            put(body, self.finish_at, finish)
        return body

    def attempt(self, *bodies: Any) -> AttemptResult:
        self.server.asked.clear()
        self.server.answers = [(200, {}, json.dumps(body).encode()) for body in bodies]
        return attempt(self.agent, "Where is order 7?", **copy.deepcopy(TASK))


@pytest.fixture(params=FAKES)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with ExitStack() as stack:
        yield Provider(request.param, stack)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value within a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(value[key], (*path, key))


def put(body: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        body = body[step]
    body[path[-1]] = value


def mutate(rng: random.Random, body: Any, keep: tuple[Any, ...]) -> None:
    """Change a body in one to four places, other than `keep` and what holds it."""
    for _ in range(rng.randint(1, 4)):
        paths = [path for path in places(body) if keep[: len(path)] != path]
        if not paths:
            return
        path = rng.choice(paths)
        parent = body
        for step in path[:-1]:
            parent = parent[step]
        how = rng.choice(["replace", "replace", "remove", "add", "repeat"])
        if how == "remove":
            del parent[path[-1]]
        elif how == "replace":
            parent[path[-1]] = copy.deepcopy(rng.choice(STRANGE))
        elif isinstance(parent, dict):
            parent[rng.choice(["refusals", "extra", "type", "error", "audio"])] = copy.deepcopy(
                rng.choice(STRANGE)
            )
        else:
            parent.append(copy.deepcopy(parent[path[-1]]))


def passes(result: AttemptResult) -> bool:
    """Whether a case with this attempt would pass, judged as a run of the agent judges it."""
    failure = result.failure.value if result.failure else None
    history = [{"attempt": 0, "failure": failure, "problem": result.problem}]
    case = Case.model_validate(
        {"case_id": "a", "policy": TASK["policy"], "metadata": {"attempt_history": history}}
    )
    verdicts = judge_case(load_judges(["policy"]), case, Trace(result.events))
    return all(verdict.passed or verdict.outcome.value == "skipped" for verdict in verdicts)


def test_mutated_answers_raise_nothing_and_can_be_written(provider: Provider) -> None:
    rng = random.Random(20261122)
    ended = 0
    for _ in range(ANSWERS):
        turns = rng.choice([(False,), (True, False)])
        bodies = [provider.body(calls=calls) for calls in turns]
        mutate(rng, bodies[0], ())
        result = provider.attempt(*bodies)
        canonical_json([event.to_json() for event in result.events])
        ended += result.failure is None
    assert 0 < ended < ANSWERS


def test_mutated_answers_that_were_cut_or_refused_never_pass(provider: Provider) -> None:
    rng = random.Random(8)
    for _ in range(ANSWERS):
        word = rng.choice(CUT_OR_REFUSED[provider.name])
        body = provider.body(calls=rng.random() < 0.3, finish=word)
        if rng.random() < 0.8:
            mutate(rng, body, provider.finish_at)
        assert not passes(provider.attempt(body)), body


@pytest.mark.parametrize("calls", [False, True])
def test_cut_and_refused_answers_are_recorded_and_call_no_tool(provider: Provider, calls: bool) -> None:
    for word in CUT_OR_REFUSED[provider.name]:
        result = provider.attempt(provider.body(calls=calls, finish=word))
        assert result.failure is not None
        assert word in result.problem
        assert result.output == "It is shipped."
        assert [event.type for event in result.events if event.actor == "tool"] == []
        assert not passes(result)


@pytest.mark.parametrize(
    "word", ["insufficient_system_resource", "pause_turn", ["stop"], {"reason": "stop"}, 5]
)
def test_an_unknown_reason_is_no_end(provider: Provider, word: Any) -> None:
    result = provider.attempt(provider.body(calls=False, finish=word))
    assert result.failure is not None
    assert "unknown reason" in result.problem


def test_proper_answers_pass(provider: Provider) -> None:
    asked, answered = provider.body(calls=True), provider.body()
    for bodies in ((answered,), (asked, answered)):
        result = provider.attempt(*bodies)
        assert (result.output, result.failure) == ("It is shipped.", None)
        assert passes(result)
    put(answered, provider.finish_at, None)
    assert provider.attempt(answered).failure is None
