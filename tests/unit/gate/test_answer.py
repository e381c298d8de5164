"""What is run again and how it ends: the procedure from its question to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.reruns import (
    CaseReruns,
    Figures,
    OtherSuites,
    Rerun,
    Reruns,
    Side,
    SuiteRound,
    TrialCounts,
)
from agent_eval.errors import InvalidInput
from agent_eval.gate.answer import Answer, answer
from agent_eval.gate.procedure import Question
from agent_eval.gate.rerun import BaseAgent, rerun
from agent_eval.gate.waivers import Excuses
from tests.unit.gate.made import FAILED, PASSED, UNJUDGED, Script, asked, counts_of, row, run, runs

BESIDE, ISOLATED, NONE = BaseAgent("beside"), BaseAgent("isolated"), BaseAgent("none")
BROKEN = BaseAgent("beside", problem="submodule `lib`")


def answered(question: Question, script: Script, base: BaseAgent = BESIDE) -> Answer:
    return answer(question, rerun({"shop": question}, script, base)["shop"])


def steady(names: Sequence[str] = "abc", now: Mapping[str, Any] | None = None, **more: Any) -> Question:
    """Cases that always passed in main's last 20 runs, of which `a` fails now."""
    return asked({**dict.fromkeys(names, 1), **(now or {"a": 0})}, runs(dict.fromkeys(names, 1)), **more)


def failing(*names: str) -> dict[str, Rerun]:
    return dict.fromkeys(names, FAILED)


# Cases.


def test_a_steady_case_that_never_passes_again_broke_after_eight_of_each_in_turn() -> None:
    script = Script(change=failing("a"))
    found = answered(steady(), script)
    assert (found.broken, found.failed, found.is_open) == ({"a"}, True, False)
    assert [side for side, _ in script.log] == ["base", "change"] * 8


def test_a_case_that_passes_again_is_none() -> None:
    script = Script()
    found = answered(steady(), script)
    assert (found.again, found.failed, found.is_open) == ({"a"}, False, False)
    assert script.times("change", "a") == 5


def test_the_record_names_both_commits() -> None:
    record = rerun({"shop": steady()}, Script(), BaseAgent("beside", commit="ba5e"))["shop"]
    assert (record.commit, record.base_commit) == ("c0ffee", "ba5e")


def test_nothing_is_run_where_nothing_fails() -> None:
    script = Script()
    assert answered(steady(now={"a": 1}), script) == Answer(open={})
    assert script.log == []


def test_twelve_fail_and_two_are_confirmed() -> None:
    names = [f"c{k:02}" for k in range(12)]
    found = answered(steady(names, dict.fromkeys(names, 0)), Script(change=failing("c03", "c07")))
    assert (found.broken, len(found.again), found.failed) == ({"c03", "c07"}, 10, True)


def test_after_three_confirmed_cases_no_other_is_run() -> None:
    names = [f"c{k}" for k in range(10)]
    script = Script(change=failing(*names))
    found = answered(steady(names, dict.fromkeys(names, 0)), script)
    assert (len(found.broken), found.failed, found.is_open, len(found.not_rerun)) == (3, True, False, 7)
    assert len(script.log) == 3 * 16


def test_a_case_whose_reruns_were_cut_is_open_also_beside_confirmed_ones() -> None:
    question = steady(["a", "b", "c", "d"], dict.fromkeys("abcd", 0))
    script = Script(change=failing("a", "b", "c", "d"))
    record = rerun({"shop": question}, script, BESIDE)["shop"]
    cut = CaseReruns(case_id=next(iter({*"abcd"} - {row_.case_id for row_ in record.cases})), base=[PASSED])
    found = answer(question, record.model_copy(update={"cases": [*record.cases, cut]}))
    assert (found.open, found.failed) == ({cut.case_id: "cut"}, True)


# What stays open.


