"""Refuse a suite of which a case could never be run or judged, before its first trial."""

from __future__ import annotations

from array import array

from agent_eval.agents.tools import check_tools
from agent_eval.contracts import Case
from agent_eval.conversation.loop import planned_turns
from agent_eval.engine.shard import id_hash, refuse_unjudgeable
from agent_eval.engine.trial import TrialPlan
from agent_eval.errors import InvalidInput, NothingMeasured
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource
from agent_eval.suites.select import refuse_duplicates


def refuse_unrunnable(suite: SuiteSource, plan: TrialPlan, redactor: Redactor) -> None:
    """Refuse cases that could never be evaluated, before any trial costs money.

    `redactor` finds secrets, which no case's id may have.

    Raises:
        NothingMeasured: The suite has no cases.
        InvalidInput: A case cannot be judged or run.
    """
    if not suite.case_count:
        raise NothingMeasured(
            f"{suite.path}: the suite has no cases, so nothing would be measured",
            remedy="Add cases to it, or name another suite.",
            file=str(suite.path),
        )
    ids = array("Q")
    for shard in suite.shards:
        for raw_case, case in suite.read(shard):
            ids.append(id_hash(case.case_id))
            refuse_unjudgeable(plan.judges, raw_case, case, suite.path)
            check_tools(case)
            _refuse_commands(case, plan, suite)
            _refuse_unable(case, plan, suite)
            _refuse_without_user(case, plan, suite)
            if redactor.finds(case.case_id.encode()):
                raise InvalidInput(
                    f"{suite.path}: a case_id contains the value of a secret variable",
                    remedy="Take it out of the case_id.",
                    file=str(suite.path),
                    position=raw_case.place.position,
                )
    refuse_duplicates(suite, ids)


def _refuse_commands(case: Case, plan: TrialPlan, suite: SuiteSource) -> None:
    """Refuse a case whose own commands the operator did not allow; recorded traces need none."""
    if not (case.setup or case.teardown) or plan.commands is not None or plan.agent.replays:
        return
    raise InvalidInput(
        f"{suite.path}: case {case.case_id!r} has a setup or teardown command, which is not allowed to run",
        remedy="Read the suite's commands, and allow them with --case-commands; those of a pack never run.",
        file=str(suite.path),
        case_id=case.case_id,
        field="setup" if case.setup else "teardown",
    )


def _refuse_unable(case: Case, plan: TrialPlan, suite: SuiteSource) -> None:
    """Refuse a case that asks for something that the agent's interface cannot carry."""
    if refused := plan.agent.refuse(case):
        raise InvalidInput(
            f"{suite.path}: case {case.case_id!r} has {refused}",
            remedy="Remove it from the suite, or run another kind of agent.",
            file=str(suite.path),
            case_id=case.case_id,
        )


def _refuse_without_user(case: Case, plan: TrialPlan, suite: SuiteSource) -> None:
    """Refuse a conversation with turns of a simulated user, where no model plays it."""
    if plan.simulation is not None or plan.agent.replays or case.conversation is None:
        return
    if any(turn.auto for turn in planned_turns(case)):
        raise InvalidInput(
            f"{suite.path}: case {case.case_id!r} has turns of a simulated user, and no model plays it",
            remedy="Name one with --llm-key or --provider, or give every turn an input and set max_turns to "
            "their number.",
            file=str(suite.path),
            case_id=case.case_id,
            field="conversation",
        )
