"""Read what fresh trials of both sides gave: from the packs of the trials, and from the record of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from agent_eval.contracts import CaseResultRow, Comparison, Outcome, VerdictRow
from agent_eval.contracts.confirmation import Confirmation, FreshResult, FreshTrials, NewCaseTrial
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.errors import FailureKind, InvalidInput
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.reader import Pack
from agent_eval.gate.confirmation import Confirmed
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.json import DEFAULT_LIMITS
from agent_eval.text.escape import one_line

LARGEST_EVIDENCE = 256 << 20
"""Most bytes of the archive with the packs of fresh trials."""

_REASON_LIMIT = 200
_OF_JUDGING = frozenset(
    {FailureKind.INFRASTRUCTURE.value, FailureKind.ENVIRONMENT.value, FailureKind.JUDGE_ERROR.value}
)
_UNJUDGED = (Outcome.ERROR.value, Outcome.INCONCLUSIVE.value)
_Counts = Counter[tuple[str, str, FreshResult, tuple[str, ...], tuple[str, ...]]]
"""Numbers of trials by case, side, result, judges that failed, and judges that could not tell."""

CONFIRMATION = Path("compare") / "confirmation.json"
TRIALS = Path("compare") / "confirmation.zip"
"""The packs of the fresh trials, each below the name of its side and round."""

NEW = "new-1"
"""The pack of the merge base's agent on new cases, beside those of the rounds, `candidate-1` and so on."""

_NEW_SIDE = NEW.partition("-")[0]
_DEFINITIONS = ("judges_match", "judge_config_match", "execution_match", "simulated_user_match")
"""Conditions of a comparison under which a case is the same case."""
_NOT_RECOMPUTED = "Whether the agent is unchanged is known to the job alone: the evidence does not show it."


def read_confirmation(path: Path, candidate: Pack, comparison: Comparison) -> Confirmed:
    """Read a record, and check that it is the candidate's and follows from the packs of its trials.

    What the evidence cannot show again clears no case: that the agent is unchanged.

    Args:
        path: `compare/confirmation.json` of a pack; the archive beside it has the same name and `.zip`.
        candidate: The pack of the candidate, which lists the digests of both.
        comparison: The candidate compared with its baseline, as it follows from their packs.

    Raises:
        InvalidInput: The record cannot be read, is not the candidate's, or does not follow from the packs.
        InvalidPack: A pack does not verify.
    """
    data = read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes)
    try:
        record = Confirmation.model_validate_json(data)
    except ValueError as error:
        raise _not_following(path, "it is no record of a confirmation") from error
    listed = {entry.path: entry.sha256 for entry in candidate.derived.files} if candidate.derived else {}
    if listed.get(CONFIRMATION.as_posix()) != sha256_bytes(data):
        raise _not_following(path, "the candidate's pack lists no such record")
    archive = path.with_suffix(".zip")
    packs: Mapping[str, Pack] = {}
    if record.evidence_sha256 is not None:
        if listed.get(TRIALS.as_posix()) != record.evidence_sha256:
            raise _not_following(path, "the candidate's pack does not list its trials")
        content = read_bytes(archive, max_bytes=LARGEST_EVIDENCE)
        if sha256_bytes(content) != record.evidence_sha256:
            raise _not_following(path, f"{archive.name} is not the archive that it names")
        packs = open_bundle(content, source=str(archive))
    if _in_packs(packs, with_unjudged=_has_unjudged(record)) != _in_record(record):
        raise _not_following(path, "its trials are not those of the packs")
    if not all(_has_cached(row, packs) for row in record.cases):
        raise _not_following(
            path, "its trials of an earlier run are not among the packs, or did not all pass"
        )
    if not _are_new(record.new_cases, candidate, comparison):
        raise _not_following(path, "its new cases are not those of the comparison")
    # With a problem no trial clears anything, and that judges were altered may be the problem.
    if not record.problem and not all(is_judged_alike(candidate, pack) for pack in packs.values()):
        raise _not_following(path, "its trials are of other cases or judges than the candidate")
    for row in record.cases:
        row.changed = row.changed or is_changed(row.case_id, comparison)
    if record.agent_unchanged:
        record = record.model_copy(update={"agent_unchanged": False, "problem": _NOT_RECOMPUTED})
    return Confirmed(record, sha256_bytes(data))


def is_changed(case_id: str, comparison: Comparison) -> bool:
    """Tell whether a case is not in the baseline, or defined or judged otherwise there."""
    failed = {check.name for check in comparison.compatibility.checks if not check.passed}
    sets = comparison.cases
    is_other = case_id in (*sets.new, *sets.changed, *sets.judged_twice)
    return is_other or not failed.isdisjoint(_DEFINITIONS)


def is_judged_alike(first: Pack, trial: Pack) -> bool:
    """Tell whether a fresh trial has cases and judges of the first run, none defined otherwise."""
    before, now = first.config, trial.config
    definitions = {case_id: row["definition_digest"] for case_id, row in first.index_by_id().items()}
    return (
        all(getattr(before, name) == getattr(now, name) for name in ("judges", "judge_configs"))
        and before.execution_config.judge_code == now.execution_config.judge_code
        and all(
            definitions.get(case_id) == row["definition_digest"]
            for case_id, row in trial.index_by_id().items()
        )
    )


