"""The pooled baseline of a decision: made from a history by `ci`, kept in evidence, read again by `gate`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval.contracts import Comparison, GateDecision
from agent_eval.contracts.gate import PooledEvidence
from agent_eval.contracts.history import PooledRuns, RunRecord
from agent_eval.errors import AgentEvalError, InvalidInput
from agent_eval.evidence import layout
from agent_eval.evidence.reader import Pack
from agent_eval.history.directory import of_dataset
from agent_eval.history.files import MAX_BYTES, MAX_RECORD_BYTES, decode, encode_all
from agent_eval.history.key import history_key
from agent_eval.history.pool import pooled_runs
from agent_eval.history.record import record_of
from agent_eval.operations.packs import decision_in, listed_digests
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.redaction import Redactor

POOL = Path(layout.COMPARE) / "pool.jsonl"
"""The records of the pooled runs in a pack, the newest first; the decision names their digest."""

NO_POOL = Path("none")
"""As the path of a pool: hold the run against the one baseline, although the job pooled."""

_NAME_LIMIT = 200
_REMEDY = "Give compare/pool.jsonl of the evidence as the job wrote it; it is never edited."


@dataclass(frozen=True)
class Pool:
    """Pooled runs, and their records as `compare/pool.jsonl` has them.

    Example:
        >>> Pool(PooledRuns(run_ids=("ci-1",), cases={}), b"").runs.run_ids
        ('ci-1',)
    """

    runs: PooledRuns
    data: bytes


def make_pool(
    candidate: Pack, comparison: Comparison, earlier: Sequence[RunRecord], most: int
) -> Pool | None:
    """Pool earlier runs for the cases that a comparison compares.

    Args:
        candidate: The run that is held against the pool; its own counts are those of this pack.
        comparison: That run compared with its baseline.
        earlier: Runs of the base branch, each once, the newest first.
        most: Runs that are pooled at most.

    Returns:
        None where too few runs are whole.
    """
    cases = comparison.cases
    apart = {*cases.new, *cases.changed, *cases.quarantined}
    compared = [case_id for case_id in candidate.case_ids() if case_id not in apart]
    runs = pooled_runs(record_of(candidate), earlier, compared, most)
    if runs is None:
        return None
    by_id = {record.run.run_id: record for record in earlier}
    data = encode_all(by_id[run_id] for run_id in runs.run_ids)
    return Pool(replace(runs, sha256=sha256_bytes(data)), data)


def is_of_one_setup(candidate: Pack, baseline: Pack) -> bool:
    """Tell whether a run and its baseline have one key.

    A change could else choose the runs that it is held against, by naming the model of worse days.
    """
    return history_key(candidate.config) == history_key(baseline.config)


def pooled_by_job(candidate: Pack, baseline_manifest_sha256: str) -> PooledEvidence | None:
    """Read from a pack which runs its job held it against; None where that was the baseline alone.

    Args:
        candidate: The pack.
        baseline_manifest_sha256: Digest of the baseline: a decision that was made on another does not count.
    """
    decision = decision_in(candidate)
    if decision is None or decision.baseline_manifest_sha256 != baseline_manifest_sha256:
        return None
    return pooled_in(decision)


def pooled_in(decision: GateDecision) -> PooledEvidence | None:
    """Return the pooled runs that a decision rests on; None where it rests on none."""
    return decision.evidence.pooled if decision.evidence is not None else None


def read_pool(path: Path, candidate: Pack, baseline: Pack, comparison: Comparison) -> PooledRuns:
    """Read the pool of a decision from the evidence, and check that it is the one that the job decided on.

    Args:
        path: `compare/pool.jsonl` of the candidate's pack, or a copy.
        candidate: The pack of the candidate, which lists the digest and has the decision that names it.
        baseline: The pack of the baseline.
        comparison: The candidate compared with the baseline, as it follows from their packs.

    Raises:
        InvalidInput: The file cannot be read, is not the candidate's, or `ci` would not pool these runs.
    """
    data = _read(path)
    _refuse_another(path, sha256_bytes(data), candidate, baseline)
    records = _records(path, data, candidate)
    _refuse_other_runs(path, records, candidate)
    if not is_of_one_setup(candidate, baseline):
        raise _unusable(path, "the setup of the candidate (model, judges, conditions) is not the baseline's")
    pool = make_pool(candidate, comparison, records, len(records))
    if pool is None or pool.data != data:
        raise _unusable(
            path,
            "the cases that are compared now call for other runs",
            "Decide by the policy of the job, at its time: AGENT_EVAL_CLOCK pins it, for what has expired "
            "since. An edited file is refused as well.",
        )
    return pool.runs


def without_secrets(records: Sequence[RunRecord], redactor: Redactor) -> list[RunRecord]:
    """Copy records without what is known to be secret now: earlier runs may not have known it.

    A case whose id or kinds of failure hold a secret is left out: no run that knows the secret has that id.
    """
    if not redactor.finds(encode_all(records)):
        return list(records)
    known: dict[str, str] = {}

    def redacted(text: str) -> str:
        if text not in known:
            known[text] = redactor.redact_text(text)
        return known[text]

    return [_redacted(record, redacted) for record in records]


def _redacted(record: RunRecord, redacted: Callable[[str], str]) -> RunRecord:
    cases = {
        case_id: case
        for case_id, case in record.cases.items()
        if all(redacted(text) == text for text in (case_id, *case.lost, *case.missed))
    }
    run = record.run
    stated = {
        "run_id": redacted(run.run_id),
        "model": redacted(run.model),
        "git_commit": redacted(run.git_commit) if run.git_commit is not None else None,
        "cases": len(cases),
    }
    return RunRecord(run.model_copy(update=stated), cases)


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path, max_bytes=MAX_BYTES + MAX_RECORD_BYTES)
    except AgentEvalError as error:
        error.details["field"] = "pool"
        raise


def _refuse_another(path: Path, sha256: str, candidate: Pack, baseline: Pack) -> None:
    """Refuse a file that the candidate's pack does not list, or that its decision was not made on."""
    if listed_digests(candidate).get(POOL.as_posix()) != sha256:
        raise _unusable(path, "the candidate's pack lists no such file")
    stated = pooled_by_job(candidate, baseline.manifest_sha256)
    if stated is None or stated.sha256 != sha256:
        raise _unusable(path, "the decision in the candidate's pack was not made on it")


