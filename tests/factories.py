"""Small suites, verdicts and evidence packs for tests, written as sentences.

    pack = make_pack(tmp_path / "pack", [make_result("a"), make_result("b", failed="policy")])

Packs are built here byte by byte from the format's description, not with the program's writer, so that
reader and writer are tested against something that is neither; but for the figures of the index.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from agent_eval.contracts import (
    REPLAY_CONTRACT,
    Case,
    CaseResult,
    Outcome,
    RunConfig,
    RunSummary,
    Tally,
    Verdict,
    case_policy,
    case_result,
    trials_result,
)
from agent_eval.contracts.base import EARLIER
from agent_eval.evidence.index import index_row
from agent_eval.storage.files import safe_name

DEFAULT_JUDGES = ("tool_contract", "policy", "trajectory_step", "regex", "json_schema")
SHARD = 250
_INDENTED = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


def make_event(idx: int, **fields: Any) -> dict[str, Any]:
    """One event; an agent's message unless `fields` say otherwise."""
    return {
        "idx": idx, "ts": f"2026-01-01T00:00:{idx % 60:02d}Z", "actor": "agent", "type": "message", **fields,
    }  # fmt: skip


def make_trace(*tools: str, output: str = "done") -> list[dict[str, Any]]:
    """Calls of `tools` in order, each with its result, then the agent's answer."""
    events: list[dict[str, Any]] = []
    for number, tool in enumerate(tools):
        call_id = f"call-{number}"
        events.append(
            make_event(len(events), type="tool_call", tool=tool, input={"n": number}, call_id=call_id)
        )
        events.append(
            make_event(
                len(events), actor="tool", type="tool_result", tool=tool, output={"ok": True}, call_id=call_id
            )
        )
    events.append(make_event(len(events), output=output))
    return events


def make_case(case_id: str = "case-1", *tools: str, output: str = "done", **fields: Any) -> dict[str, Any]:
    """A case as plain JSON with a recorded trace: calls of `tools`, then `output`."""
    trace = make_trace(*(tools or ("lookup",)), output=output)
    return {"case_id": case_id, "input": f"Do {case_id}.", "trace": trace, **fields}


def make_suite(*cases: dict[str, Any], dataset_id: str = "shop", **metadata: Any) -> dict[str, Any]:
    """A suite as plain JSON."""
    return {
        "dataset_id": dataset_id, "metadata": {"schema_version": "1.2.0", **metadata}, "cases": list(cases),
    }  # fmt: skip


def make_verdict(
    case_id: str = "case-1", judge_id: str = "policy", outcome: str = "passed", **fields: Any
) -> Verdict:
    """A verdict; `failure` is policy_violation where the outcome needs one."""
    found = Outcome(outcome)
    if found in (Outcome.FAILED, Outcome.ERROR):
        fields.setdefault("failure", "policy_violation")
    score = {Outcome.PASSED: 1.0, Outcome.FAILED: 0.0}.get(found)
    values = {"score": score, "reason": f"{judge_id} {outcome}", **fields}
    return Verdict(
        judge_id=judge_id, case_id=case_id, outcome=found, passed=found is Outcome.PASSED, **values
    )


def make_result(
    case_id: str = "case-1",
    *,
    failed: str | Sequence[str] = (),
    error: str | Sequence[str] = (),
    skipped: str | Sequence[str] = (),
    judges: Sequence[str] = DEFAULT_JUDGES,
) -> CaseResult:
    """A case's result: every judge passed, except those named. `replay_contract` comes first."""
    outcome_of = dict.fromkeys((REPLAY_CONTRACT, *judges), "passed")
    for outcome, named in (("failed", failed), ("error", error), ("skipped", skipped)):
        for judge_id in [named] if isinstance(named, str) else named:
            outcome_of[judge_id] = outcome
    return case_result(
        case_id, [make_verdict(case_id, name, outcome) for name, outcome in outcome_of.items()]
    )


def make_judged(case_id: str, *outcomes: str, policy: str = "any", **fields: Any) -> CaseResult:
    """A case that `policy` judged with these outcomes, one a trial; `fields` are of its verdicts."""
    trials = [
        case_result(
            case_id,
            [make_verdict(case_id, REPLAY_CONTRACT), make_verdict(case_id, "policy", outcome, **fields)],
        )
        for outcome in outcomes
    ]
    return trials_result(trials, case_policy(policy))


def make_config(**fields: Any) -> RunConfig:
    """A run's configuration."""
    values = {
        "run_id": "run-1", "dataset_id": "shop", "started_at": "2026-01-01T00:00:00+00:00",
        "judges": list(DEFAULT_JUDGES), **fields,
    }  # fmt: skip
    return RunConfig(**values)


def make_index_row(raw: dict[str, Any], trial: int = 0) -> dict[str, Any]:
    """The line of `run/index.jsonl` for a case, of the trial that decides it."""
    case = Case.model_validate(raw, context=EARLIER).of_trial(trial)
    return dict(index_row(raw, case, case.recorded))


