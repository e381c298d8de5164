"""Records of runs: how they are made from evidence, their key, and how later evidence keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from agent_eval.contracts import CaseIndexRow, CaseResultRow, Outcome, RunConfig, digest
from agent_eval.contracts.base import READABLE_SCHEMA_VERSIONS, Contract, canonical_json, instant
from agent_eval.contracts.history import CaseRecord, HistoryRun, RunRecord
from agent_eval.contracts.verdict import TrialResultRow, row_fault
from agent_eval.errors import AgentEvalError, FailureKind, Fault, InvalidInput
from agent_eval.evidence import layout
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.rows import first_problem
from agent_eval.storage.json import Limits, parse

HISTORY = f"{layout.HISTORY}/runs.jsonl"
"""The file in a pack; `derived.json` lists it with its digest."""
MAX_RUNS = 100
"""Runs that a history has."""
MAX_BYTES = 8 << 20
"""Bytes of the records of a history: the oldest are left out beyond it, and a larger run has no record."""
DEFINITION_LENGTH = 12

_KEY_LENGTH = 16
_LINE = Limits(max_bytes=1 << 16)
_CONDITIONS = (
    *("case_policy", "judge_code", "max_repairs", "strict_side_effects", "share_expected_output"),
    *("attempt_limits", "case_limits", "tool_server", "cassette", "simulator"),
)
"""Fields of `execution_config` under which the agent ran and was judged."""
_NOT_OF_THE_AGENT = frozenset(
    kind.value
    for kind in (
        *(FailureKind.JUDGE_ERROR, FailureKind.SIMULATOR_ERROR),
        *(FailureKind.ENVIRONMENT, FailureKind.INFRASTRUCTURE),
    )
)
"""Kinds of failure that are never why the agent missed."""
_Line = TypeVar("_Line", bound=Contract)


def history_key(config: RunConfig) -> str:
    """Digest what must be equal for the counts of two runs to be added: 16 hexadecimal digits.

    That is the agent's model, the judges with their configuration (a model's name and prompt are part of it)
    and code, the simulated user, the conditions of the run, the stated policy and the schema. The definition
    of a case is compared case by case, so that a new case does not end the history of the others. The agent's
    code, prompt and version are what is measured, and are not part of the key.
    """
    execution = config.execution_config.to_json()
    parts = {
        "schema_version": config.schema_version,
        "dataset_id": config.dataset_id,
        "model": config.model,
        "judges": sorted(config.judges),
        "judge_configs": config.judge_configs,
        "policy": config.policy_hash,
        "execution_mode": config.execution_mode,
        "conditions": {name: execution[name] for name in _CONDITIONS if execution.get(name) is not None},
    }
    return digest(parts)[:_KEY_LENGTH]


def record_of(pack: Pack) -> RunRecord:
    """Count what a verified pack says of each case."""
    config, index = pack.config, pack.index_by_id()
    cases = {row["case_id"]: case_record(row, index[row["case_id"]]) for row in pack.results()}
    run = HistoryRun(
        schema_version=config.schema_version,
        run_id=config.run_id,
        dataset_id=config.dataset_id,
        key=history_key(config),
        started_at=config.started_at,
        cases=len(cases),
        model=config.model,
        git_commit=config.git_commit,
        manifest_sha256=pack.manifest_sha256,
    )
    return RunRecord(run, dict(sorted(cases.items())))


def case_record(row: CaseResultRow, index: CaseIndexRow) -> CaseRecord:
    """Count what the result of a case, and its row of the index, say of it."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("lost", "missed", "failing", "untold")}
    passed = hard_failed = 0
    trials: list[CaseResultRow | TrialResultRow] = [*(row.get("trials") or [row])]
    for trial in trials:
        hard_failed += trial["hard_failed"]
        said = {(verdict["judge_id"], verdict["outcome"]) for verdict in trial["verdicts"]}
        counts["failing"].update({judge for judge, outcome in said if outcome == Outcome.FAILED.value})
        untold = (Outcome.ERROR.value, Outcome.INCONCLUSIVE.value)
        counts["untold"].update({judge for judge, outcome in said if outcome in untold})
        fault = row_fault(trial)
        if trial["passed"]:
            passed += 1
        elif trial["outcome"] == Outcome.SKIPPED.value:
            counts["lost"]["not_judged"] += 1
        elif fault is not None and fault is not Fault.AGENT:
            counts["lost"][fault.value] += 1
        else:
            # The kind of the first failure that is the agent's.
            stated = (verdict["failure"] for verdict in trial["verdicts"])
            kinds = [str(kind) for kind in stated if kind is not None]
            if trial["outcome"] == Outcome.INCONCLUSIVE.value or not kinds:
                kinds = ["inconclusive"]
            counts["missed"][next((kind for kind in kinds if kind not in _NOT_OF_THE_AGENT), kinds[0])] += 1
    cost, latency = index["cost_usd"], index["latency_ms"]
    return CaseRecord(
        case_id=row["case_id"],
        definition=index["definition_digest"][:DEFINITION_LENGTH],
        passed=passed,
        scored=passed + counts["missed"].total(),
        # What is zero or unknown is left out: a record is small.
        **({"hard_failed": hard_failed} if hard_failed else {}),
        **{name: dict(sorted(count.items())) for name, count in counts.items() if count},
        **({"cost_usd": round(cost, 6)} if cost is not None and cost >= 0 else {}),
        **({"latency_ms": round(latency, 0)} if latency is not None and latency >= 0 else {}),
    )


