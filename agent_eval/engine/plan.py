"""What is to be done with a suite, as plain values that can be sent to other processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.evidence.writer import PackTarget
from agent_eval.judges.base import Judge
from agent_eval.judges.catalog import load_judges
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource


@dataclass(frozen=True)
class JudgePlan:
    """Which judges, and how they are configured.

    Attributes:
        names: Built-in names, entry points, or `module:Class`, in the order they judge.
        configs: Configuration by judge name.
        allow_plugins: False where the names come from an evidence pack.
        case_policy: When a case with several trials passes.
    """

    names: tuple[str, ...]
    configs: Mapping[str, Any] = field(default_factory=dict)
    allow_plugins: bool = True
    case_policy: CasePolicy = ALL

    def load(self) -> list[Judge]:
        """The judges.

        Raises:
            InvalidInput: Unknown judge, wrong configuration.
        """
        return load_judges(self.names, self.configs, allow_plugins=self.allow_plugins)


@dataclass(frozen=True)
class ScoringJob:
    """Everything a worker needs to score any shard of a suite into a pack."""

    suite: SuiteSource
    plan: JudgePlan
    target: PackTarget
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
