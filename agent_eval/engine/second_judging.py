"""Judge a trial again whose judges could not: what the agent did is on record, so it is not run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent_eval.contracts import Case, definition_of
from agent_eval.contracts.base import EARLIER
from agent_eval.engine.journaled_suite import JUDGED_AGAIN, FinishedTrial
from agent_eval.engine.lost_trials import LOST_TRIES, tries_of
from agent_eval.engine.shard import judge, written_result
from agent_eval.engine.trial import add_verdicts
from agent_eval.evidence.writer import result_row
from agent_eval.judges.base import Judge
from agent_eval.storage.json import dumps
from agent_eval.storage.records import encode
from agent_eval.storage.redaction import Redactor


def judge_again(
    number: int,
    raw: Mapping[str, Any],
    record: Mapping[str, Any],
    tries: Sequence[Mapping[str, Any]],
    judges: Sequence[Judge],
    redactor: Redactor,
) -> FinishedTrial:
    """Judge a recorded trial again, and make the record that takes the place of its own.

    Args:
        number: The trial's slot.
        raw: Its case as read from the suite.
        record: Its record in the journal, which has no secrets.
        tries: Its tries so far, all of which are lost.
        judges: The judges.
        redactor: Replaces secrets in what judges say.
    """
    definition = definition_of(dict(raw))
    metadata = {**record["metadata"], LOST_TRIES: [dict(entry) for entry in tries]}
    recorded = {
        **definition,
        "trace": record["trace"],
        "metadata": {**(definition.get("metadata") or {}), **metadata},
    }
    case = Case.model_validate(recorded, context=EARLIER)
    result = judge(judges, case, case.recorded)
    result = written_result(result, dumps(result_row(result)), redactor.for_case(dict(raw)))
    history = [dict(entry) for entry in metadata.get("attempt_history", ())]
    if history:
        add_verdicts(history[-1], result)
        metadata["attempt_history"] = history
    metadata["loop_passed"] = result.passed
    unchanged = {name: value for name, value in record.items() if name != "calls"}
    line = encode(
        {**unchanged, "metadata": metadata, "result": result_row(result), "retries": 0, JUDGED_AGAIN: True}
    )
    return FinishedTrial(
        number,
        result.outcome.value,
        cost_usd=None,
        retries=0,
        calls=[],
        line=line,
        lost_tries=tries_of(result, {"trace": record["trace"], "metadata": metadata}, None),
        judged_again=True,
    )
