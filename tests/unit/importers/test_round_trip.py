"""What is exported as OpenTelemetry and imported again has every call, argument, result and error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.cli.main import main
from agent_eval.contracts import Case, Trace
from tests.factories import make_config, make_judged, make_pack
from tests.unit.importers.importing import TRANSCRIPT, Result, imported

WORDS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | WORDS | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
CALL_IDS = st.sampled_from([None, "c1", "c2", "c3", "c4"])
TOOLS = st.sampled_from(["look", "pay", "tool-x"])


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Turns of a user, an answer with parallel calls, their results in any order, and a last answer."""
    events: list[dict[str, Any]] = []

    def add(actor: str, kind: str, **fields: Any) -> None:
        events.append({"idx": len(events), "actor": actor, "type": kind, **fields})

    for turn in range(draw(st.integers(1, 3))):
        add("user", "message", input=draw(WORDS.filter(bool)))
        if draw(st.booleans()):
            add("agent", "reasoning", output=draw(WORDS.filter(bool)))
        count = draw(st.integers(0, 4))
        names = [f"t{turn}-{number}" for number in range(count)]
        calls = [(draw(TOOLS), name if draw(st.booleans()) else None) for name in names]
        for tool, call_id in calls:
            arguments = draw(VALUES | st.just("{ no json"))
            add("agent", "tool_call", tool=tool, input=arguments, **({"call_id": call_id} if call_id else {}))
        answered = [call for call in calls if draw(st.booleans())]
        for tool, call_id in draw(st.permutations(answered)) if all(i for _, i in calls) else answered:
            outcome = draw(st.sampled_from(["output", "error", "both"]))
            fields = {} if outcome == "error" else {"output": draw(VALUES)}
            error = draw(VALUES.filter(lambda value: value is not None))
            fields |= {} if outcome == "output" else {"error": error}
            add("tool", "tool_result", tool=tool, **fields, **({"call_id": call_id} if call_id else {}))
        if draw(st.booleans()):
            add("agent", "handoff", output="orders")
        add("agent", "message", output=draw(WORDS.filter(bool)), usage={"input_tokens": turn})
    return events


def round_trip(root: Path, case: dict[str, Any], protocol: str) -> Result:
    result = make_judged("a", *["failed"] * (1 + len(case.get("trials", []))), policy="all")
    make_pack(root / "pack", [result], cases=[case], config=make_config(judges=["policy"]))
    out = root / "spans.jsonl"
    arguments = ["export-otel", "--run", str(root / "pack"), "--out", str(out), "--protocol", protocol]
    assert main(arguments) == 0
    return imported(TRANSCRIPT, out, root / "again", strict=True)


def facts(trace: list[dict[str, Any]]) -> list[Any]:
    """What of a trace must survive: calls with arguments, and what answered them."""
    pairs = Trace(Case.model_validate({"case_id": "a", "trace": trace}).trace).calls
    return [
        (pair.tool, pair.call and pair.call.call_id, pair.arguments, pair.result is not None,
         pair.result and pair.result.output, pair.error)
        for pair in pairs
    ]  # fmt: skip


def spoken(trace: list[dict[str, Any]]) -> list[Any]:
    return [
        (event["actor"], event["type"], event.get("output", event.get("input")))
        for event in trace
        if event["type"] in ("message", "reasoning", "handoff")
    ]


@pytest.mark.parametrize("protocol", ["jsonl", "otlp-json"])
def test_every_call_argument_result_and_error_survives(
    protocol: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    @given(trace=traces())
    def survives(trace: list[dict[str, Any]]) -> None:
        case = {"case_id": "a", "trace": trace}
        result = round_trip(tmp_path_factory.mktemp("r"), case, protocol)
        (again,) = result.traces
        assert facts(again) == facts(trace)
        assert spoken(again) == spoken(trace)
        assert result.tokens("input_tokens") == sum(
            event.get("usage", {}).get("input_tokens", 0) for event in trace
        )

    survives()


def test_trials_and_verdicts_survive(tmp_path: Path) -> None:
    # Trials that were imported have the same conversation.
    said = {"idx": 0, "actor": "agent", "type": "message", "attributes": {"gen_ai.conversation.id": "c"}}
    trace, other = [{**said, "output": "No."}], [{**said, "output": "Yes."}]
    result = round_trip(tmp_path, {"case_id": "a", "trace": trace, "trials": [{"trace": other}]}, "jsonl")
    (case,) = result.cases
    assert case["case_id"] == "a"
    assert [spoken(trace)[0][2] for trace in result.traces] == ["No.", "Yes."]
    assert case["metadata"]["recorded_verdicts"]["policy"]["passed"] is False
    assert case["trials"][0]["metadata"]["recorded_verdicts"]["policy"]["passed"] is False
