from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import compare
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import Case, Comparison, digest
from agent_eval.errors import IncompatibleRuns, InvalidInput, NothingMeasured
from tests.factories import make_case
from tests.unit.comparison.views import result, view

NOW = "2026-01-02T00:00:00+00:00"


def compared(baseline: RunView, candidate: RunView, **options: Any) -> Comparison:
    return compare(baseline, candidate, **{"changed": "refuse", "generated_at": NOW, **options})


outcomes = st.sampled_from(["passed", "failed", "inconclusive", "skipped", "error"])
runs = st.dictionaries(
    st.sampled_from([f"case-{number}" for number in range(8)]),
    st.dictionaries(st.sampled_from(["policy", "regex", "style"]), outcomes, min_size=1),
    min_size=1,
)


def both(before: Any, now: Any) -> Comparison:
    baseline, candidate = view(before, soft=("style",)), view(now, soft=("style",))
    return compared(baseline, candidate, changed="exclude")


@given(runs)
def test_a_run_compared_with_itself_has_not_changed(cases: Any) -> None:
    found = both(cases, cases)
    assert found.case_regressions == []
    assert found.behaviour_changes == []
    assert found.regressions == []
    assert found.overview.regressed_cases == found.overview.improved_cases == 0
    assert found.overview.risk_level == "low"
    assert found.release_impact.impact_level == "low"
    assert all(
        metric.delta in (0, None) for metric in [*found.metrics.values(), *found.judge_metrics.values()]
    )
    assert all(cluster.delta == 0 for cluster in found.failure_clusters.delta_ranked)


@given(runs, runs)
def test_swapping_the_runs_swaps_regressed_and_improved(before: Any, now: Any) -> None:
    there, back = both(before, now), both(now, before)
    regressed = {row.case_id for row in there.case_regressions if row.regressed}
    improved = {row.case_id for row in there.case_regressions if row.improved}
    assert regressed == {row.case_id for row in back.case_regressions if row.improved}
    assert improved == {row.case_id for row in back.case_regressions if row.regressed}
    assert not regressed & improved
    assert there.new_hard_fail_case_ids == back.resolved_hard_fail_case_ids
    assert there.cases.new == back.cases.removed
    for name, metric in {**there.metrics, **there.judge_metrics}.items():
        other = {**back.metrics, **back.judge_metrics}[name]
        assert metric.delta == (None if other.delta is None else -other.delta)


@given(runs, runs)
def test_rates_are_those_of_the_compared_cases_counted_by_hand(before: Any, now: Any) -> None:
    found = both(before, now)
    common = sorted(before.keys() & now.keys())
    assert found.cases.compared == found.overview.compared_cases == len(common)

    def passes(said: dict[str, str]) -> bool:
        judged = [outcome for outcome in said.values() if outcome != "skipped"]
        return bool(judged) and set(judged) == {"passed"}

    def hard_fails(said: dict[str, str]) -> bool:
        return any(judge != "style" and outcome in ("failed", "error") for judge, outcome in said.items())

    if not common:
        assert found.metrics["pass_rate"].baseline is None
        assert found.release_impact.impact_level == "critical"
        return
    assert found.metrics["pass_rate"].baseline == sum(passes(before[one]) for one in common) / len(common)
    assert found.metrics["pass_rate"].candidate == sum(passes(now[one]) for one in common) / len(common)
    assert found.metrics["hard_fail_rate"].candidate == sum(hard_fails(now[one]) for one in common) / len(
        common
    )
    for judge in ("policy", "regex", "style"):
        judged = [now[one][judge] for one in common if now[one].get(judge, "skipped") != "skipped"]
        share = judged.count("passed") / len(judged) if judged else None
        if judge in found.judge_metrics:
            assert found.judge_metrics[judge].candidate == share
        else:
            assert not any(judge in before[one] or judge in now[one] for one in common)
    assert found.regressed_case_ids == [
        one
        for one in common
        if (passes(before[one]) and not passes(now[one]))
        or (hard_fails(now[one]) and not hard_fails(before[one]))
    ]


def test_regressed_cases_come_first_and_hard_fails_before_the_others() -> None:
    before = view(dict.fromkeys("abc", "passed") | {"d": "failed", "e": "failed"})
    now = view(
        {
            "a": "inconclusive",
            "b": "failed",
            "c": "error",
            "d": "passed",
            "e": {"policy": "failed", "regex": "error"},
        }
    )
    rows = compared(before, now).case_regressions
    assert [(row.case_id, row.regressed, row.improved) for row in rows] == [
        ("b", True, False),
        ("c", True, False),
        ("a", True, False),
        ("d", False, True),
        ("e", False, False),
    ]


