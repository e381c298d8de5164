"""The gate's policy: read from `gate.yml`, or a preset."""

from __future__ import annotations

from pathlib import Path

from agent_eval.comparison.policy_gate import parse_policy
from agent_eval.contracts.policy import GatePolicy, Preset
from agent_eval.runs.run import read_settings


def read_policy(path: Path) -> GatePolicy:
    """A policy from a JSON or YAML file.

    Raises:
        InvalidInput: It cannot be read, has an unknown key, or a value is out of range; names the file.
    """
    return parse_policy(read_settings(path), source=str(path))


def chosen_policy(file: Path | None, preset: Preset | None) -> GatePolicy | None:
    """The policy that flags ask for; None where neither a file nor a preset is named.

    A preset that is named takes the place of the file's; what the file states beside it stands.

    Raises:
        InvalidInput: As `read_policy`.
    """
    if file is None:
        return GatePolicy(preset=preset) if preset is not None else None
    policy = read_policy(file)
    return policy if preset is None else policy.model_copy(update={"preset": preset})
