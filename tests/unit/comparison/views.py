"""Runs for comparison tests, written as what each judge said of each case.

view({"a": "passed", "b": {"policy": "failed"}}, run_id="baseline")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_eval.comparison.facts import RunView
from agent_eval.contracts import CaseIndexRow, CaseResultRow, case_policy, case_result, digest, trials_result
from tests.factories import make_config, make_verdict, summarize

Said = str | Mapping[str, str]
"""One outcome (of the judge `policy`), or outcomes by judge; `lost` where infrastructure kept it from one."""


def result(case_id: str, said: Said, *, reason: str | None = None, soft: tuple[str, ...] = ()) -> Any:
    by_judge = {"policy": said} if isinstance(said, str) else said
    kinds = {"execution": "infrastructure", "policy": "missing_output"} if said == "lost" else {}
    verdicts = []
    by_judge = dict.fromkeys(kinds, "error") or by_judge
    for judge_id, outcome in {"replay_contract": "passed", **by_judge}.items():
        fields: dict[str, Any] = {"hard": judge_id not in soft}
        if outcome in ("failed", "error"):
            fields |= {"failure": kinds.get(judge_id, "policy_violation"), "evidence_refs": [2]}
            fields |= {"reason": reason} if reason is not None else {}
        score = 1.0 if outcome == "passed" else None
        verdicts.append(make_verdict(case_id, judge_id, outcome, score=score, **fields))
    return case_result(case_id, verdicts)


def tried(case_id: str, *trials: Said, policy: str = "all") -> Any:
    return trials_result([result(case_id, said) for said in trials], case_policy(policy))


def passing(case_id: str, passed: int, trials: int, *, judge: str = "policy", policy: str = "all") -> Any:
    said = ["passed"] * passed + ["failed"] * (trials - passed)
    return tried(case_id, *({judge: one} for one in said), policy=policy)


def index_row(case_id: str, **fields: Any) -> CaseIndexRow:
    row: dict[str, Any] = {
        "case_id": case_id, "definition_digest": "same", "output_digest": digest("done"), "calls": [],
        "models": [], "input_tokens": None, "output_tokens": None, "cost_usd": None, "latency_ms": None,
    }  # fmt: skip
    return {**row, **fields}  # type: ignore[return-value]


def view(
    cases: Mapping[str, Said | Any],
    *,
    index: Mapping[str, Mapping[str, Any]] | None = None,
    soft: tuple[str, ...] = (),
    **config: Any,
) -> RunView:
    """A run.

    Args:
        cases: Case id to what judges said, or to a finished case result.
        index: Case id to index fields that differ from an empty trace's.
        soft: Judges whose failures are not hard.
    """
    settings = make_config(**config)
    results = [
        result(case_id, said, soft=soft) if isinstance(said, str | Mapping) else said
        for case_id, said in cases.items()
    ]
    rows: dict[str, CaseResultRow] = {one.case_id: one.to_json() for one in results}  # type: ignore[misc]
    return RunView(
        config=settings, summary=summarize(settings.run_id, settings.dataset_id, results),
        manifest_sha256="0" * 64, results=rows,
        index={case_id: index_row(case_id, **(index or {}).get(case_id, {})) for case_id in rows},
    )  # fmt: skip