def _records(path: Path, data: bytes, candidate: Pack) -> list[RunRecord]:
    try:
        records = decode(data, source=str(path))
        return of_dataset(records, candidate.manifest.dataset_id, source=str(path))
    except InvalidInput as error:
        raise _unusable(path, f"it is no list of records of this dataset: {error.message}") from error


def _refuse_other_runs(path: Path, records: Sequence[RunRecord], candidate: Pack) -> None:
    """Refuse runs that no pool of the candidate has: the candidate, a run twice, and one of another setup."""
    key, ids, manifests = history_key(candidate.config), set[str](), set[str | None]()
    for run in (record.run for record in records):
        name = repr(run.run_id[:_NAME_LIMIT])
        if run.run_id == candidate.config.run_id or run.manifest_sha256 == candidate.manifest_sha256:
            raise _unusable(path, f"its run {name} is the candidate itself")
        if run.run_id in ids or (run.manifest_sha256 is not None and run.manifest_sha256 in manifests):
            raise _unusable(path, f"it has the run {name} twice")
        if run.key != key:
            raise _unusable(path, f"its run {name} has another key (model, judges, conditions) than this one")
        ids.add(run.run_id)
        manifests.add(run.manifest_sha256)


def _unusable(path: Path, why: str, remedy: str = _REMEDY) -> InvalidInput:
    return InvalidInput(
        f"{path}: the pool cannot be used, because {why}", remedy=remedy, file=str(path), field="pool"
    )
