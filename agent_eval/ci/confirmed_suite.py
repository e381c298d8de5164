"""Confirm what newly fails in one suite, and keep the record and the trials in its evidence."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from agent_eval.ci.both_sides import BothSides
from agent_eval.ci.confirm import Question
from agent_eval.ci.context import JobContext
from agent_eval.ci.looks import OpenEnd
from agent_eval.ci.suites import Target
from agent_eval.config.spec import RunSpec
from agent_eval.contracts import Comparison, GateDecision
from agent_eval.errors import InvalidPack, NotEvaluable
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.gate.confirmation import Confirmed, suspects_of
from agent_eval.history.board import counted_before
from agent_eval.contracts.history import RunRecord
from agent_eval.history.record import record_of
from agent_eval.operations.confirmation import CONFIRMATION, LARGEST_EVIDENCE, TRIALS
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.json import dumps

_BLOCKING = frozenset({"coverage", "integrity"})
"""Steps that no fresh trial can change; where one fails, nothing is run again. The same holds where a
zero-tolerance judge blocks at once."""


def question_of(
    job: JobContext, target: Target, pack: Pack, comparison: Comparison, earlier: Sequence[RunRecord] = ()
) -> Question:
    """List what newly fails in a suite, as the question that fresh trials answer.

    Args:
        job: The job.
        target: The suite.
        pack: The candidate's run.
        comparison: That run compared with the baseline.
        earlier: Runs of the base branch, the newest first.
    """
    rules = job.rules
    suspects = suspects_of(comparison, rules.policy, rules.waivers, generated_at=comparison.generated_at)
    own = record_of(pack) if suspects.case_ids and earlier else None
    history = {case_id: counted_before(case_id, own, earlier) for case_id in suspects.case_ids} if own else {}
    return Question(
        suite=target.path,
        source=target.source,
        pack=pack,
        comparison=comparison,
        suspects=suspects.case_ids,
        every_pair=suspects.every_pair,
        are_moot=suspects.are_moot,
        new_cases=comparison.cases.new,
        history=history,
    )


def confirmed(
    sides: BothSides,
    question: Question,
    spec: RunSpec,
    decision: GateDecision,
    open_end: OpenEnd | None = None,
) -> Confirmed:
    """Run the suspects again, and write the record and the packs of their trials into the evidence.

    Args:
        sides: Both agents.
        question: The suspects, and the run that raised them.
        spec: How that run was made.
        decision: Without a confirmation.
        open_end: Why that run took no further look; None where it did not, or was decided.

    Raises:
        NotEvaluable: The evidence of that run was altered meanwhile.
    """
    where = spec.output.pack
    blocking = [step.name for step in decision.steps if step.name in _BLOCKING and step.status == "failed"]
    blocking += ["zero-tolerance"] * question.are_moot
    if blocking and question.suspects:
        record = sides.not_run(question, f"Not run again: the step {blocking[0]} fails anyway.")
    elif open_end is not None and open_end.cut is not None:
        by_limit = "`max-run-seconds` or `max-run-cost` was reached before."
        ended_by = "an outage ended the run before." if open_end.cut.is_outage else by_limit
        record = sides.not_run(question, f"Not run again: {ended_by}")
    else:
        with tempfile.TemporaryDirectory(prefix="agent-eval-trials-") as folder:
            trials = Path(folder) / TRIALS.name
            record = sides.confirm(question, spec, trials)
            if record.cases:
                record = record.model_copy(update={"doubt_of_base": sides.doubt_of(record)})
            _refuse_altered(where, question.pack)
            if trials.is_file():
                write_output(where / TRIALS, read_bytes(trials, max_bytes=LARGEST_EVIDENCE))
    data = dumps(record.to_json(), indent=True)
    write_output(where / CONFIRMATION, data)
    return Confirmed(record, sha256_bytes(data))


def _refuse_altered(where: Path, pack: Pack) -> None:
    """Refuse evidence that is not what the run sealed."""
    try:
        is_same = open_pack(where).manifest_sha256 == pack.manifest_sha256
    except InvalidPack:
        is_same = False
    if not is_same:
        raise NotEvaluable(
            f"{where}: the evidence was altered while cases were run again.",
            remedy="Find out what writes there: neither the change's agent nor that of the merge base may.",
        )