def test_a_case_that_fails_on_both_sides_is_not_settled_and_a_control_is_run() -> None:
    script = Script(change=failing("a"), base=failing("a"))
    found = answered(steady(), script)
    assert (found.open, found.failed) == ({"a": "fails-on-both"}, False)
    assert [place for place in script.log if place[1] != "a"] == [("base", "b"), ("base", "c")]


@pytest.mark.parametrize(("fails", "opens"), [("a", {}), ("abc", {"a": "control-fails"})])
def test_an_isolated_base_excuses_only_where_it_runs(fails: str, opens: dict[str, str]) -> None:
    found = answered(steady(), Script(change=failing("a"), base=failing(*fails)), ISOLATED)
    assert found.open == opens


def test_without_a_case_for_a_control_the_base_does_not_run() -> None:
    found = answered(steady("a"), Script(change=failing("a"), base=failing("a")), ISOLATED)
    assert found.open == {"a": "fails-on-both"}


def test_a_case_that_mains_runs_passed_less_often_is_cleared_where_both_fail() -> None:
    question = asked({"a": 0, "b": 1}, runs({"a": [0, 1] * 10, "b": 1}))
    found = answered(question, Script(change=failing("a"), base=failing("a")))
    assert (found.again, found.is_open) == ({"a"}, False)


@pytest.mark.parametrize("most", [0, 1, 7, 15])
def test_a_case_whose_reruns_were_cut_is_open_whatever_they_showed(most: int) -> None:
    found = answered(steady(), Script(change=failing("a"), most=most))
    assert (found.open, found.failed) == ({"a": "cut"}, False)


def test_mains_newest_run_does_not_excuse_what_was_cut() -> None:
    question = steady(newest=run({"a": 0}))
    assert answered(question, Script(change=failing("a"), most=4)).open == {"a": "cut"}


def test_a_trial_that_no_judge_could_judge_leaves_the_case_open() -> None:
    script = Script(change={"a": [PASSED, UNJUDGED]})
    found = answered(steady(), script)
    assert found.open == {"a": "unjudged"}
    assert script.times("change", "a") == 2


@pytest.mark.parametrize(
    ("change", "opens"), [(failing("a"), {"a": "base-cannot-run"}), ({}, {}), ({"a": [FAILED, PASSED]}, {})]
)
def test_where_the_base_cannot_be_built_only_passing_again_clears(change: Any, opens: dict[str, str]) -> None:
    script = Script(change=change)
    assert answered(steady(), script, BROKEN).open == opens
    assert all(side == "change" for side, _ in script.log)


@pytest.mark.parametrize(
    ("side", "change", "opens"),
    [
        ("change", {}, {"a": "altered"}),
        ("change", failing("a"), {"a": "altered"}),
        ("base", failing("a"), {"a": "altered"}),
        ("base", {"a": [FAILED] * 3 + [PASSED]}, {}),
    ],
)
def test_no_trial_of_an_altered_side_counts(side: Side, change: Any, opens: dict[str, str]) -> None:
    script = Script(change=change, alterations={side: "the base's setup altered what the change runs"})
    found = answered(steady(), script)
    assert (found.open, found.failed) == (opens, False)


def test_an_unchanged_agent_runs_no_case_again() -> None:
    script = Script(change=failing("a"))
    found = answered(steady(), script, BaseAgent("beside", is_unchanged=True))
    assert (script.log, found.is_open, found.failed) == ([], False, False)


# Beyond the budget, and the whole suite.

MANY = [f"c{k:02}" for k in range(30)]


def rounds(change: int, base: int = 30) -> Any:
    """Rounds in which so many of the cases pass."""
    passed = {"change": change, "base": base}
    return lambda side, _: counts_of({name: int(k < passed[side]) for k, name in enumerate(MANY)})


def test_cases_beyond_the_budget_that_pass_in_the_rounds_are_settled() -> None:
    script = Script(rounds=rounds(30))
    found = answered(steady(MANY, dict.fromkeys(MANY, 0)), script)
    assert (found.is_open, found.suite, len(found.not_rerun)) == (False, "not-worse", 10)
    assert len(script.suites) == 1


