"""What a person can say about an agent beside which it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Settings, each for the kinds of agents it makes sense for.

    Attributes:
        environ: This program's environment: keys of models are read from it, and children see a part of it.
        repair_command: What a `command` agent runs for repairs instead.
        pass_on: Further variables that a `command` agent may see.
        cwd: Where a `command` agent runs.
        headers: What is sent to an `http` agent along with every request; not shown anywhere.
        base_url: The endpoint of a hosted model.
        system: The system prompt of a hosted model.
        parameters: Further fields of requests to a hosted model.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    repair_command: str | None = None
    pass_on: tuple[str, ...] = ()
    cwd: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    base_url: str | None = None
    system: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
