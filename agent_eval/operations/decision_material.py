"""What a decision is made on: counts of a run, its baseline and main's runs, and what a job ran again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from agent_eval.contracts import CaseResultRow, Comparison, Outcome
from agent_eval.contracts.history import RunRecord
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.reruns import Rerun, Reruns, Side
from agent_eval.contracts.verdict import row_fault
from agent_eval.errors import Fault, InvalidInput
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.layout import HISTORY_USED, RERUNS, RERUNS_ARCHIVE
from agent_eval.evidence.reader import Pack
from agent_eval.gate.procedure import Counts, Material
from agent_eval.history.records import DEFINITION_LENGTH, case_record, decode_used, record_of
from agent_eval.operations.judged_twice import judge_twice
from agent_eval.operations.packs import decision_in, listed_digests, paired
from agent_eval.text.escape import one_line

WHOLE, BY_MAIN = "whole-", "main-"
"""What begins the names of packs of the whole suite, and of cases as main defines them; those of single
trials begin with their side."""

_REASON_LIMIT = 200
_UNJUDGED = (Outcome.ERROR.value, Outcome.INCONCLUSIVE.value)
_Trial = tuple[str, Side, str, tuple[str, ...], tuple[str, ...]]
"""A case, its side, the result, and the judges that failed it or could not tell."""


def counts_of(
    candidate: Pack, baseline: Pack | None, *, main: Sequence[RunRecord] = (), newest: RunRecord | None = None
) -> Counts:
    """Count what a run, its baseline and main's runs say of each case.

    The baseline counts as today's judges judge it by today's definitions; a case that was only given another
    name keeps what it was counted under the old one.

    Args:
        baseline: What it is compared with, verified; None without one.
        main: Main's last runs at or before the base, the newest first.
        newest: Main's newest run of all.
    """
    own = record_of(candidate)
    if baseline is None:
        return Counts(own=own, main=main, newest=newest)
    by_new_ids, definitions = paired(baseline, candidate), baseline.index_by_id()
    names = [(now, stored, after[:DEFINITION_LENGTH]) for now, stored, after in by_new_ids.renamed()]

    def with_names(run: RunRecord) -> RunRecord:
        cases = dict(run.cases)
        for now, stored, after in names:
            definition, row = definitions[stored]["definition_digest"][:DEFINITION_LENGTH], cases.get(stored)
            if row is not None and row.definition == definition:
                del cases[stored]
                cases[now] = row.model_copy(update={"case_id": now, "definition": after})
        return RunRecord(run.run, cases)

    before, twice = record_of(by_new_ids), judge_twice(by_new_ids, candidate)
    if twice is not None:
        index, todays = by_new_ids.index_by_id(), candidate.index_by_id()
        for case_id, result in twice.baseline.items():
            definition = todays[case_id]["definition_digest"]
            before.cases[case_id] = case_record(result, {**index[case_id], "definition_digest": definition})
    return Counts(
        own=own,
        main=[with_names(run) for run in main],
        baseline=before,
        newest=with_names(newest) if newest is not None else None,
    )


def material_of_packs(
    candidate: Pack,
    baseline: Pack,
    comparison: Comparison,
    *,
    comparison_sha256: str,
    waivers: Sequence[Waiver] = (),
) -> Material:
    """Gather what there is to decide on.

    What a job ran again, and main's runs that it held the candidate against, are in the candidate's pack.
    They count where the job compared with the same baseline: with another one, the first run asks otherwise.
    """
    by_job = decision_in(candidate)
    is_same = by_job is not None and by_job.baseline_manifest_sha256 == baseline.manifest_sha256
    reruns = read_reruns(candidate) if is_same else None
    listed = listed_digests(candidate)
    digests = {"comparison_sha256": comparison_sha256}
    newest: RunRecord | None = None
    main: list[RunRecord] = []
    if is_same and HISTORY_USED in listed:
        source = f"{candidate.name}/{HISTORY_USED}"
        newest, main = decode_used(candidate.read(HISTORY_USED), source=source)
        digests["history_sha256"] = listed[HISTORY_USED]
    if reruns is not None:
        digests["reruns_sha256"] = listed[RERUNS]
    return Material(
        run=comparison.candidate,
        comparison=comparison,
        counts=counts_of(candidate, baseline, main=main, newest=newest),
        reruns=reruns,
        waivers=waivers,
        seed=candidate.config.git_commit or "",
        may_rerun=reruns is not None,
        is_recorded=is_recorded(candidate),
        digests=digests,
    )


def is_recorded(pack: Pack) -> bool:
    """Whether a pack judges recorded traces, and no agent ran for it."""
    return pack.config.execution_config.agent is None


def rerun_of(row: CaseResultRow) -> Rerun:
    """Tell how one rerun ended: an error of the agent, or of what surrounds it, is a failure."""
    outcome, fault = row["outcome"], row_fault(row)
    could_not_tell = outcome == Outcome.INCONCLUSIVE.value and fault is None
    is_unjudged = could_not_tell or fault is Fault.JUDGE or outcome == Outcome.SKIPPED.value
    failing = [verdict for verdict in row["verdicts"] if verdict["outcome"] == Outcome.FAILED.value]
    unjudged = [verdict for verdict in row["verdicts"] if verdict["outcome"] in _UNJUDGED]
    reason = next((verdict["reason"] for verdict in (*failing, *unjudged) if verdict["reason"]), "")
    return Rerun(
        result="passed" if row["passed"] else "unjudged" if is_unjudged else "failed",
        failing=sorted({verdict["judge_id"] for verdict in failing}),
        unjudged=sorted({verdict["judge_id"] for verdict in unjudged}),
        reason="" if row["passed"] else one_line(reason, limit=_REASON_LIMIT),
    )


def read_reruns(candidate: Pack) -> Reruns | None:
    """Read what the job ran again from the evidence of its first run; None where it ran nothing again.

    Raises:
        InvalidInput: The record is not of this run, or does not follow from the packs of the trials.
    """
    listed = listed_digests(candidate)
    if RERUNS not in listed:
        return None
    try:
        record = Reruns.model_validate_json(candidate.read(RERUNS))
    except ValueError as error:
        raise _not_following(candidate, "it is no such record") from error
    if record.candidate_manifest_sha256 not in (None, candidate.manifest_sha256):
        raise _not_following(candidate, "it is of another run")
    packs: Mapping[str, Pack] = {}
    if record.evidence_sha256 is not None:
        if listed.get(RERUNS_ARCHIVE) != record.evidence_sha256:
            raise _not_following(candidate, "the packs of its trials are not beside it")
        packs = open_bundle(candidate.read(RERUNS_ARCHIVE), source=f"{candidate.name}/{RERUNS_ARCHIVE}")
    if not (_trials_follow(record, packs) and _rounds_follow(record, packs)):
        raise _not_following(candidate, "its trials are not those of the packs")
    if not all(
        _is_judged_alike(candidate, pack) for name, pack in packs.items() if not name.startswith(BY_MAIN)
    ):
        raise _not_following(candidate, "its trials are of other cases or judges")
    return record


def _trials_follow(record: Reruns, packs: Mapping[str, Pack]) -> bool:
    """Whether the single trials are those of the packs, but for some unjudged ones that were made again.

    An agent that could not be started failed, and left no pack.
    """
    rows = (*record.safety, *record.cases, *record.control, *record.late, *record.new)
    for is_by_main, stated in ((False, rows), (True, record.by_main)):
        in_packs = Counter(
            _key(case_id, _side(name.removeprefix(BY_MAIN)), rerun_of(row))
            for name, pack in packs.items()
            if name.startswith(BY_MAIN) is is_by_main and not name.startswith(WHOLE)
            for case_id, row in pack.results_by_id().items()
        )
        in_record: Counter[_Trial] = Counter()
        for row in stated:
            sides: tuple[tuple[Side, list[Rerun]], ...] = (("change", row.change), ("base", row.base))
            for side, trial in ((side, trial) for side, trials in sides for trial in trials):
                key = _key(row.case_id, side, trial)
                if key in in_packs or trial.result != "failed" or trial.failing or trial.unjudged:
                    in_record[key] += 1
        remaining = in_packs - in_record
        if not in_record <= in_packs or any(result != "unjudged" for _, _, result, _, _ in remaining):
            return False
    return True


def _is_judged_alike(first: Pack, trial: Pack) -> bool:
    """Whether a rerun has judges and cases of the first run, none defined otherwise."""
    before, now, known = first.config, trial.config, first.index_by_id()
    return (
        (before.judges, before.judge_configs) == (now.judges, now.judge_configs)
        and before.execution_config.judge_code == now.execution_config.judge_code
        and all(
            case_id in known and known[case_id]["definition_digest"] == row["definition_digest"]
            for case_id, row in trial.index_by_id().items()
        )
    )


def _rounds_follow(record: Reruns, packs: Mapping[str, Pack]) -> bool:
    """Whether the rounds of the whole suite are in the packs; a round that was cut short is extra."""
    made: Counter[tuple[str, Side, str]] = Counter()
    for name, pack in packs.items():
        if name.startswith(WHOLE):
            side = _side(name.removeprefix(WHOLE))
            for case_id, row in record_of(pack).cases.items():
                made[case_id, side, "passed"] += row.passed
                made[case_id, side, "failed"] += row.trials - row.passed
    stated: Counter[tuple[str, Side, str]] = Counter()
    for done in record.rounds:
        for side, counts in (("base", done.base), ("change", done.change)):
            for case_id, count in counts.items():
                stated[case_id, _side(side), "passed"] += count.passed
                stated[case_id, _side(side), "failed"] += count.trials - count.passed
    return stated <= made


def _side(name: str) -> Side:
    return "change" if name.partition("-")[0] == "change" else "base"


def _key(case_id: str, side: Side, trial: Rerun) -> _Trial:
    return case_id, side, trial.result, tuple(trial.failing), tuple(trial.unjudged)


def _not_following(candidate: Pack, why: str) -> InvalidInput:
    return InvalidInput(
        f"{candidate.name}/{RERUNS} cannot be used, because {why}.",
        remedy="Give the evidence as the job wrote it; the record of reruns is never edited by hand.",
        file=RERUNS,
    )
