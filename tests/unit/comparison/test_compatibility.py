"""Conditions for comparing two runs: which hold, which stop a comparison, and what is said of each."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.comparison.compatibility import EXAMPLES, check, is_helped, judge_ids, partition, select
from agent_eval.comparison.facts import RunView, outcomes_of
from agent_eval.contracts import CaseSets, Compatibility, CompatibilityCheck
from agent_eval.errors import IncompatibleRuns
from tests.unit.comparison.views import passing, view


def checked(before: RunView, now: RunView, **options: Any) -> Compatibility:
    outcomes = outcomes_of(before.results), outcomes_of(now.results)
    return check(before, now, partition(before, now), outcomes, **options)


def checks(before: RunView, now: RunView, **options: Any) -> dict[str, CompatibilityCheck]:
    found = checked(before, now, **options)
    assert found.failures == [one for one in found.checks if not one.passed]
    assert found.passed == all(one.passed for one in found.checks if one.enforced)
    return {one.name: one for one in found.checks}


def test_runs_of_the_same_suite_hold_every_condition() -> None:
    run = view({"a": "passed"})
    assert {name: (one.passed, one.message) for name, one in checks(run, run).items()} == {
        "dataset_id_match": (True, "same dataset"), "case_id_set_match": (True, "same cases"),
        "case_definition_match": (True, "same definition of every common case"),
        "judges_match": (True, "same judges"), "judge_config_match": (True, "same configuration of judges"),
    }  # fmt: skip


@pytest.mark.parametrize("enforced", [True, False])
def test_other_cases_and_definitions_are_enforced_unless_they_are_left_out(enforced: bool) -> None:
    before = view({"a": "passed", "gone": "passed", "lost": "passed"})
    now = view({"a": "passed", "new": "passed"}, index={"a": {"definition_digest": "other"}})
    found = checks(before, now, allow_incompatible=enforced)
    cases, definitions = found["case_id_set_match"], found["case_definition_match"]
    assert (cases.passed, cases.enforced) == (False, enforced)
    assert cases.message == "1 case is only in the candidate, 2 only in the baseline"
    assert cases.details == {
        "missing_in_baseline": ["new"], "missing_in_baseline_count": 1,
        "missing_in_candidate": ["gone", "lost"], "missing_in_candidate_count": 2,
    }  # fmt: skip
    assert (definitions.passed, definitions.enforced) == (False, enforced)
    assert definitions.message == "1 case is defined differently"
    assert definitions.details == {"changed": ["a"], "changed_count": 1}


def test_cases_of_one_side_alone_make_other_cases_and_of_many_some_are_named() -> None:
    names = [f"c{number:02}" for number in range(EXAMPLES + 5)]
    all_of_them, one = view(dict.fromkeys([*names, "kept"], "passed")), view({"kept": "passed"})
    other = {name: {"definition_digest": "x"} for name in names}
    edited = view(dict.fromkeys([*names, "kept"], "passed"), index=other)
    for before, now, condition, what in (
        (all_of_them, one, "case_id_set_match", "missing_in_candidate"),
        (one, all_of_them, "case_id_set_match", "missing_in_baseline"),
        (all_of_them, edited, "case_definition_match", "changed"),
    ):
        found = checks(before, now)[condition]
        details = found.details[what], found.details[f"{what}_count"]
        assert (found.passed, *details) == (False, names[:EXAMPLES], EXAMPLES + 5)


def test_other_judges_are_said_and_never_enforced() -> None:
    before = view({"a": "passed"}, judges=["policy", "regex", "lean"])
    now = view({"a": "passed"}, judges=["policy", "command"], judge_configs={"policy": {"hard": False}})
    found = checks(before, now)
    judges, configs = found["judges_match"], found["judge_config_match"]
    assert (judges.passed, judges.enforced) == (False, False)
    assert judges.message == "lean, regex judged only the baseline; command judged only the candidate"
    assert judges.details == {"only_in_baseline": ["lean", "regex"], "only_in_candidate": ["command"]}
    assert (configs.passed, configs.enforced) == (False, False)
    assert (configs.message, configs.details) == ("policy configured differently", {"changed": ["policy"]})


@pytest.mark.parametrize("enforced", [True, False])
def test_another_case_policy_is_said_and_stops_nothing(enforced: bool) -> None:
    before, now = view({"a": passing("a", 3, 4)}), view({"a": passing("a", 3, 4, policy="any")})
    condition = checks(before, now, allow_incompatible=enforced)["case_policy_match"]
    assert (condition.passed, condition.enforced) == (False, enforced)
    assert condition.message == ("a case with several trials passed by case policy all and passes by any now")
    assert condition.details == {"baseline_case_policies": ["all"], "candidate_case_policies": ["any"]}


def test_the_same_case_policy_or_none_on_one_side_is_no_difference() -> None:
    four, single = view({"a": passing("a", 4, 4)}), view({"a": "passed"})
    for before, now in [(four, four), (four, single), (single, four)]:
        condition = checks(before, now)["case_policy_match"]
        assert (condition.passed, condition.message) == (True, "same case policy")


def test_another_number_of_trials_is_said_with_both_and_never_enforced() -> None:
    before = view({"a": passing("a", 4, 4), "b": passing("b", 3, 3), "c": "passed"})
    now = view({"a": passing("a", 2, 2), "b": passing("b", 2, 2), "c": passing("c", 2, 2)})
    condition = checks(before, now)["trial_count_match"]
    assert (condition.passed, condition.enforced) == (False, False)
    assert condition.message.startswith(
        "3 cases have another number of trials (1 to 4 in the baseline, 2 now)"
    )
    assert condition.details == {"baseline_trials": "1 to 4", "candidate_trials": "2", "changed_count": 3}
    same = checks(before, before)["trial_count_match"]
    assert (same.passed, same.message) == (True, "same number of trials")


def test_runs_of_single_trials_have_no_condition_on_trials() -> None:
    run = view({"a": "passed"})
    assert "trial_count_match" not in checks(run, run)
    # Only cases of both runs count: what is new has nothing to differ from.
    grown = view({"a": "passed", "new": passing("new", 2, 2)})
    assert "trial_count_match" not in checks(run, grown)


def selected(
    before: RunView, now: RunView, *, allow_incompatible: bool = False, **options: Any
) -> tuple[list[str], CaseSets]:
    parts = partition(before, now)
    options["allow_incompatible"] = allow_incompatible
    found = checked(before, now, allow_incompatible=allow_incompatible)
    return select(found, parts, outcomes_of(before.results), **options)


def edited() -> tuple[RunView, RunView]:
    other = {case_id: {"definition_digest": "other"} for case_id in ("b", "c")}
    return view(dict.fromkeys("abcd", "passed")), view(dict.fromkeys("abcd", "passed"), index=other)


@pytest.mark.parametrize(
    ("options", "compared", "changed", "judged_twice"),
    [({"judged_twice": ["b"]}, "abd", ["c"], ["b"]), ({"allow_incompatible": True}, "abcd", ["b", "c"], [])],
    ids=["both runs were judged alike", "all are included"],
)
def test_a_changed_case_is_compared_where_it_may_be(
    options: dict[str, Any], compared: str, changed: list[str], judged_twice: list[str]
) -> None:
    found, sets = selected(*edited(), **options)
    assert found == [*compared]
    assert (sets.compared, sets.changed, sets.judged_twice) == (len(compared), changed, judged_twice)


def test_a_refusal_names_each_enforced_condition_with_what_differs() -> None:
    played, other = ({"simulator": {"model": name}} for name in ("x", "y"))
    before = view({"a": "passed", "gone": "passed"}, judges=["policy"], execution_config=played)
    now = view({"a": "passed"}, judges=["regex"], dataset_id="bank", execution_config=other)
    with pytest.raises(IncompatibleRuns) as refused:
        selected(before, now)
    assert refused.value.message == (
        "baseline and candidate cannot be compared: the datasets differ; "
        "users were played differently (model: x in the baseline, y now)"
    )
    assert "--allow-incompatible" in refused.value.remedy
    first, second = refused.value.details["checks"]
    assert second["name"] == "simulated_user_match"
    assert first == {
        "name": "dataset_id_match", "message": "the datasets differ", "baseline_dataset_id": "shop",
        "candidate_dataset_id": "bank",
    }  # fmt: skip


def test_a_name_that_no_verdict_carries_means_every_id_that_no_run_names() -> None:
    named = ["policy", "mine:Regex"]
    seen = (["policy", "replay_contract", "execution"], ["mine", "policy"])
    assert judge_ids(["mine:Regex"], named, *seen) == {"mine"}
    assert judge_ids(["policy"], named, *seen) == {"policy"}
    assert judge_ids(["policy", "mine:Regex"], named, *seen) == {"policy", "mine"}
    assert judge_ids([], named, *seen) == frozenset()


def run_of_an_agent(**conditions: Any) -> RunView:
    agent = {"agent": "command", "command": "python agent.py"}
    return view({"a": "passed"}, execution_config={"agent": agent, **conditions})


LIMITS = {"attempt_limits": {"seconds": 60, "tool_calls": None}, "tool_server": "tools:serve"}
RECORDED = view({"a": "passed"})


@pytest.mark.parametrize(
    ("before", "now", "said", "changed", "helped"),
    [
        (run_of_an_agent(), run_of_an_agent(), "", [], False),
        (run_of_an_agent(), run_of_an_agent(**LIMITS),
         "the limits of an attempt, seconds (30 in the baseline, 60 now); "
         "the limits of an attempt, tool_calls (200 in the baseline, none now); "
         "the live tools (none in the baseline, tools:serve now)", ["attempt_limits", "tool_server"], False),
        (RECORDED, run_of_an_agent(case_limits={"seconds": 9}), "", [], False),
        (RECORDED, run_of_an_agent(max_repairs=2),
         "repairs after what the judges said (0 in the baseline, 2 now)", ["max_repairs"], True),
        (RECORDED, run_of_an_agent(share_expected_output=True),
         "whether the agent is handed the expected output (no in the baseline, yes now)",
         ["share_expected_output"], True),
    ],
    ids=["the same", "limits and tools", "recorded traces", "repairs", "the expected output"],
)  # fmt: skip
def test_other_conditions_of_an_agent_are_said_and_stop_nothing(
    before: RunView, now: RunView, said: str, changed: list[str], helped: bool
) -> None:
    found = [each for each in checked(before, now).failures if each.name == "execution_match"]
    told = [f"the agent ran under other conditions: {said}"] * bool(said)
    expected = [(message, False, {"changed": changed}) for message in told]
    assert [(each.message, each.enforced, each.details) for each in found] == expected
    assert (is_helped(before.config, now.config), is_helped(now.config, before.config)) == (helped, False)
    assert selected(before, now)[0] == ["a"]
