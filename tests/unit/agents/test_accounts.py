"""Agents that share an account at a provider are known by it, and by nothing that is secret."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from agent_eval.agents.base import AgentOptions
from agent_eval.agents.catalog import open_agent

KEYS = {"OPENAI_API_KEY": "sk-first-secret", "ANTHROPIC_API_KEY": "sk-first-secret"}
OTHER_KEYS = {"OPENAI_API_KEY": "sk-other-secret", "ANTHROPIC_API_KEY": "sk-other-secret"}


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
