"""Kinds of agents: how they are written, whose account they use, and what the guide to live agents says."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.answer import check_answer
from agent_eval.agents.base import Agent, AgentOptions
from agent_eval.agents.catalog import AGENTS, open_agent
from agent_eval.agents.tools import CaseTools
from agent_eval.contracts import Case
from agent_eval.errors import UsageError
from agent_eval.models.usage import facts_of
from tests.unit.agents.tasks import AGENT_FORMS, make_task, write_agent_module


@pytest.mark.parametrize("kind", AGENTS)
def test_the_form_that_messages_show_of_a_kind_is_an_agent_of_that_kind(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_agent_module(tmp_path)
    agent = open_agent(AGENT_FORMS[kind])
    assert isinstance(agent, Agent)
    assert agent.describe()["agent"] == kind
    agent.close()


@pytest.mark.parametrize(
    ("spec", "hint"), [("comand:x", "Did you mean command?"), ("agent.py", "command:PROGRAM")]
)
def test_unknown_kind_of_agent(spec: str, hint: str) -> None:
    with pytest.raises(UsageError, match="names no agent") as caught:
        open_agent(spec)
    assert hint in caught.value.remedy


@pytest.mark.parametrize(
    "command",
    ["python agent.py", "python agent.py --url=http://localhost:1 --mode a:b", "./agent", "/opt/agent/run"],
)
def test_a_command_line_needs_no_kind(command: str) -> None:
    assert open_agent(command).describe() == open_agent(f"command:{command}").describe()


KEYS, OTHER_KEYS = (
    dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), f"sk-{name}-secret") for name in ("first", "other")
)


def account(spec: str, **options: Any) -> str | None:
    with closing(open_agent(spec, AgentOptions(**{"environ": KEYS, **options}))) as agent:
        return agent.account


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_models_of_one_key_at_one_endpoint_share_an_account(kind: str) -> None:
    first = account(f"{kind}:small")
    assert first is not None
    assert account(f"{kind}:large", system="Be brief.") == first
    assert account(f"{kind}:small", environ=OTHER_KEYS) != first
    assert account(f"{kind}:small", base_url="http://localhost:11434/v1") != first
    assert "secret" not in first


def test_an_address_is_an_account_with_its_headers() -> None:
    first = account("http://Localhost:8000/agent?token=a", headers={"Authorization": "Bearer secret"})
    assert first is not None
    assert first.startswith("http://localhost:8000 ")
    assert "secret" not in first
    assert account("http://localhost:8000/other", headers={"Authorization": "Bearer secret"}) == first
    assert account("http://localhost:8000/agent") != first


@pytest.mark.parametrize("spec", ["recorded", "command:true"])
def test_nobody_counts_what_runs_here(spec: str) -> None:
    assert account(spec) is None


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
