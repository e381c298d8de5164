"""Models that judge, through the real SDKs against servers on localhost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from agent_eval.contracts.event import Finish
from agent_eval.errors import FailureKind, UsageError
from agent_eval.models import hosted
from agent_eval.models.base import Message, Model, ModelFailure, ModelOptions, ModelRequest
from agent_eval.models.catalog import described, open_model
from agent_eval.models.client import ModelClient
from agent_eval.models.hosted import Question
from agent_eval.models.openai import OpenAiModel
from agent_eval.models.retries import AdaptiveLimit, Retries
from tests.fakes.models import FAKES, FakeModel, FakeOpenAi, Step
from tests.unit.models.test_retries import Time

SCHEMA = {"type": "object", "properties": {"verdict": {"type": "string"}}, "required": ["verdict"]}
KEY = "k-canary-123"


def make_request(**fields: Any) -> ModelRequest:
    given: dict[str, Any] = {
        "purpose": "judge",
        "system": "You judge.",
        "messages": (Message("user", ("the conversation", "the criterion")),),
        "reply_schema": SCHEMA,
        "max_tokens": 500,
    }
    return ModelRequest(**{**given, **fields})


Serve = Callable[..., tuple[FakeModel, Model]]


@pytest.fixture(autouse=True)
def no_habits() -> Iterator[None]:
    hosted._habits.clear()
    yield
    hosted._habits.clear()


@pytest.fixture(params=FAKES)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def serve(provider: str) -> Iterator[Serve]:
    with ExitStack() as stack:

        def make(*script: Step, **options: Any) -> tuple[FakeModel, Model]:
            server = stack.enter_context(FAKES[provider](*script))
            given = {"model": "small", "base_url": server.base_url, "api_key": KEY, **options}
            return server, stack.enter_context(closing(open_model(provider, ModelOptions(**given))))

        yield make


def refusal(status: int, message: str, **details: str) -> Step:
    return Step(status=status, body=json.dumps({"error": {"message": message, **details}}).encode())


def client_of(model: Model) -> ModelClient:
    time = Time()
    return ModelClient(model, retries=Retries(wait=time.wait, limit=AdaptiveLimit(clock=time)))


def test_the_reply_has_text_model_usage_and_the_form_that_was_asked_for(serve: Serve):
    server, model = serve(Step(text='{"verdict": "passed"}'))
    reply = model.complete(make_request())
    assert (reply.text, reply.model, reply.finish) == ('{"verdict": "passed"}', "small-2026", Finish.ENDED)
    assert reply.usage is not None
    assert reply.usage.to_json() == {"input_tokens": 100, "output_tokens": 10, "cached_tokens": 5}
    assert (reply.rung, reply.dropped, reply.source) == ("json_schema", (), "model")
    assert KEY in str(server.authorizations[0])
    assert "temperature" not in server.requests[0]
    assert "top_p" not in server.requests[0]


OPENAI_BODY = {
    "model": "small",
    "messages": [
        {"role": "system", "content": "You judge."},
        {"role": "user", "content": "the conversation\n\nthe criterion"},
    ],
    "max_completion_tokens": 500,
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA},
    },
}
SHARED = {"type": "text", "text": "the conversation", "cache_control": {"type": "ephemeral"}}
ANTHROPIC_BODY = {
    "model": "small",
    "max_tokens": 500,
    "system": "You judge.",
    "messages": [{"role": "user", "content": [SHARED, {"type": "text", "text": "the criterion"}]}],
    "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
}


def test_what_is_sent_has_the_schema_and_the_part_that_other_requests_share(serve: Serve, provider: str):
    server, model = serve(Step(text="{}"))
    model.complete(make_request(shared_prefix=True))
    assert server.requests == [{"openai": OPENAI_BODY, "anthropic": ANTHROPIC_BODY}[provider]]


def test_openai_itself_is_given_one_cache_key_for_requests_that_begin_alike():
    def key(model: OpenAiModel, *parts: str, **fields: Any) -> Any:
        request = make_request(messages=(Message("user", parts),), **fields)
        messages = [model.message(message, is_shared=True) for message in request.messages]
        body = model.body(Question("small", messages, request.system))
        model.shape(body, request, None)
        return body.get("prompt_cache_key")

    own, other = OpenAiModel("small"), OpenAiModel("small", base_url="http://localhost:11434/v1")
    first = key(own, "the conversation", "polite", shared_prefix=True)
    assert first == key(own, "the conversation", "brief", shared_prefix=True)
    assert first != key(own, "another conversation", "polite", shared_prefix=True)
    assert first != key(own, "the conversation", "polite", shared_prefix=True, system="You are strict.")
    assert key(own, "the conversation", "polite") is None
    assert key(other, "the conversation", "polite", shared_prefix=True) is None


def test_text_is_asked_for_without_a_schema(serve: Serve):
    server, model = serve(Step(text="Yes, please."))
    reply = model.complete(make_request(reply_schema=None))
    assert (reply.text, reply.rung) == ("Yes, please.", None)
    assert not {"response_format", "output_config"} & set(server.requests[0])


def test_a_server_that_refuses_schemas_is_asked_for_an_object_and_then_in_words_and_stays_asked_so(
    serve: Serve, provider: str
):
    server, model = serve(
        refusal(400, "'response_format.type' must be text: json_schema is not supported"),
        refusal(400, "Failed to generate JSON.", code="json_validate_failed"),
        Step(text='{"verdict": "failed"}'),
    )
    assert model.complete(make_request()).rung == "plain"
    assert model.complete(make_request()).rung == "plain"
    assert len(server.requests) == 4
    first, second, third, fourth = (json.dumps(request) for request in server.requests)
    assert third == fourth
    assert "Reply with one JSON object and nothing else" not in first
    assert "Reply with one JSON object and nothing else" in second
    assert '"response_format"' not in third
    assert '"output_config"' not in third
    assert ('{"type": "json_object"}' in second) == (provider == "openai")


def test_what_a_server_refuses_is_remembered_for_each_model_alone(serve: Serve):
    server, model = serve(refusal(400, "json_schema is not supported"), Step(text="{}"))
    assert model.complete(make_request()).rung == "json_object"
    assert model.complete(make_request(model="large")).rung == "json_schema"
    assert [request["model"] for request in server.requests] == ["small", "small", "large"]


@pytest.mark.parametrize(
    ("words", "details"),
    [
        ("Unsupported value: 'temperature' does not support 0 with this model.", {}),
        ("temperature: Extra inputs are not permitted", {}),
        ("`temperature` is deprecated for this model.", {}),
        ("Unsupported value", {"param": "temperature"}),
    ],
)
def test_a_sampling_parameter_that_is_refused_is_dropped_and_recorded(serve: Serve, words: str, details: Any):
    server, model = serve(refusal(400, words, **details), Step(text="{}"))
    wanted = make_request(parameters={"temperature": 0, "seed": 7})
    assert [model.complete(wanted).dropped for _ in range(2)] == [("temperature",)] * 2
    assert model.complete(make_request()).dropped == ()
    assert [request.get("temperature") for request in server.requests] == [0, None, None, None]
    assert [request.get("seed") for request in server.requests] == [7, 7, 7, None]


def test_an_openai_server_that_knows_max_tokens_only_gets_that():
    with FakeOpenAi(refusal(400, "unknown field 'max_completion_tokens'"), Step(text="{}")) as server:
        reply = OpenAiModel("small", base_url=server.base_url).complete(make_request())
    assert (server.requests[1]["max_tokens"], reply.dropped, reply.rung) == (500, (), "json_schema")


def detail(*place: str) -> dict[str, Any]:
    problem = {"type": "extra_forbidden", "msg": "Extra inputs are not permitted"}
    return {"detail": [{**problem, "loc": ["body", *place]}]}


@pytest.mark.parametrize(
    ("body", "rung"),
    [
        ({"message": detail("response_format", "json_schema")}, "json_object"),
        (detail("response_format", "type"), "json_object"),
        (detail("max_completion_tokens"), "json_schema"),
    ],
)
def test_the_details_of_a_refusal_say_what_is_left_out(body: dict[str, Any], rung: str):
    with FakeOpenAi(Step(status=422, body=json.dumps(body).encode()), Step(text="{}")) as server:
        assert OpenAiModel("small", base_url=server.base_url).complete(make_request()).rung == rung
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "System role not supported"),
        (500, "Jinja Exception: System role not supported"),
        (400, "Developer instruction is not enabled for models/gemma-3"),
        (400, "Conversation roles must alternate user/assistant/user/assistant/..."),
    ],
)
def test_a_model_without_system_messages_finds_the_instructions_in_the_users_first(status: int, words: str):
    with FakeOpenAi(refusal(status, words), Step(text="{}")) as server:
        model = OpenAiModel("small", base_url=server.base_url)
        assert model.complete(make_request()).text == "{}"
        model.complete(make_request())
    first, second, third = (request["messages"] for request in server.requests)
    assert [message["role"] for message in first] == ["system", *(message["role"] for message in second)]
    assert second[0]["content"] == f"{first[0]['content']}\n\n{first[1]['content']}"
    assert third == second


@pytest.mark.parametrize(
    ("words", "is_too_long"),
    [
        ("Bad request.", False),
        ("This model's maximum context length is 8192 tokens.", True),
        ("prompt is too long: 210000 tokens > 200000 maximum", True),
    ],
)
def test_a_refusal_that_names_nothing_to_leave_out_is_a_failure_and_not_sent_again(
    serve: Serve, words: str, is_too_long: bool
):
    server, model = serve(refusal(400, words))
    with pytest.raises(ModelFailure, match=f"answered with HTTP 400: {words.rstrip('.')}") as caught:
        client_of(model).complete(make_request())
    assert (caught.value.failure, caught.value.is_too_long) == (FailureKind.AGENT_ERROR, is_too_long)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "code"), [(401, ""), (403, ""), (404, ""), (429, "insufficient_quota")])
def test_after_a_refusal_of_the_key_or_for_lack_of_credit_no_request_is_sent_any_more(
    serve: Serve, status: int, code: str
):
    server, model = serve(refusal(status, "invalid key", code=code))
    client = client_of(model)
    for _ in range(3):
        with pytest.raises(ModelFailure, match=f"answered with HTTP {status}: invalid key") as caught:
            client.complete(make_request())
        assert caught.value.is_final
        assert KEY not in str(caught.value)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("step", "rate_limited"),
    [
        (refusal(429, "slow down"), True),
        (refusal(529, "overloaded"), True),
        (refusal(409, "conflict"), False),
        (Step(status=502, body=b"<html>Bad gateway</html>"), False),
        (Step(body=b"<html><body>Sign in</body></html>"), False),
        (Step(body=b'{"page": 1}'), False),
        (Step(body=b"[]"), False),
        (Step(text="cut off", cut=True), False),
    ],
    ids=["429", "529", "409", "502 html", "html", "other object", "list", "cut connection"],
)
def test_what_is_no_fault_of_the_request_is_sent_again(serve: Serve, step: Step, rate_limited: bool):
    server, model = serve(step, step, Step(text="{}"))
    client = client_of(model)
    assert client.complete(make_request()).retries == 2
    assert len(server.requests) == 3
    assert client.use["judge"].to_json()["retries"] == 2
    server, model = serve(step)
    with pytest.raises(ModelFailure) as caught:
        client_of(model).complete(make_request())
    assert (caught.value.failure, caught.value.retries) == (FailureKind.INFRASTRUCTURE, 4)
    assert caught.value.rate_limited is rate_limited
    assert len(server.requests) == 5


def test_a_server_that_does_not_answer_in_time_is_asked_again(serve: Serve):
    server, model = serve(Step(text="{}", hang=0.6), Step(text="{}"), seconds=0.2)
    assert client_of(model).complete(make_request()).retries == 1
    assert len(server.requests) == 2


def test_a_server_that_cannot_be_reached_is_infrastructure(provider: str):
    model = open_model(provider, ModelOptions(base_url="http://127.0.0.1:9", model="small"))
    with pytest.raises(ModelFailure, match="could not be reached") as caught:
        client_of(model).complete(make_request())
    assert caught.value.failure is FailureKind.INFRASTRUCTURE


TEXT = {"type": "text", "text": "{"}


def openai(message: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": message, "finish_reason": "stop"}], **more}


@pytest.mark.parametrize(
    ("provider", "body", "finish", "text"),
    [
        ("openai", openai({"content": None, "refusal": "No."}), Finish.REFUSED, "No."),
        ("openai", openai({"content": [{"type": "refusal", "refusal": "No."}]}), Finish.REFUSED, "No."),
        ("openai", openai({"content": "Well.", "refusal": "No."}), Finish.REFUSED, "Well."),
        ("openai", openai({"content": [{"text": "It is "}, {"text": "lost."}]}), Finish.ENDED, "It is lost."),
        ("openai", openai({"content": ""}), Finish.ENDED, ""),
        ("openai", openai({"content": None}), Finish.ENDED, ""),
        ("openai", openai({"content": [{"type": "text", "text": "{}"}]}), Finish.ENDED, "{}"),
        ("anthropic", {"content": [], "stop_reason": "refusal"}, Finish.REFUSED, ""),
        ("anthropic", {"content": [TEXT], "stop_reason": "max_tokens"}, Finish.CUT, "{"),
        ("anthropic", {"content": [], "stop_reason": "end_turn"}, Finish.ENDED, ""),
    ],
)
def test_refused_cut_and_empty_answers_are_replies(serve: Serve, body: Any, finish: Finish, text: str):
    _, model = serve(Step(body=json.dumps(body).encode()))
    reply = model.complete(make_request())
    assert (reply.finish, reply.text, reply.usage) == (finish, text, None)


def test_costs_are_published_prices():
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    body = openai({"content": "{}"}, model="gpt-4o", usage=usage)
    with FakeOpenAi(Step(body=json.dumps(body).encode())) as server:
        client = client_of(OpenAiModel("gpt-4o", base_url=server.base_url))
        assert client.complete(make_request()).cost_usd == pytest.approx(0.0035)
    used = {"calls": 1, "input_tokens": 1000, "output_tokens": 100, "cost_usd": 0.0035}
    assert client.use["judge"].to_json() == used


def test_a_key_is_needed_where_no_endpoint_is_named(provider: str):
    with pytest.raises(UsageError, match="no key") as caught:
        open_model(provider)
    assert "LLM_API_KEY" in caught.value.remedy
    assert KEY not in repr(ModelOptions(api_key=KEY, environ={"LLM_API_KEY": KEY}))


def test_a_model_that_is_down_is_not_waited_for_at_every_request(serve: Serve) -> None:
    server, model = serve(*[Step(status=503)] * 16, Step(text="{}"), Step(status=503), Step(text="{}"))
    client = client_of(model)
    retries = []
    for _ in range(4):
        with pytest.raises(ModelFailure) as caught:
            client.complete(make_request())
        retries.append(caught.value.retries)
    assert (retries, len(server.requests)) == ([4, 4, 4, 0], 16)
    assert client.complete(make_request()).retries == 0
    assert client.complete(make_request()).retries == 1


def test_a_password_in_an_address_is_recorded_nowhere(provider: str) -> None:
    address = "http://ann:canary-password@127.0.0.1:9/v1"
    model = open_model(provider, ModelOptions(base_url=address, model="small"))
    stated = described(provider, model="small", base_url=address)
    assert (
        stated == model.describe() == {"provider": provider, "host": "http://127.0.0.1:9", "model": "small"}
    )
    with pytest.raises(ModelFailure) as caught:
        model.complete(make_request())
    assert "canary" not in f"{caught.value} {model.account}"