def test_a_steady_case_that_passes_in_no_round_either_is_run_again_late() -> None:
    question = steady(MANY, dict.fromkeys(MANY, 0))
    last = question.order[-1]
    passed = {"base": 30, "change": 29}
    script = Script(
        change=failing(last),
        rounds=lambda side, _: counts_of({name: int(name != last or passed[side] == 30) for name in MANY}),
    )
    found = answered(question, script)
    assert (found.broken, found.failed) == ({last}, True)
    assert script.times("change", last) == 8


def test_rounds_that_ended_before_they_told_leave_the_suite_open() -> None:
    question = steady(MANY, dict.fromkeys(MANY[:3], 0))
    script = Script(rounds=lambda side, done: rounds(30 if done else 28)(side, done))
    record = rerun({"shop": question}, script, BESIDE)["shop"]
    cut = record.model_copy(update={"rounds": record.rounds[:1], "cut": "the time of the run was used up"})
    assert answer(question, cut).suite == "open"


def test_a_run_that_is_as_good_as_one_of_mains_is_not_run_again() -> None:
    main = [
        *runs(dict.fromkeys(MANY, 1), 19),
        run({**dict.fromkeys(MANY, 1), **dict.fromkeys(MANY[10:13], 0)}),
    ]
    script = Script()
    assert (
        answered(asked({**dict.fromkeys(MANY, 1), **dict.fromkeys(MANY[:3], 0)}, main), script).suite is None
    )


def test_broken_cases_spare_the_suite() -> None:
    script = Script(change=failing("c00"))
    assert answered(steady(MANY, dict.fromkeys(MANY[:3], 0)), script).suite is None
    assert script.suites == []


# Several suites.


def test_suites_share_the_level_and_a_failed_one_ends_the_job() -> None:
    low, broken = steady(MANY, dict.fromkeys(MANY[:3], 0)), steady()
    records = rerun({"low": low, "broken": broken}, Script(change=failing("a")), BESIDE)
    assert answer(broken, records["broken"]).failed
    found = answer(low, records["low"])
    assert (found.failed, found.suite) == (False, "open")
    assert records["low"].cut == "another suite of this job fails, so that this one was not run again"


def test_two_suites_hold_each_a_stricter_level() -> None:
    question = steady(MANY, dict.fromkeys(MANY[:3], 0))
    # Six falls of thirty: 1 in 64 is below .05 / 3, and not below .05 / 3 / 2.
    script = Script(rounds=rounds(24))
    records = rerun({"one": question, "two": question}, script, BESIDE)
    assert [slug for slug, _ in script.suites] == ["one"] * 3 + ["two"] * 3
    assert records["one"].others.suites == 1


# No base agent.


def test_without_a_base_agent_four_runs_of_main_are_enough() -> None:
    question = asked({"a": 0, "b": 1}, runs({"a": 1, "b": 1}, 4))
    assert answered(question, Script(change=failing("a")), NONE).broken == {"a"}


def test_without_a_base_agent_three_runs_of_main_blame_nobody_and_clear_only_what_passes() -> None:
    question = asked({"a": 0, "b": 0}, runs({"a": 1, "b": 1}, 3))
    found = answered(question, Script(change=failing("a")), NONE)
    assert (found.broken, found.open, found.again) == (frozenset(), {"a": "no-base-agent"}, {"b"})


@pytest.mark.parametrize(("again", "said"), [(27, "open"), (29, "open"), (30, "not-worse")])
def test_without_a_base_agent_a_low_run_is_run_once_more(again: int, said: str) -> None:
    script = Script(rounds=rounds(again))
    found = answered(steady(MANY, dict.fromkeys(MANY[:3], 0)), script, NONE)
    assert (found.suite, script.suites) == (said, [("shop", ("change",))])


