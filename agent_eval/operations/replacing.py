"""Which evidence a new pack may replace, and whether an agent was run for it and reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from agent_eval.config.spec import Output
from agent_eval.contracts import CaseResultRow, RunConfig, RunSummary, VerdictRow
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput, NotEvaluable, UsageError
from agent_eval.evidence.layout import CONFIG, SUMMARY, may_be_replaced
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.registry.store import RegistryStore, path_from_registry
from agent_eval.storage.json import read_json

FRESH = "--fresh"


LOOP_MODE = "propose_execute_repair"
"""`RunConfig.execution_mode` of every run of an agent."""

_NOT_REACHED = frozenset({FailureKind.INFRASTRUCTURE.value, FailureKind.ENVIRONMENT.value})


def refuse_to_lose(output: Output) -> None:
    """Refuse to replace a pack that is a registered baseline, or that an agent was paid for.

    Packs of recorded traces are replaced: they can be made again at no cost. So are packs of a run in which
    no trial reached the agent.
    """
    out = output.pack
    if not may_be_replaced(out) or output.fresh:
        return
    if name := _registered_as(out, output.registry):
        raise _refusal(out, f"is the pack of the registered baseline {name!r}")
    if is_paid_for(out):
        raise _refusal(out, "has the evidence of a run of an agent")


def _refusal(out: Path, what: str) -> UsageError:
    return UsageError(
        f"{out} {what}, which a new run would replace",
        remedy=f"Write to another directory, or replace it with {FRESH}.",
        file=str(out),
        field="out",
    )


def _registered_as(out: Path, registry: Path) -> str:
    """Return the name of the baseline whose pack is at `out`; an empty text if there is none."""
    if not registry.exists():
        return ""
    place = out.resolve()
    for name, entry in sorted(RegistryStore(registry).read().baselines.items()):
        if path_from_registry(entry.run_path, registry).resolve() == place:
            return name
    return ""


def is_paid_for(out: Path) -> bool:
    """Tell whether the pack at `out` is of a run of an agent that was reached, rather than judged again."""
    try:
        config = RunConfig.model_validate(read_json(out / CONFIG))
        summary = RunSummary.model_validate(read_json(out / SUMMARY))
    except (InvalidInput, ValidationError):
        return False
    execution = config.execution_config
    if config.execution_mode != LOOP_MODE or execution.rejudged_from is not None:
        return False
    if execution.agent is not None and execution.agent.kind == "recorded":
        return False
    if not may_be_unreachable(summary):
        return True
    try:
        return not all(map(_was_unreachable, open_pack(out).results()))
    except AgentEvalError:
        return True  # a pack that cannot be read may still have what was paid for


def refuse_unreachable(pack: Pack, suite: Path) -> None:
    """Refuse a run in which no trial could reach the agent. Its pack stays where it is.

    Raises:
        NotEvaluable: The infrastructure failed in every trial, so the run says nothing about the agent.
    """
    if may_be_unreachable(pack.summary) and all(map(_was_unreachable, pack.results())):
        raise NotEvaluable(
            f"{suite}: the agent could not be reached in any of {pack.summary.total_cases} cases.",
            remedy="Check that it runs and that its address is right; the evidence has each error.",
            file=str(suite),
        )


def may_be_unreachable(summary: RunSummary) -> bool:
    """Tell whether the agent may have been unreachable in every case, by the summary alone."""
    return summary.passed_cases == 0 and not _NOT_REACHED.isdisjoint(summary.failures)


def _was_unreachable(row: CaseResultRow) -> bool:
    trials: Sequence[Mapping[str, Sequence[VerdictRow]]] = row.get("trials") or [row]  # type: ignore[assignment]
    return all(
        any(each["judge_id"] == EXECUTION and each["failure"] in _NOT_REACHED for each in trial["verdicts"])
        for trial in trials
    )
