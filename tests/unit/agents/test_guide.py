"""The guide to live agents says what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.answer import check_answer
from agent_eval.agents.catalog import AGENTS
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case
from agent_eval.models.usage import facts_of
from tests.unit.agents.tasks import make_task

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "live-agents.md").read_text(encoding="utf-8")
BLOCKS = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)]


def test_payload_and_answer_are_those_of_the_protocol() -> None:
    payload = make_task(
        "Refund order 7, please.",
        tool_contracts={"refund": {"required_args": ["order"]}},
        policy={"required_tools": ["refund"]},
    ).payload()
    assert BLOCKS[0] == {**payload, "case_id": "refund-1"}
    assert check_answer(BLOCKS[1]) == BLOCKS[1]
    assert set(facts_of(BLOCKS[1]).event_fields()) == {"model", "usage", "cost_usd"}


def test_answers_of_tools_are_understood() -> None:
    def tools(block: Any) -> CaseTools:
        return CaseTools(Case(case_id="c", metadata=block))

    answers, cassette, recorded = (block for block in BLOCKS if "tool_response" in next(iter(block)))
    assert tools(answers).answer("refund", {}).error == "too late"
    assert tools(cassette).answer("lookup", {"id": 7.0}).output == {"status": "shipped"}
    rows = tools(recorded)
    assert [rows.answer("poll", {}).output for _ in range(4)] == ["busy", "busy", "done", "done"]
    assert rows.answer("charge", {"sum": 5}).error == "card declined"


@pytest.mark.parametrize("name", AGENTS)
def test_every_kind_of_agent_is_named(name: str) -> None:
    table = GUIDE[GUIDE.index("| written as") : GUIDE.index("## Input and output of an agent")]
    assert f"`{name}:" in table or f"`{name}`" in table, (
        f"add a row for `{name}` to the first table of docs/guides/live-agents.md"
    )