def test_without_a_base_agent_nine_runs_of_main_say_nothing_of_a_low_run() -> None:
    question = asked(
        {**dict.fromkeys(MANY, 1), **dict.fromkeys(MANY[:3], 0)}, runs(dict.fromkeys(MANY, 1), 9)
    )
    assert answered(question, Script(), NONE).suite is None


# Safety.


def unsafe(*names: str, **more: Any) -> Question:
    now = {name: row(name, 0, failing={"prompt_injection": 1}) for name in names}
    return asked(now, more.pop("main", runs(dict.fromkeys(names, 1))), **more)


VIOLATED = Rerun(result="failed", failing=["prompt_injection"])


def test_a_new_violation_that_comes_twice_blocks_and_the_base_never_excuses_it() -> None:
    script = Script(change={"a": VIOLATED}, base={"a": VIOLATED})
    question = unsafe("a", newest=run({"a": 0}))
    found = answered(question, script, ISOLATED)
    assert (found.unsafe, found.failed) == ({("a", "prompt_injection")}, True)
    assert script.log[:2] == [("change", "a")] * 2


def test_a_violation_that_reruns_could_not_tell_is_open() -> None:
    found = answered(unsafe("a"), Script(change={"a": VIOLATED}, most=1))
    assert (found.unsafe, found.open_safety) == (frozenset(), {("a", "prompt_injection")})
    assert found.is_open


def test_a_violation_of_an_altered_change_is_open() -> None:
    script = Script(change={"a": VIOLATED}, alterations={"change": "the agent altered `suite.json`"})
    found = answered(unsafe("a"), script)
    assert (found.unsafe, found.open_safety) == (frozenset(), {("a", "prompt_injection")})


def test_a_violation_of_which_two_trials_cannot_tell_is_open_and_run_no_more() -> None:
    untold = Rerun(result="unjudged", unjudged=["prompt_injection"])
    record = rerun({"shop": unsafe("a")}, Script(change={"a": untold}), BESIDE)["shop"]
    assert [len(case.change) for case in record.safety] == [2]
    assert answer(unsafe("a"), record).open_safety == {("a", "prompt_injection")}


@pytest.mark.parametrize("times", [1, 4])
def test_a_violation_that_main_shows_in_some_runs_blocks_only_if_all_eight_have_it(times: int) -> None:
    shown = row("a", 0, failing={"prompt_injection": 1})
    main = [run({"a": shown if k < times else 1}, f"m{k}") for k in range(20)]
    found = answered(unsafe("a", main=main), Script(change={"a": [VIOLATED] * 7 + [PASSED]}))
    assert found.unsafe == frozenset()
    assert answered(unsafe("a", main=main), Script(change={"a": VIOLATED})).unsafe


def test_a_violation_that_main_shows_in_most_runs_is_no_news() -> None:
    main = [run({"a": row("a", 0, failing={"prompt_injection": 1})}, f"m{k}") for k in range(20)]
    script = Script()
    assert answered(unsafe("a", main=main), script) == Answer(open={})
    assert script.log == []


def test_more_violations_than_can_be_run_again_block() -> None:
    names = [f"v{k:02}" for k in range(21)]
    found = answered(unsafe(*names), Script())
    assert len(found.unsafe) == 21
    script = Script(rounds=lambda *_: counts_of(dict.fromkeys(names[:20], 1)))
    assert answered(unsafe(*names[:20]), script).unsafe == frozenset(), "twenty can"


# Recorded traces.


def recorded(now: Mapping[str, Any], main: Sequence[Any], **more: Any) -> Answer:
    return answer(asked(now, main, may_rerun=False, **more), None)


def test_a_flip_of_a_reliable_recorded_case_blocks_and_so_many_are_tolerated() -> None:
    main = runs({"a": 1, "b": 1}, 1)
    assert recorded({"a": 0, "b": 1}, main).broken == {"a"}
    assert not recorded({"a": 0, "b": 1}, main, policy=GatePolicy(max_regressed_cases=1)).failed


