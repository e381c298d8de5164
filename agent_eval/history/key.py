"""The setup of a run as one digest: only runs of one setup are added up."""

from __future__ import annotations

from typing import Any

from agent_eval.contracts import RunConfig, digest

KEY_LENGTH = 16

_CONDITIONS = (
    *("case_policy", "judge_code", "max_repairs", "strict_side_effects", "share_expected_output"),
    *("attempt_limits", "case_limits", "tool_server", "cassette", "simulator"),
)
"""Fields of `execution_config` under which the agent ran and was judged."""


def history_key(config: RunConfig) -> str:
    """Digest what must be equal for the counts of two runs to be added: 16 hexadecimal digits.

    That is the agent's model, the judges with their configuration (a model's name and prompt are part of it)
    and code, the simulated user, the conditions of the run, the stated policy and the schema. The definition
    of a case is compared case by case, so that a new case does not end the history of the others. The agent's
    code, prompt and version are what is measured, and are not part of the key.

    Example:
        >>> run = RunConfig(run_id="run-1", dataset_id="shop", started_at="2026-11-21T08:00Z", judges=[])
        >>> history_key(run) == history_key(run.model_copy(update={"run_id": "run-2", "agent_version": "7"}))
        True
        >>> history_key(run) == history_key(run.model_copy(update={"model": "another"}))
        False
    """
    return digest(key_parts(config))[:KEY_LENGTH]


def key_parts(config: RunConfig) -> dict[str, Any]:
    """List what the key of a run is made of, by name."""
    execution = config.execution_config.to_json()
    return {
        "schema_version": config.schema_version,
        "dataset_id": config.dataset_id,
        "model": config.model,
        "judges": sorted(config.judges),
        "judge_configs": config.judge_configs,
        "policy": config.policy_hash,
        "execution_mode": config.execution_mode,
        "conditions": {name: execution[name] for name in _CONDITIONS if execution.get(name) is not None},
    }