def test_a_case_row_names_the_judges_that_changed_those_that_fail_now_first() -> None:
    before = view({"a": {"lean": "failed", "policy": "passed", "regex": "passed"}})
    now = view(
        {"a": result("a", {"lean": "passed", "policy": "passed", "regex": "failed"}, reason="no match")}
    )
    (row,) = compared(before, now).case_regressions
    assert [(judge.judge_id, judge.baseline, judge.candidate) for judge in row.judges] == [
        ("regex", "passed", "failed"),
        ("lean", "failed", "passed"),
    ]
    assert (row.judges[0].reason, row.judges[0].failure, row.judges[0].evidence_refs) == (
        "no match",
        "policy_violation",
        [2],
    )


def test_a_judge_that_only_one_run_has_is_null_on_the_other_side_and_said_at_the_top() -> None:
    before = view({"a": {"policy": "passed"}}, judges=["policy"])
    now = view({"a": {"policy": "passed", "regex": "failed"}}, judges=["policy", "regex"])
    found = compared(before, now)
    assert found.case_regressions[0].judges[0].baseline is None
    assert found.judge_metrics["regex"].baseline is None
    assert found.judge_metrics["regex"].delta is None
    assert found.compatibility.passed
    assert "Regex judged only the candidate." in found.behaviour.notices


def test_judge_configuration_that_differs_is_said_and_does_not_block() -> None:
    found = compared(
        view({"a": "passed"}, judge_configs={"regex": {"hard": True}}),
        view({"a": "passed"}, judge_configs={"regex": {"hard": False}}),
    )
    assert [check.name for check in found.compatibility.failures] == ["judge_config_match"]
    assert found.behaviour.notices == ["Regex configured differently."]


def test_a_very_long_reason_is_cut_in_the_comparison() -> None:
    now = view({"a": result("a", "failed", reason="x" * 100_000)})
    (row,) = compared(view({"a": "passed"}), now).case_regressions
    assert len(row.judges[0].reason) == 1_000
    assert row.judges[0].reason.endswith("…")


def different(kind: str) -> tuple[RunView, RunView]:
    baseline = view({"a": "passed", "b": "failed"})
    if kind == "dataset":
        return baseline, view({"a": "passed", "b": "failed"}, dataset_id="another")
    if kind == "definition":
        return baseline, view({"a": "failed", "b": "failed"}, index={"a": {"definition_digest": "other"}})
    return baseline, view({"a": "passed", "c": "failed"})


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("dataset", "dataset_id_match"),
        ("definition", "case_definition_match"),
        ("cases", "case_id_set_match"),
    ],
)
def test_runs_of_different_things_are_refused_unless_they_are_included(kind: str, check: str) -> None:
    with pytest.raises(IncompatibleRuns) as refused:
        compared(*different(kind))
    assert [one["name"] for one in refused.value.details["checks"]] == [check]
    if kind == "cases":
        assert "1 case is only in the candidate, 1 only in the baseline" in refused.value.message
    assert "--allow-incompatible" in refused.value.remedy
    allowed = compared(*different(kind), changed="include")
    assert not allowed.compatibility.passed
    assert [one.name for one in allowed.compatibility.failures] == [check]


def test_with_exclude_new_changed_and_removed_cases_stay_out_and_are_listed() -> None:
    before = view({"kept": "passed", "edited": "passed", "gone": "passed", "gone-failing": "failed"})
    now = view(
        {"kept": "passed", "edited": "failed", "new": "failed"}, index={"edited": {"definition_digest": "x"}}
    )
    found = compared(before, now, changed="exclude")
    assert found.cases.model_dump() == {
        "compared": 1,
        "new": ["new"],
        "changed": ["edited"],
        "removed": ["gone", "gone-failing"],
        "removed_failing": ["gone-failing"],
        "judged_twice": [],
    }
    assert found.case_regressions == []
    assert found.compatibility.passed
    assert found.candidate.summary.total_cases == 3


def test_exclude_still_refuses_another_dataset() -> None:
    with pytest.raises(IncompatibleRuns, match="datasets differ"):
        compared(*different("dataset"), changed="exclude")


def test_an_empty_run_is_no_comparison() -> None:
    with pytest.raises(NothingMeasured, match="candidate run"):
        compared(view({"a": "passed"}), view({}))
    with pytest.raises(NothingMeasured, match="baseline run"):
        compared(view({}), view({"a": "passed"}))
    with pytest.raises(NothingMeasured, match="share no case"):
        compared(view({"a": "passed"}), view({"b": "passed"}), changed="include")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("passed_cases", 2),
        ("pass_rate", 1.0),
        ("hard_fail_cases", 0),
        ("judge_counts", {}),
        ("total_cases", 3),
    ],
)
def test_a_summary_that_disagrees_with_its_verdicts_is_refused(field: str, value: Any) -> None:
    honest = view({"a": "passed", "b": "failed"})
    edited = replace(honest, summary=honest.summary.model_copy(update={field: value}))
    with pytest.raises(InvalidInput, match="disagrees with its verdicts") as refused:
        compared(honest, edited)
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    ("field", "value"), [("outcome", "passed"), ("passed", True), ("hard_failed", False)]
)
def test_a_case_result_that_disagrees_with_its_verdicts_is_refused(field: str, value: Any) -> None:
    honest = view({"a": "failed"})
    edited = view({"a": "failed"})
    edited.results["a"][field] = value  # type: ignore[literal-required]
    with pytest.raises(InvalidInput, match="disagrees with its verdicts") as refused:
        compared(honest, edited)
    assert refused.value.details["case_id"] == "a"