def encode(*records: RunRecord) -> bytes:
    """Encode records in their order: of each a line for the run, and one for each case, sorted by id."""
    lines: list[Contract] = []
    for record in records:
        lines += [record.run, *(record.cases[case_id] for case_id in sorted(record.cases))]
    return b"".join(canonical_json(line.to_json()) + b"\n" for line in lines)


def decode(data: bytes, *, source: str) -> list[RunRecord]:
    """Read the records of one run or several; `source` is the name of the file in errors.

    Raises:
        InvalidInput: Something in it is no record of this version, or a record is not whole.
    """
    if len(data) > 2 * MAX_BYTES:
        raise _broken(source, 1, f"{len(data):,} bytes are more than a history may have")
    if data and not data.endswith(b"\n"):
        raise _broken(source, data.count(b"\n") + 1, "the last line is cut off")
    records = []
    lines = enumerate(data.split(b"\n")[:-1], start=1)
    for number, line in lines:
        run = _line(HistoryRun, line, source, number)
        cases: dict[str, CaseRecord] = {}
        for place, following in islice(lines, min(run.cases, len(data))):
            case = _line(CaseRecord, following, source, place)
            if not case.is_consistent:
                what = "it is not the record of a case: its counts contradict each other"
                raise _broken(source, place, what)
            cases[case.case_id] = case
        if len(cases) != run.cases:
            what = f"the record of run {run.run_id[:200]!r} has {len(cases)} cases where it says {run.cases}"
            raise _broken(source, number, what)
        records.append(RunRecord(run, cases))
    return records


def _line(kind: type[_Line], data: bytes, source: str, number: int) -> _Line:
    is_run = kind is HistoryRun
    try:
        value: Any = parse(data, source=source, limits=_LINE, first_line=number)
    except AgentEvalError as error:
        raise _broken(source, number, error.message) from error
    version = value.get("schema_version") if is_run and isinstance(value, dict) else None
    if isinstance(version, str) and version not in READABLE_SCHEMA_VERSIONS:
        what = f"the record is of version {version[:40]!r}, which cannot be read."
        raise _broken(source, number, what, "Use a newer agent-eval, or make a new run on the base branch.")
    try:
        line = kind.model_validate(value)
        if isinstance(line, HistoryRun):
            instant(line.started_at)
    except ValueError as error:  # pydantic's among them
        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
        what = "the first line of a record" if is_run else "the record of a case"
        raise _broken(source, number, f"it is not {what}: {problem}") from error
    return line


def _broken(source: str, line: int, what: str, remedy: str | None = None) -> InvalidInput:
    return InvalidInput(
        f"{source}, line {line}: {what}",
        remedy=remedy or "A record is never edited: restore the file, or make a new run on the base branch.",
        file=source,
        line=line,
    )


def newest_first(records: Iterable[RunRecord], *, most: int = MAX_RUNS) -> list[RunRecord]:
    """Sort records by when their runs began, as many of the newest as a history has room for.

    Of two records of one run, known by id and dataset, the first is taken.
    """
    known: dict[tuple[str, str], RunRecord] = {}
    for record in records:
        known.setdefault((record.run.dataset_id, record.run.run_id), record)
    newest: list[RunRecord] = []
    size = 0
    for record in sorted(
        known.values(), key=lambda each: (instant(each.run.started_at), each.run.run_id), reverse=True
    )[:most]:
        size += len(encode(record))
        if size > MAX_BYTES:
            break
        newest.append(record)
    return newest


def read_history(pack: Pack) -> list[RunRecord]:
    """Read the history that a verified pack carries, the newest first; empty where it carries none.

    Raises:
        InvalidInput: It cannot be read, is of another dataset, or its newest run is not that of the pack: a
            history is never moved from one pack to another.
    """
    if pack.derived is None or all(entry.path != HISTORY for entry in pack.derived.files):
        return []
    source = f"{pack.name}/{HISTORY}"
    records = decode(pack.read(HISTORY), source=source)
    own = records[0].run.manifest_sha256 if records else None
    if own != pack.manifest_sha256 or {each.run.dataset_id for each in records} != {pack.manifest.dataset_id}:
        raise InvalidInput(
            f"{source}: its first record is not that of the run in this pack, or one is of another dataset.",
            remedy="The file was put there from elsewhere: make a new run on the base branch.",
            file=source,
        )
    return newest_first(records)


def write_history(pack: Path, own: RunRecord, earlier: Iterable[RunRecord]) -> None:
    """Write a run's record and those of the runs before it into its pack."""
    before = (record for record in earlier if record.run.run_id != own.run.run_id)
    write_output(pack / HISTORY, encode(own, *newest_first(before, most=MAX_RUNS - 1)))


def encode_used(newest: RunRecord | None, main: Sequence[RunRecord]) -> bytes:
    """Encode what a decision rests on: main's newest run of all, and then its runs before the base.

    The newest is written twice where it is one of these; nothing is written without a newest run.
    """
    return encode(newest, *main) if newest is not None else b""


def decode_used(data: bytes, *, source: str) -> tuple[RunRecord | None, list[RunRecord]]:
    """Read what `encode_used` wrote: the newest run, and main's runs before the base, the newest first."""
    records = decode(data, source=source)
    return (records[0], records[1:]) if records else (None, [])
