"""Settings of judging and scoring, as plain values that can be sent to a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.contracts.trials import ALL, CasePolicy
from agent_eval.evidence.writer import PackTarget
from agent_eval.judges.base import AsksModel, Judge, JudgeModel
from agent_eval.judges.catalog import load_advisory, load_judges
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource


@dataclass(frozen=True)
class JudgePlan:
    """The judges of a run, and their configuration.

    Attributes:
        names: Built-in names, entry points, or `module:Class`, in the order in which they judge.
        configs: Configuration by judge name.
        allow_plugins: Whether judges other than built-in ones may be loaded; False for the names in a pack.
        case_policy: Decides when a case with several trials passes.
        model: The model of judges that ask one; None where none was named. It stays in this process, since
            it may have a key.
        directory: Where the code of judges is imported from, and where judges that are commands run; None for
            the working directory. A job names the files of the trusted branch's tip here.
        advisory: Judges whose verdicts are shown and count nowhere, such as those that a change adds; None
            for none.
    """

    names: tuple[str, ...]
    configs: Mapping[str, Any] = field(default_factory=dict)
    allow_plugins: bool = True
    case_policy: CasePolicy = ALL
    model: JudgeModel | None = field(default=None, compare=False)
    directory: Path | None = None
    advisory: JudgePlan | None = None

    def load(self) -> list[Judge]:
        """Load and configure the judges, the advisory ones last.

        Raises:
            InvalidInput: A judge is unknown, or its configuration is invalid.
            NotEvaluable: The process of a judge ended while the judge was loaded.
        """
        judges = load_judges(
            self.names, self.configs, allow_plugins=self.allow_plugins, directory=self.directory
        )
        if (new := self.advisory) is not None:
            judges += load_advisory(new.names, new.configs, new.directory)
        for judge in judges:
            if self.model is not None and isinstance(judge, AsksModel):
                judge.connect(self.model)
        return judges

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "model": None}


@dataclass(frozen=True)
class ScoringJob:
    """Everything that is needed to score any shard of a suite into a pack.

    `target` is the pack to write; `redactor` replaces secrets before anything is written.
    """

    suite: SuiteSource
    plan: JudgePlan
    target: PackTarget
    redactor: Redactor = field(default_factory=lambda: Redactor(()))
