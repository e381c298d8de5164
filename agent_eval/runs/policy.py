"""The gate's policy: read from `gate.yml`, or a preset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent_eval.comparison.policy_gate import parse_policy
from agent_eval.contracts.policy import GatePolicy, Preset
from agent_eval.errors import InvalidInput
from agent_eval.storage.bytes_reader import read_bytes
from agent_eval.storage.json_reader import DEFAULT_LIMITS, parse


def read_policy(path: Path) -> GatePolicy:
    """A policy from a JSON or YAML file.

    Raises:
        InvalidInput: It cannot be read, has an unknown key, or a value is out of range; names the file.
    """
    return parse_policy_file(read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes), str(path))


def parse_policy_file(data: bytes, source: str) -> GatePolicy:
    """`read_policy` for bytes at hand; `source` names the file and, by its ending, the format."""
    return parse_policy(parse_settings(data, source), source=source)


def parse_settings(data: bytes, source: str) -> dict[str, Any]:
    """An object from JSON, or from YAML where `source` ends in .yaml or .yml.

    Raises:
        InvalidInput: It cannot be read, or it is not an object.
    """
    if source.lower().endswith((".yaml", ".yml")):
        from agent_eval.storage.yaml_reader import parse_yaml

        settings = parse_yaml(data, source=source)
    else:
        settings = parse(data, source=source)
    if not isinstance(settings, dict):
        raise InvalidInput(
            f"{source} must hold an object, not {type(settings).__name__}",
            remedy="Write it as `name: value`.",
            file=source,
        )
    return settings


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