def test_an_index_without_a_case_is_refused() -> None:
    whole = view({"a": "passed", "b": "passed"})
    with pytest.raises(InvalidInput, match="do not name the same cases"):
        compared(whole, replace(whole, index={"a": whole.index["a"]}))


def test_rates_that_fell_are_said_and_judges_ranked_by_their_fall() -> None:
    before = view({name: {"policy": "passed", "regex": "passed"} for name in "abcd"})
    now = view(
        {
            "a": {"policy": "failed", "regex": "failed"},
            "b": {"policy": "passed", "regex": "failed"},
            "c": {"policy": "passed", "regex": "passed"},
            "d": {"policy": "passed", "regex": "passed"},
        }
    )
    found = compared(before, now)
    assert found.regressions == [
        "pass rate decreased from 100% to 50.0%",
        "hard fail rate increased from 0% to 50.0%",
        "policy pass rate decreased from 100% to 75.0%",
        "regex pass rate decreased from 100% to 50.0%",
    ]
    assert [metric.name for metric in found.top_regressed_judges] == ["regex", "policy"]
    assert found.release_impact.impact_level == "critical"
    assert found.overview.risk_level == "high"


@pytest.mark.parametrize(
    ("cases", "regressed", "risk", "level"),
    [
        (100, 0, "low", "low"),
        (100, 1, "medium", "medium"),
        (100, 5, "high", "medium"),
        (100, 9, "high", "high"),
        (4, 4, "high", "critical"),
    ],
)
def test_risk_and_impact_grow_with_the_share_of_regressed_cases(
    cases: int, regressed: int, risk: str, level: str
) -> None:
    before = view({f"c{number}": "passed" for number in range(cases)})
    now = view({f"c{number}": "inconclusive" if number < regressed else "passed" for number in range(cases)})
    found = compared(before, now)
    assert (found.overview.risk_level, found.release_impact.impact_level) == (risk, level)


def test_one_new_hard_fail_is_high_however_large_the_suite() -> None:
    before = view({f"c{number}": "passed" for number in range(500)})
    now = view({f"c{number}": "passed" if number else "failed" for number in range(500)})
    found = compared(before, now)
    assert (found.overview.risk_level, found.release_impact.impact_level) == ("high", "high")
    assert found.new_hard_fail_case_ids == ["c0"]


def test_as_many_improved_as_regressed_is_worth_a_look_and_no_alarm() -> None:
    before = view(
        {f"c{number}": "passed" if number % 2 else "failed" for number in range(100)} | {"a": "passed"}
    )
    now = view(
        {f"c{number}": "passed" if number % 2 else "failed" for number in range(98)}
        | {"c98": "passed", "c99": "failed", "a": "passed"}
    )
    found = compared(before, now)
    assert (found.overview.regressed_cases, found.overview.improved_cases) == (1, 1)
    assert (found.overview.risk_level, found.release_impact.impact_level) == ("medium", "medium")


def test_traces_are_looked_up_only_for_cases_whose_result_changed() -> None:
    calls = {"calls": [["search", "x"]]}
    before = view({"a": "passed", "b": "passed", "c": "passed"})
    now = view({"a": "passed", "b": "failed", "c": "passed"}, index={"a": calls, "b": calls})
    asked = []

    def traces(case_id: str) -> tuple[Case, Case]:
        asked.append(case_id)
        case = Case.model_validate(make_case(case_id))
        return case, case

    found = compared(before, now, traces=traces)
    assert asked == ["b"]
    assert [change.case_id for change in found.behaviour_changes] == ["b", "a"]


def test_behaviour_details_are_bounded_and_totals_are_not() -> None:
    before = view({f"c{number:02}": "passed" for number in range(30)})
    now = view(
        {f"c{number:02}": "passed" for number in range(30)},
        index={f"c{number:02}": {"output_digest": digest(number)} for number in range(30)},
    )
    found = compared(before, now, detail_limit=7)
    assert len(found.behaviour_changes) == 7
    assert found.behaviour.cases_with_changed_output == 30


def test_the_same_runs_give_the_same_bytes() -> None:
    before = {"a": "passed", "b": {"policy": "failed", "regex": "failed"}}
    now = {"b": {"regex": "failed", "policy": "passed"}, "a": "failed"}
    first = compared(view(before), view(now)).model_dump_json()
    second = compared(
        view(dict(reversed(before.items()))), view(dict(reversed(now.items())))
    ).model_dump_json()
    assert first.replace(" ", "") == second.replace(" ", "")