def make_pack(
    root: Path,
    results: Iterable[CaseResult] | None = None,
    *,
    cases: Sequence[dict[str, Any]] | None = None,
    layout: str = "files",
    config: RunConfig | None = None,
    shard: int = SHARD,
) -> Path:
    """Write a sealed pack and return its path.

    Args:
        root: Where; the directory must not exist yet.
        results: A result a case, in suite order; three passed cases when left out.
        cases: The cases they belong to; made from their ids when left out.
        layout: `files` or `compact`.
    """
    if results is None:
        ids = [case["case_id"] for case in cases] if cases else ["case-1", "case-2", "case-3"]
        results = [make_result(case_id) for case_id in ids]
    results = list(results)
    cases = list(cases) if cases is not None else [make_case(result.case_id) for result in results]
    # Each trial has a trajectory.
    cases = [
        {**case, "trials": [{"trace": case.get("trace", [])}] * (len(result.trials) - 1)}
        if result.trials and "trials" not in case
        else case
        for case, result in zip(cases, results, strict=True)
    ]
    config = config or make_config()
    files = pack_files(results, cases, config=config, layout=layout, shard=shard)
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(data)
    seal(root, config, layout=layout, case_ids=[result.case_id for result in results])
    return root


def summarize(run_id: str, dataset_id: str, results: Iterable[CaseResult]) -> RunSummary:
    """The summary of a run with these results."""
    tally = Tally()
    for result in results:
        tally.add_row(result.to_json())  # type: ignore[arg-type]  # the same fields
    return tally.summary(run_id, dataset_id)


def pack_files(
    results: Sequence[CaseResult],
    cases: Sequence[dict[str, Any]],
    *,
    config: RunConfig,
    layout: str,
    shard: int = SHARD,
) -> dict[str, bytes]:
    """The files of a pack's run part by path."""
    files = {
        "run/config.json": pretty(config.to_json()),
        "run/summary.json": pretty(summarize(config.run_id, config.dataset_id, results).to_json()),
        "run/index.jsonl": lines(
            make_index_row(case, result.trial) for case, result in zip(cases, results, strict=True)
        ),
    }
    rows = [result.to_json() for result in results]
    if layout == "compact":
        for number, start in enumerate(range(0, len(cases), shard)):
            files[f"cases/trajectories-{number:05d}.jsonl"] = lines(cases[start : start + shard])
            files[f"cases/verdicts-{number:05d}.jsonl"] = lines(rows[start : start + shard])
        return files
    events = []
    judges: dict[str, list[dict[str, Any]]] = {}
    for case, row in zip(cases, rows, strict=True):
        case_id = row["case_id"]
        folder = f"cases/{safe_name(case_id)}"
        files[f"{folder}/trajectory.json"] = pretty(case)
        files[f"{folder}/verdicts.json"] = pretty(row)
        place = {"run_id": config.run_id, "dataset_id": config.dataset_id, "case_id": case_id}
        events += [{**event, **place} for event in case.get("trace", [])]
        for number, trial in enumerate(case.get("trials", []), start=1):
            events += [{**event, **place, "trial": number} for event in trial["trace"]]
        for verdict in row["verdicts"]:
            judges.setdefault(verdict["judge_id"], []).append(verdict)
    files["run/events.jsonl"] = lines(events)
    for judge_id, verdicts in judges.items():
        files[f"judges/{safe_name(judge_id)}.json"] = pretty(verdicts)
    return files


def seal(root: Path, config: RunConfig, *, layout: str, case_ids: Sequence[str]) -> None:
    """Write `manifest.json` for what lies in `root`; also used to seal again after tampering."""
    folders = {case_id: safe_name(case_id) for case_id in case_ids} if layout == "files" else {}
    manifest = {
        "schema_version": "1.2.0", "kind": "run", "layout": layout, "run_id": config.run_id,
        "dataset_id": config.dataset_id, "complete": True, "case_count": len(case_ids),
        "case_directories": folders, "files": file_entries(root, leave_out=("manifest.json", "derived.json")),
    }  # fmt: skip
    (root / "manifest.json").write_bytes(pretty(manifest))


def file_entries(root: Path, *, leave_out: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Manifest entries of every file below `root`, sorted by path."""
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    entries = []
    for path in paths:
        if path not in leave_out:
            data = (root / path).read_bytes()
            entries.append({"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    return entries


def pretty(value: Any) -> bytes:
    """JSON as people open it: sorted keys, two spaces, a newline at the end."""
    return orjson.dumps(value, option=_INDENTED)


def lines(values: Iterable[Any]) -> bytes:
    """JSON Lines: sorted keys, one value a line."""
    return b"".join(orjson.dumps(value, option=orjson.OPT_SORT_KEYS) + b"\n" for value in values)
