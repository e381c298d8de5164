"""The model that judges and plays users: whose key it gets, and that it is opened once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.config.assembly import assemble, command_line
from agent_eval.config.spec import Judging, LlmSpec, Output, RunSpec
from agent_eval.errors import UsageError
from agent_eval.operations.models import ModelAccess, llm_key


@pytest.mark.parametrize(
    ("spec", "environ", "key"),
    [
        (LlmSpec(key="option"), {"LLM_API_KEY": "variable"}, "option"),
        (LlmSpec(), {"LLM_API_KEY": " variable ", "OPENAI_API_KEY": "own"}, "variable"),
        (LlmSpec(), {"OPENAI_API_KEY": "own"}, "own"),
        (LlmSpec(provider="anthropic"), {"OPENAI_API_KEY": "own", "ANTHROPIC_API_KEY": "other"}, "other"),
        (LlmSpec(provider="scripted"), {}, None),
    ],
)
def test_the_key_is_the_nearest_that_is_given(
    spec: LlmSpec, environ: dict[str, str], key: str | None
) -> None:
    assert llm_key(spec, environ) == key


def test_the_model_is_opened_once_and_not_before_it_is_needed(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    open_model = ModelAccess(LlmSpec(provider="scripted", script=script), {})
    script.write_text(json.dumps({"kind": "model_script", "schema_version": "1.2.0", "replies": []}))
    assert open_model().describe() == {"provider": "scripted", "model": "scripted"}
    assert open_model() is open_model()


def test_a_model_that_cannot_be_opened_says_why() -> None:
    with pytest.raises(UsageError, match="has no script"):
        ModelAccess(LlmSpec(provider="scripted"), {})()


def test_the_options_of_the_model_are_a_part_of_judging_and_its_key_is_never_written_as_a_flag() -> None:
    fields = assemble({"judging.llm.key": "canary-key", "judging.llm.provider": "anthropic"})
    assert fields == {"judging": Judging(llm=LlmSpec(key="canary-key", provider="anthropic"))}
    spec = RunSpec(suite=Path("s.json"), output=Output(pack=Path("p")), **fields)
    assert command_line("run", spec) == ["--provider", "anthropic"]
    assert "canary" not in repr(spec)


def test_the_configuration_of_judges_is_a_key_of_each_that_the_command_line_reads() -> None:
    configs = {"policy": {}, "cost_budget": {"max_cost_usd": 0.0025, "hard": True}}
    fields = assemble({"judging.configs": configs})
    spec = RunSpec(suite=Path("s.json"), output=Output(pack=Path("p")), **fields)
    assert command_line("run", spec) == ["--set", 'judges.cost_budget={"max_cost_usd": 0.0025, "hard": true}']
