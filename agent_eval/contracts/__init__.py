"""What crosses a boundary, as pydantic models. Every public name can be imported from here.

A module is imported when one of its names is first used: making a model takes half a millisecond, and a
command needs a few of the hundred.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what `__getattr__` finds, for type checkers
    from agent_eval.contracts.base import *  # noqa: F403
    from agent_eval.contracts.comparison import *  # noqa: F403
    from agent_eval.contracts.event import *  # noqa: F403
    from agent_eval.contracts.execution import *  # noqa: F403
    from agent_eval.contracts.gate import *  # noqa: F403
    from agent_eval.contracts.run import *  # noqa: F403
    from agent_eval.contracts.suite import *  # noqa: F403
    from agent_eval.contracts.trace import *  # noqa: F403
    from agent_eval.contracts.trials import *  # noqa: F403
    from agent_eval.contracts.verdict import *  # noqa: F403

_NAMES = {
    "base": "READABLE_SCHEMA_VERSIONS SCHEMA_VERSION Contract canonical_json digest unknown_fields",
    "comparison": (
        "BehaviourChange CallChange CallCount CaseRegression CaseSets Cluster Comparison "
        "Compatibility CompatibilityCheck FailureClusters JudgeChange Metric NewCases Overview ReleaseImpact "
        "RunBehaviour RunReference Triage TrialChange TrialComparison TrialCount TrialSide"
    ),
    "execution": (
        "AgentDescription AttemptLimits ExecutionConfig RejudgedFrom RunLimits SuiteShard TrialLimits"
    ),
    "gate": "AppliedWaiver ExpiredExcuse GateDecision RuleResult Thresholds",
    "run": "SHARD_CASES CaseIndex DerivedManifest FileEntry JudgeCounts Manifest RunConfig RunSummary Tally",
    "suite": (
        "Case CaseTurn Conversation ExpectedToolCall Policy RecordedTrial Suite SuiteHeader ToolContract "
        "asked_digest definition_digest definition_of"
    ),
    "event": "ContentPart Event TokenUsage",
    "trace": "ToolCall Trace",
    "trials": "CasePolicy case_policy trials_result",
    "verdict": (
        "REPLAY_CONTRACT CaseIndexRow CaseResult CaseResultRow GateStatus Outcome TrialResult Verdict "
        "VerdictRow case_result combine with_verdicts"
    ),
}
"""Names by module."""

_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