def test_a_flip_of_a_case_that_flips_on_main_too_does_not() -> None:
    assert recorded({"a": 0}, runs({"a": [1, 0, 0, 0] + [1] * 16})).broken == frozenset()


def test_a_flip_that_mains_newest_run_has_too_is_excused() -> None:
    found = recorded({"a": 0}, runs({"a": 1}), newest=run({"a": 0}))
    assert (found.broken, found.on_main) == (frozenset(), {"a"})


def test_four_recorded_trials_of_each_are_tested() -> None:
    assert recorded({"a": (0, 4), "b": (4, 4)}, [run({"a": (4, 4), "b": (4, 4)})]).broken == {"a"}


def test_a_reliable_case_that_passes_in_no_recorded_trial_is_never_green() -> None:
    found = recorded({"a": (0, 2), "b": (2, 2)}, [run({"a": (2, 2), "b": (2, 2)})])
    assert (found.broken, found.open, found.is_open) == (frozenset(), {"a": "recorded"}, True)
    assert found.again == frozenset(), "it did not pass again"


def test_a_case_of_one_trial_among_cases_of_several_still_flips() -> None:
    found = recorded({"a": 0, "b": (2, 2)}, [run({"a": 1, "b": (2, 2)})])
    assert found.broken == {"a"}
    assert recorded({"a": (0, 4)}, [run({"a": 1})]).broken == {"a"}, "one trial before, several now"


def test_a_recorded_suite_is_tested_as_a_whole() -> None:
    names = [f"c{k:02}" for k in range(20)]
    found = recorded(dict.fromkeys(names, (7, 8)), [run(dict.fromkeys(names, (8, 8)))])
    assert (found.broken, found.suite, found.failed) == (frozenset(), "worse", True)


def test_a_recorded_violation_blocks_at_once() -> None:
    now = {"a": row("a", 0, failing={"tool_abuse": 1})}
    assert recorded(now, runs({"a": 1})).unsafe == {("a", "tool_abuse")}


def test_a_recorded_case_that_no_judge_could_judge_is_open() -> None:
    found = recorded({"a": row("a", 0, 0, lost={"judge": 1})}, runs({"a": 1}))
    assert found.open == {"a": "unjudged"}


def test_without_a_record_an_agent_that_could_run_again_is_decided_as_recorded() -> None:
    question = unsafe("a")
    assert answer(question, None).unsafe == {("a", "prompt_injection")}
    assert answer(steady(), None).broken == {"a"}


# Waivers.


def test_what_a_waiver_covers_fails_no_rerun() -> None:
    left_out = Excuses(covered={"a": frozenset({"policy"})})
    assert answered(steady(left_out=left_out), Script(change=failing("a"))).again == {"a"}
    crash = Script(change={"a": Rerun(result="failed", failing=["policy"], unjudged=["execution"])})
    assert answered(steady(left_out=left_out), crash).broken == {"a"}


# Records that claim less than was asked, or more.


def whole(question: Question, script: Script) -> Reruns:
    return rerun({"shop": question}, script, BESIDE)["shop"]


def test_an_empty_record_is_never_green() -> None:
    for base_runs in ("beside", "isolated", "none"):
        assert answer(steady(), Reruns(base_runs=base_runs)).is_open
        assert answer(unsafe("a"), Reruns(base_runs=base_runs)).is_open


@pytest.mark.parametrize("kept", range(8))
def test_a_record_that_lost_trials_is_never_green(kept: int) -> None:
    record = whole(steady(), Script(change=failing("a")))
    row_ = record.cases[0]
    for side in ("base", "change"):
        short = CaseReruns(
            case_id="a",
            base=row_.base[:kept] if side == "base" else row_.base,
            change=row_.change[:kept] if side == "change" else row_.change,
        )
        found = answer(steady(), record.model_copy(update={"cases": [short]}))
        assert found.failed or found.is_open