def _has_cached(row: FreshTrials, packs: Mapping[str, Pack]) -> bool:
    """Tell whether the trials of an earlier run are in the packs, and may make a verdict only stricter."""
    if row.cached is None:
        return True
    return set(row.base) == {"passed"} and not any(row.base_failing) and packs.keys() >= set(row.cached.packs)


def _are_new(trials: Sequence[NewCaseTrial], candidate: Pack, comparison: Comparison) -> bool:
    """Tell whether each is a new case, named once, that ended in the candidate's run as the record says."""
    results = candidate.results_by_id() if trials else {}
    ids = [trial.case_id for trial in trials]
    return len(set(ids)) == len(ids) and all(
        trial.case_id in comparison.cases.new
        and bool(results[trial.case_id]["passed"]) == trial.candidate_passed
        for trial in trials
    )


def _has_unjudged(record: Confirmation) -> bool:
    """Tell whether a record has the judges that could not tell, which older versions did not write."""
    return any(row.candidate_unjudged or row.base_unjudged for row in record.cases)


def _in_packs(packs: Mapping[str, Pack], *, with_unjudged: bool) -> _Counts:
    """Count the trials that were not lost, or in which a judge failed, as the record should have them."""
    counts: _Counts = Counter()
    for name, pack in packs.items():
        side = name.partition("-")[0]
        has_unjudged = with_unjudged and side != _NEW_SIDE
        for case_id, row in pack.results_by_id().items():
            result, _ = fresh_result(row, "candidate" if side == "candidate" else "base")
            failing = tuple(failing_judges(row))
            unjudged = tuple(unjudged_judges(row)) if has_unjudged else ()
            counts[case_id, side, result, failing, unjudged] += result != "lost" or bool(failing)
    return +counts


def _in_record(record: Confirmation) -> _Counts:
    counts: _Counts = Counter()
    for row in record.cases:
        sides = (
            ("candidate", row.candidate, row.candidate_failing, row.candidate_unjudged),
            ("base", row.base, row.base_failing, row.base_unjudged),
        )
        for side, results, failing_by_trial, unjudged_by_trial in sides:
            for result, failing, unjudged in zip_longest(results, failing_by_trial, unjudged_by_trial):
                failed, open_still = tuple(failing or ()), tuple(unjudged or ())
                is_counted = result != "lost" or bool(failed)
                counts[row.case_id, side, result or "lost", failed, open_still] += is_counted
    for new in record.new_cases:
        failed = tuple(new.base_failing)
        counts[new.case_id, _NEW_SIDE, new.base, failed, ()] += new.base != "lost" or bool(failed)
    return +counts


def _not_following(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path}: the confirmation cannot be used, because {why}",
        remedy="Give the record of the run as it was written; a confirmation is never edited by hand.",
        file=str(path),
    )


def fresh_result(row: CaseResultRow | None, side: str, why: str = "") -> tuple[FreshResult, str]:
    """Tell how a fresh trial ended, and why it was lost, as a clause.

    An agent of the merge base that crashes may not run there at all, which says nothing of the candidate:
    such a trial is lost. A candidate that crashes failed, unless its judge or its surroundings did.

    Args:
        row: The result; None where there is none.
        side: `candidate` or `base`.
        why: Why there may be none.
    """
    if row is None:
        return "lost", f"{_OF_SIDE[side]} could not be run: {why or 'no result'}"
    if row["passed"]:
        return "passed", ""
    errors = [verdict for verdict in row["verdicts"] if verdict["outcome"] == Outcome.ERROR.value]
    if side == "base" and row["outcome"] != Outcome.FAILED.value:
        return "lost", f"{_OF_SIDE[side]} could not be judged: {_first_reason(errors)}"
    if any(verdict["failure"] in _OF_JUDGING for verdict in errors):
        return "lost", f"{_OF_SIDE[side]} could not be judged: {_first_reason(errors)}"
    return "failed", ""


def failing_judges(row: CaseResultRow | None) -> list[str]:
    """List the judges that failed in a fresh trial, by id; one that could not tell is none."""
    verdicts = row["verdicts"] if row is not None else ()
    return sorted({verdict["judge_id"] for verdict in verdicts if verdict["outcome"] == Outcome.FAILED.value})


def unjudged_judges(row: CaseResultRow | None) -> list[str]:
    """List the judges that gave an error or could not tell in a fresh trial, by id."""
    verdicts = row["verdicts"] if row is not None else ()
    return sorted({verdict["judge_id"] for verdict in verdicts if verdict["outcome"] in _UNJUDGED})


_OF_SIDE = {"candidate": "the candidate's agent", "base": "the merge base's agent"}


def _first_reason(errors: Iterable[VerdictRow]) -> str:
    """Take the reason of the first error; that of the agent's run first, from which others may follow."""
    ordered = sorted(errors, key=lambda verdict: verdict["judge_id"] != EXECUTION)
    reasons = (one_line(verdict["reason"], limit=_REASON_LIMIT).rstrip(".") for verdict in ordered)
    return next(reasons, "no judge could tell")
