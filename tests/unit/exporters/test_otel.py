"""A pack as OpenTelemetry: every answer, call, result, error and verdict is there, nothing is invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Event
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.exporters.answers import Answer, Times, answers_of
from agent_eval.exporters.otel import Row, exported_trials
from agent_eval.exporters.otlp import any_value, otlp_requests
from tests.factories import make_config, make_judged, make_pack, make_result

SECOND = 1_000_000_000


def event(idx: int, **fields: Any) -> dict[str, Any]:
    return {"idx": idx, "actor": "agent", "type": "message", **fields}


def call(idx: int, tool: str, call_id: str | None = None, **fields: Any) -> dict[str, Any]:
    return event(idx, type="tool_call", tool=tool, call_id=call_id, input={"n": idx}, **fields)


def result(idx: int, tool: str, call_id: str | None = None, **fields: Any) -> dict[str, Any]:
    return event(idx, actor="tool", type="tool_result", tool=tool, call_id=call_id, **fields)


def pack_of(root: Path, trace: list[dict[str, Any]], **case: Any) -> Pack:
    cases = [{"case_id": "a", "input": "Do it.", "trace": trace, **case}]
    results = [make_judged("a", "failed", score=0.25)]
    return open_pack(make_pack(root / "p", results, cases=cases, config=make_config(judges=["policy"])))


def exported(root: Path, *trace: dict[str, Any], **case: Any) -> list[Row]:
    (trial,) = exported_trials(pack_of(root, list(trace), **case))
    return trial


def named(trial: list[Row], operation: str) -> list[Row]:
    return [row for row in trial if row["attributes"].get("gen_ai.operation.name") == operation]


def spans_of(trial: list[Row]) -> list[Row]:
    return [row for row in trial if row["type"] == "span"]


def messages(span: Row, which: str) -> list[dict[str, Any]]:
    return json.loads(span["attributes"][f"gen_ai.{which}.messages"])


def test_parallel_calls_are_of_one_answer_and_each_has_its_span(tmp_path: Path) -> None:
    trial = exported(
        tmp_path, event(0, actor="user", input="Both?"), call(1, "look", "c1"), call(2, "look", "c2"),
        result(3, "look", "c2", output={"found": 2}), result(4, "look", "c1", error="not found"),
        event(5, output="One of them.", model="m-1", usage={"input_tokens": 8, "cached_tokens": 2}),
    )  # fmt: skip
    first, second = named(trial, "chat")
    assert [part["id"] for part in messages(first, "output")[0]["parts"]] == ["c1", "c2"]
    assert messages(first, "input") == [{"role": "user", "parts": [{"type": "text", "content": "Both?"}]}]
    answers = [message["parts"][0]["response"] for message in messages(second, "input")]
    assert answers == [{"found": 2}, "not found"]
    assert second["name"] == "chat m-1"
    assert second["attributes"]["gen_ai.usage.input_tokens"] == 8
    assert second["attributes"]["gen_ai.usage.cache_read.input_tokens"] == 2
    assert "gen_ai.usage.output_tokens" not in second["attributes"]
    tools = {span["attributes"]["gen_ai.tool.call.id"]: span for span in named(trial, "execute_tool")}
    assert tools["c1"]["attributes"]["gen_ai.tool.call.arguments"] == {"n": 1}
    assert tools["c1"]["status"] == {"code": "ERROR", "message": "not found"}
    assert tools["c2"]["attributes"]["gen_ai.tool.call.result"] == {"found": 2}
    assert tools["c2"]["status"] == {"code": "UNSET"}
    (root,) = named(trial, "invoke_agent")
    assert {span["parent_span_id"] for span in spans_of(trial)[1:]} == {root["span_id"]}
    assert len({span["span_id"] for span in spans_of(trial)}) == len(spans_of(trial))


def test_a_verdict_is_an_evaluation_of_the_trials_span(tmp_path: Path) -> None:
    trial = exported(tmp_path, event(0, output="Done."))
    policy = trial[-1]
    root = trial[0]
    judged = policy["trace_id"], policy["span_id"], policy["timestamp"]
    assert judged == (root["trace_id"], root["span_id"], root["end_time"])
    assert policy["attributes"]["gen_ai.evaluation.name"] == "policy"
    assert policy["attributes"]["gen_ai.evaluation.score.value"] == 0.25
    assert policy["attributes"]["gen_ai.evaluation.score.label"] == "failed"
    assert "error.type" not in policy["attributes"]


def test_what_the_trace_does_not_say_is_not_there(tmp_path: Path) -> None:
    asked = event(1, actor="user", input="And?")
    trial = exported(tmp_path, call(0, "look"), asked, event(2, output=None, content_recorded=False))
    tool, chat = named(trial, "execute_tool")[0], named(trial, "chat")[1]
    assert not {"gen_ai.tool.call.result", "gen_ai.tool.call.id"} & set(tool["attributes"])
    assert not {"gen_ai.output.messages", "gen_ai.response.model"} & set(chat["attributes"])
    assert not any(name.startswith("gen_ai.usage") for span in trial for name in span["attributes"])


def test_a_null_result_is_a_result_and_a_structured_error_keeps_its_structure(tmp_path: Path) -> None:
    error = {"type": "Timeout", "after": 3}
    trace = call(0, "look", "a"), result(1, "look", "a", output=None), call(2, "look", "b")
    nothing, failed = named(exported(tmp_path, *trace, result(3, "look", "b", error=error)), "execute_tool")
    assert nothing["attributes"]["gen_ai.tool.call.result"] is None
    assert failed["attributes"]["error.type"] == "Timeout"
    assert failed["attributes"]["agent_eval.error"] == error


def test_a_thought_is_a_part_of_its_answer_and_a_result_without_a_call_has_a_span(tmp_path: Path) -> None:
    thought = event(0, type="reasoning", output="Hm.")
    trial = exported(tmp_path, thought, event(1, output="Hi."), result(2, "look", error={"after": 3}))
    parts = messages(named(trial, "chat")[0], "output")[0]["parts"]
    assert [(part["type"], part["content"]) for part in parts] == [("reasoning", "Hm."), ("text", "Hi.")]
    (tool,) = named(trial, "execute_tool")
    assert "gen_ai.tool.call.arguments" not in tool["attributes"]
    assert (tool["status"]["code"], tool["attributes"]["error.type"]) == ("ERROR", "_OTHER")


def test_what_the_conventions_have_no_place_for_is_an_event_of_the_span(tmp_path: Path) -> None:
    handoff = event(0, type="handoff", agent_name="triage", output="orders")
    trial = exported(tmp_path, handoff, event(1, output="Hi."), event(2, actor="user", input="Bye."))
    events = trial[0]["span_events"]
    assert [found["event_name"] for found in events] == ["agent_eval.handoff", "agent_eval.message"]
    assert events[0]["attributes"] == {"agent_eval.event": handoff}


def test_every_trial_is_a_trace_of_its_own(tmp_path: Path) -> None:
    no, yes = ({"trace": [event(0, output=said)]} for said in ("No.", "Yes."))
    results, case = [make_judged("a", "failed", "passed")], {"case_id": "a", **no, "trials": [yes]}
    root = make_pack(tmp_path / "p", results, cases=[case], config=make_config(judges=["policy"]))
    first, second = exported_trials(open_pack(root))
    assert first[0]["trace_id"] != second[0]["trace_id"]
    said = [messages(trial[0], "output")[0]["parts"][0]["content"] for trial in (first, second)]
    assert said == ["No.", "Yes."]
    verdicts = [trial[-1]["attributes"] for trial in (first, second)]
    assert [verdict["gen_ai.evaluation.score.label"] for verdict in verdicts] == ["failed", "passed"]


def test_times_are_those_of_the_trace_and_never_go_back(tmp_path: Path) -> None:
    stamps = ["2026-01-01T00:00:05Z", "2026-01-01T00:00:03Z", None, "2026-01-01T00:00:09Z"]
    events = [Event(**event(number, ts=ts, output="x")) for number, ts in enumerate(stamps)]
    times = Times(events, "2025-01-01T00:00:00Z")
    start = times.of(events[0])
    assert [(times.of(one) - start) // SECOND for one in events] == [0, 0, 0, 4]


def test_a_trace_without_times_begins_when_the_run_did_and_says_so(tmp_path: Path) -> None:
    trial = exported(tmp_path, event(0, output="a"), event(1, output="b"))
    assert trial[0]["attributes"]["agent_eval.times_recorded"] is False
    assert trial[0]["start_time"] >= 1_767_225_600 * SECOND
    starts = [span["start_time"] for span in spans_of(trial)]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("events", "sizes"),
    [
        ([event(0, type="reasoning", output="?"), event(1, output="a"), call(2, "t")], [3]),
        ([event(0, output="a"), event(1, output="b")], [1, 1]),
        ([event(0, output="a", stop_reason="stop"), call(1, "t")], [1, 1]),
        (
            [event(0, output="a", agent_name="x"), event(1, type="reasoning", output="b", agent_name="y")],
            [1, 1],
        ),
        ([event(0, type="model_call", usage={"input_tokens": 1}), event(1, output="a")], [2]),
        ([call(0, "t", usage={"input_tokens": 1}), call(1, "t", usage={"input_tokens": 1})], [1, 1]),
    ],
)
def test_a_trace_is_divided_where_a_model_was_asked_again(
    events: list[dict[str, Any]], sizes: list[int]
) -> None:
    answers = list(answers_of([Event(**fields) for fields in events]))
    assert [len(answer.events) for answer in answers if isinstance(answer, Answer)] == sizes


def test_the_same_pack_is_exported_as_the_same_bytes(tmp_path: Path) -> None:
    pack = open_pack(make_pack(tmp_path / "p", [make_result("a"), make_result("b")]))
    assert json.dumps([*exported_trials(pack)]) == json.dumps([*exported_trials(pack)])


def test_otlp_has_ids_in_hexadecimal_and_times_as_text(tmp_path: Path) -> None:
    pack = pack_of(tmp_path, [call(0, "t"), result(1, "t", error="no")])
    (trial,) = exported_trials(pack)
    spans, logs = otlp_requests(pack, trial)
    (scope,) = spans["resourceSpans"][0]["scopeSpans"]
    root, tool = scope["spans"][0], scope["spans"][2]
    assert (len(root["traceId"]), len(root["spanId"]), root["kind"]) == (32, 16, 1)
    assert root["startTimeUnixNano"].isdecimal()
    assert tool["status"] == {"code": 2, "message": "no"}
    (record, _) = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert (record["eventName"], record["spanId"]) == ("gen_ai.evaluation.result", root["spanId"])


def test_an_integer_beyond_64_bits_is_a_double() -> None:
    assert any_value(1 << 63) == {"doubleValue": float(1 << 63)}
    assert any_value(-(1 << 63)) == {"intValue": str(-(1 << 63))}