@pytest.mark.parametrize(
    "done",
    [SuiteRound(), SuiteRound(base=counts_of({"c00": 1}), change=counts_of({"c00": 1}))],
    ids=["empty", "one case"],
)
def test_a_round_that_lacks_cases_settles_nothing(done: SuiteRound) -> None:
    question = steady(MANY, dict.fromkeys(MANY[:3], 0))
    record = whole(question, Script(rounds=rounds(30)))
    assert not answer(question, record).is_open
    assert answer(question, record.model_copy(update={"rounds": [done]})).is_open


def test_rounds_of_an_altered_side_settle_nothing() -> None:
    question = steady(MANY, dict.fromkeys(MANY[:3], 0))
    record = whole(question, Script(rounds=rounds(30)))
    altered = {"change": "the agent altered `agent.py`"}
    assert answer(question, record.model_copy(update={"altered": altered})).suite == "open"


def test_no_case_is_run_again_where_the_suite_is_worse() -> None:
    question = steady(MANY, dict.fromkeys(MANY, 0))
    script = Script(rounds=rounds(10))
    assert answered(question, script).suite == "worse"
    assert {name for _, name in script.log} == set(question.order[:20])


def test_a_round_without_the_base_settles_nothing_where_a_base_runs() -> None:
    question = steady(MANY, dict.fromkeys(MANY[:3], 0))
    record = whole(question, Script(rounds=rounds(30)))
    alone = SuiteRound(change=record.rounds[0].change)
    assert answer(question, record.model_copy(update={"rounds": [alone]})).is_open


def test_tests_of_cases_that_nothing_asked_for_do_not_dilute_the_correction() -> None:
    names = [f"c{k:03}" for k in range(200)]
    question = steady(names, {"c000": 0})
    record = whole(question, Script(change={"c000": [FAILED] * 6 + [PASSED] * 2}))
    padded = [CaseReruns(case_id=name, base=[PASSED], change=[PASSED]) for name in names[1:]]
    assert answer(question, record).broken == {"c000"}
    assert answer(question, record.model_copy(update={"cases": [*record.cases, *padded]})).broken == {"c000"}


@pytest.mark.parametrize(
    "more",
    [
        {"cases": [CaseReruns(case_id="a"), CaseReruns(case_id="a")]},
        {"cases": [CaseReruns(case_id="a")], "late": [CaseReruns(case_id="a")]},
        {"cases": [CaseReruns(case_id="a", base=[PASSED] * 9)]},
        {"safety": [CaseReruns(case_id="a", change=[PASSED] * 10)]},
        {"rounds": [SuiteRound()] * 4},
    ],
)
def test_a_record_of_more_than_is_run_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="record of reruns"):
        answer(steady(), Reruns(base_runs="beside", **more))


def test_figures_are_measured_again_only_where_they_are_in_doubt() -> None:
    script = Script(rounds=lambda _side, _number: {"a": TrialCounts(passed=1, trials=1)})
    script.figures = {"base": Figures(cost_usd={"a": 1.0}), "change": Figures(cost_usd={"a": 2.0})}
    question = steady(now={"a": 1})
    record = rerun({"shop": question}, script, BESIDE, figures_in_doubt=frozenset({"shop"}))["shop"]
    assert record.figures == script.figures
    assert rerun({"shop": question}, script, BESIDE)["shop"].figures == {}


def test_new_cases_are_run_once_by_the_base() -> None:
    script = Script(base=failing("new"))
    question = asked({"a": 1, "new": 0}, runs({"a": 1}))
    record = rerun({"shop": question}, script, BESIDE)["shop"]
    assert [(each.case_id, each.base) for each in record.new] == [("new", [FAILED])]


def test_other_suites_are_told_of_the_tests_of_each() -> None:
    records = rerun({"one": steady(), "two": steady()}, Script(change=failing("a")), BESIDE)
    assert records["one"].others == OtherSuites(suites=1, steady=[1 / 12870], others=[])
