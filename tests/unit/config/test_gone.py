"""Names that are gone are refused with what replaces them."""

from __future__ import annotations

import pytest

from agent_eval.config.gone import OPTIONS, POLICY_KEYS, gone_option, gone_variable, moved_option
from agent_eval.config.project_file import ProjectFile
from agent_eval.config.table import ROWS
from agent_eval.contracts.policy import GatePolicy
from agent_eval.errors import UsageError


def test_an_option_that_is_gone_is_refused_with_what_to_do_instead() -> None:
    error = gone_option("trial-retries")
    assert error is not None
    assert (int(error.exit_code), error.message) == (2, "--trial-retries is gone.")
    assert error.remedy is not None
    assert "run again" in error.remedy
    assert gone_option("no-such-option") is None
    of_attest = gone_option("url")  # whoever writes it today may mean the agent's
    assert of_attest is not None
    assert "`--agent https://…`" in (of_attest.remedy or "")


def test_a_key_that_is_gone_is_refused_with_the_new_line() -> None:
    with pytest.raises(UsageError, match=r"a\.yml: line 2: `baseline\.run_id` is gone") as refused:
        ProjectFile.parse(b"baseline:\n  run_id: 5\n", "a.yml", ROWS)
    assert "`baseline: run:ID`" in (refused.value.remedy or "")


def test_an_option_that_is_a_key_of_the_file_is_refused_with_the_line_to_paste() -> None:
    error = moved_option("max-steps", "--max-steps")
    assert error is not None
    assert error.message == "--max-steps is now the key `limits.attempt.steps` of agent-eval.yml."
    assert error.remedy is not None
    assert "`limits: {attempt: {steps: VALUE}}`" in error.remedy
    assert "`--set limits.attempt.steps=VALUE`" in error.remedy
    of_variable = gone_variable(["AGENT_EVAL_MAX_STEPS"], ["max-steps"])
    assert of_variable is not None
    assert of_variable.remedy == error.remedy


@pytest.mark.parametrize(
    "name", ["AGENT_EVAL_BASE_CACHE", "INPUT_BASE-CACHE", "INPUT_BASE_CACHE"], ids=["any", "github", "plain"]
)
def test_a_variable_that_passes_it_is_refused_by_its_own_name(name: str) -> None:
    error = gone_variable(["PATH", name])
    assert error is not None
    assert error.message == f"The variable {name} is gone."
    assert gone_variable(["PATH", "AGENT_EVAL_TRIALS"]) is None


def test_no_key_is_gone_that_is_there() -> None:
    assert not POLICY_KEYS.keys() & GatePolicy.model_fields.keys()
    assert all(OPTIONS.values())
