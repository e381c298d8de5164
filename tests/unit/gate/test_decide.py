"""The decision by a policy: status, whether it blocks, and first sentence, for each way it can end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.contracts import GateDecision, GateStatus, RunSummary
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.contracts.registry import Waiver
from agent_eval.contracts.reruns import CaseReruns, Figures, Rerun, Side, TrialCounts
from agent_eval.gate.decide import decide_by_policy, question_of, why_too_little
from agent_eval.gate.limits import figures_in_doubt
from agent_eval.gate.procedure import Material
from agent_eval.gate.rerun import BaseAgent, rerun
from tests.unit.comparison.views import view
from tests.unit.gate.made import (
    FAILED,
    PASSED,
    UNJUDGED,
    Script,
    counts_of,
    material,
    reference,
    row,
    run,
    runs,
)

NOW = "2026-06-01T00:00:00+00:00"
RELEASE = GatePolicy(preset="release")
VIOLATED = Rerun(result="failed", failing=["prompt_injection"])
SUITE = [f"order-{k}" for k in range(1, 51)]


def decided(
    found: Material,
    script: Script | None = None,
    base: BaseAgent | None = None,
    policy: GatePolicy | None = None,
) -> GateDecision:
    """Run what is asked, and decide."""
    policy = policy or GatePolicy()
    if script is not None:
        question = question_of(found, policy, generated_at=NOW)
        doubt = frozenset({"shop"}) if figures_in_doubt(found.counts, policy) else frozenset[str]()
        records = rerun({"shop": question}, script, base or BaseAgent("beside"), figures_in_doubt=doubt)
        found = replace(found, reruns=records["shop"])
    decision = decide_by_policy(found, policy, generated_at=NOW)
    assert decision.passed is (decision.gate_status is GateStatus.PASSED)
    assert decision.preset == policy.preset
    return decision


def told(decision: GateDecision) -> tuple[str, bool, str]:
    return decision.gate_status.value, decision.blocks, decision.sentence


def shop(*failing: str, **more: Any) -> Material:
    """Fifty steady cases, of which these fail now."""
    return material(
        {**dict.fromkeys(SUITE, 1), **dict.fromkeys(failing, 0)}, runs(dict.fromkeys(SUITE, 1)), **more
    )


def breaking(*names: str, **more: Any) -> Script:
    return Script(change=dict.fromkeys(names, FAILED), **more)


def both_fail(*names: str) -> Script:
    fails = dict.fromkeys(names, FAILED)
    return Script(change=fails, base=fails)


# What blames the change.


def test_a_case_broke() -> None:
    decision = decided(shop("order-1"), breaking("order-1"))
    assert told(decision) == (
        "failed",
        True,
        "1 case broke: `order-1` passed 0 of 8 times here and 8 of 8 on main.",
    )
    [case] = decision.cases
    assert (case.answer, case.steady, case.p_value) == ("broke", True, pytest.approx(1 / 12870))
    assert case.reason == (
        "`order-1` broke: it passed 20 of 20 trials of main's last runs; run again now, the base passes "
        "8 of 8 and "
        "this change 0 of 8."
    )
    assert decision.failures == [decision.sentence]


def test_each_case_that_newly_fails_says_what_became_of_it() -> None:
    """Of one that broke, one that fails on main too, one that passes again, and one that often fails."""
    main = runs({"broke": 1, "on-main": 1, "once": 1, "flaky": [0, 1, 1, 1] * 5, "fine": 1})
    now = {"broke": 0, "on-main": 0, "once": 0, "flaky": 0, "fine": 1}
    newest = run({**dict.fromkeys(now, 1), "on-main": 0}, "main-21")
    change = {**dict.fromkeys(("broke", "on-main"), FAILED), "flaky": FAILED}
    script = Script(change=change, base={"on-main": FAILED, "flaky": FAILED})
    decision = decided(material(now, main, newest=newest), script)
    found = {case.case_id: case for case in decision.cases}
    assert list(found)[:2] == ["broke", "on-main"], "those that block first"
    assert {name: case.answer for name, case in found.items()} == {
        "broke": "broke", "on-main": "fails-on-main", "once": "passes-again", "flaky": "passes-again",
    }  # fmt: skip
    assert {name: case.reason for name, case in found.items() if name != "broke"} == {
        "on-main": "`on-main` fails on main as well (run main-21).",
        "once": "`once` failed once and passed again.",
        "flaky": "`flaky` failed, as it often does on main (15 of 20 passed).",
    }
    sides = {
        name: [(side.passed, side.trials) for side in (case.change, case.base) if side is not None]
        for name, case in found.items()
    }
    assert sides == {
        "broke": [(0, 8), (8, 8)],
        "on-main": [(0, 4), (0, 5)],
        "once": [(5, 5), (5, 5)],
        "flaky": [(0, 4), (0, 5)],
    }
    assert [case.case_id for case in decision.cases if case.p_value is not None] == ["broke"]


def test_a_case_that_was_not_run_again_has_no_reruns_and_says_so() -> None:
    decision = decided(shop(*SUITE), breaking(*SUITE))
    last = decision.cases[-1]
    assert (decision.cases[0].answer, last.answer) == ("broke", "not-rerun")
    assert (last.change, last.base, last.p_value) == (None, None, None)
    assert (
        last.reason == f"`{last.case_id}` failed, and 20 of 20 trials passed on main; it was not run again."
    )


def test_without_a_base_agent_a_case_has_no_reruns_of_the_base() -> None:
    [case] = decided(shop("order-1"), breaking("order-1"), BaseAgent("none")).cases
    assert case.change is not None
    assert (case.base, case.change.trials) == (None, 8)


def test_violations_say_in_how_many_further_runs_they_came_and_those_that_block_come_first() -> None:
    now = {name: row(name, 0, failing={"prompt_injection": 1}) for name in ("a", "b", "c")}
    seen = row("c", 0, failing={"prompt_injection": 1})
    script = Script(change={"b": VIOLATED, "a": [VIOLATED, PASSED]})
    decision = decided(material(now, runs({"a": 1, "b": 1, "c": seen})), script)
    assert [(found.case_id, found.answer) for found in decision.safety] == [
        ("b", "blocks"), ("a", "did-not-repeat"), ("c", "known-on-main"),
    ]  # fmt: skip
    assert [found.reason for found in decision.safety] == [
        "Safety: `prompt_injection` failed in `b`, and in 2 of 2 further runs of this change.",
        "Safety: `prompt_injection` failed in `a`, and in 1 of 8 further runs of this change.",
        "Safety: `prompt_injection` failed in `c`.",
    ]


def test_rounds_that_are_not_worse_are_told() -> None:
    def rounds(side: Side, number: int) -> dict[str, TrialCounts]:
        passed = 48 if (side, number) == ("change", 0) else 50
        return counts_of({name: int(k < passed) for k, name in enumerate(SUITE)})

    decision = decided(shop(*SUITE[:3]), Script(rounds=rounds))
    assert decision.suite is not None
    assert (decision.suite.answer, decision.suite.rounds) == ("not-worse", 3)
    assert decision.suite.reason == (
        "The run was below every one of main's last runs; in 3 fresh runs each the base passes 150 of 150 "
        "and this change 148 of 150."
    )


def test_cases_that_are_left_once_enough_broke_are_not_called_flaky() -> None:
    decision = decided(shop(*SUITE[:26]), breaking(*SUITE))
    [left] = [note for note in decision.notes if "not run again" in note]
    assert left == "23 more cases fail and were not run again, as enough broke."
    assert not [note for note in decision.notes if "often" in note]


def test_at_most_three_cases_are_named_and_all_are_counted() -> None:
    names = [f"order-{k}" for k in range(1, 6)]
    policy = GatePolicy(max_regressed_cases=4)
    decision = decided(shop(*names), breaking(*names), policy=policy)
    assert decision.sentence.startswith("5 cases broke: `order-")
    assert decision.sentence.count("`order-") == 3
    assert ", … each passed 0 of 8 times here and 8 of 8 on main." in decision.sentence


def test_a_case_broke_without_a_base_agent() -> None:
    decision = decided(shop("order-1"), breaking("order-1"), BaseAgent("none"))
    assert (
        decision.sentence
        == "1 case broke: `order-1` passed 0 of 8 times here and 20 of 20 in main's last runs."
    )
    assert "No base agent ran: the model may have moved. Set `base-agent`." in decision.notes


def test_the_suite_got_worse() -> None:
    passes = {"base": 50, "change": 40}
    script = Script(
        rounds=lambda side, _: counts_of({name: int(k < passes[side]) for k, name in enumerate(SUITE)})
    )
    decision = decided(shop(*SUITE[:3]), script)
    assert told(decision) == (
        "failed",
        True,
        "The suite got worse: in 1 fresh run each the base passes 50 of 50 and this change 40 of 50 "
        "(chance: 1 in 1,024). No single case explains it.",
    )
    assert decision.suite is not None
    assert (decision.suite.rounds, decision.suite.answer, decision.suite.p_value) == (1, "worse", 1 / 1024)


def unsafe(**more: Any) -> Material:
    now = {"mail-3": row("mail-3", 0, failing={"prompt_injection": 1}), "b": 1}
    return material(now, runs({"mail-3": 1, "b": 1}), **more)


def test_a_violation_repeats() -> None:
    decision = decided(unsafe(), Script(change={"mail-3": [VIOLATED, PASSED, VIOLATED]}))
    assert decision.sentence == (
        "Safety: `prompt_injection` failed in `mail-3`, and in 2 of 3 further runs of this change."
    )
    assert [(found.answer, found.violations, found.trials) for found in decision.safety] == [("blocks", 2, 3)]


@pytest.mark.parametrize("policy", [RELEASE, GatePolicy.model_validate({"safety": ["prompt_injection"]})])
def test_a_violation_blocks_at_once_and_the_base_never_excuses_it(policy: GatePolicy) -> None:
    script = Script(base={"mail-3": VIOLATED})
    decision = decided(unsafe(newest=run({"mail-3": 0})), script, policy=policy)
    assert told(decision) == ("failed", True, "Safety: `prompt_injection` failed in `mail-3`.")


def test_a_limit_that_is_significantly_broken() -> None:
    names = SUITE[:20]
    main = runs({name: [1, 0] * 10 if k < 4 else 1 for k, name in enumerate(names)})
    now = {name: int(k >= 4) for k, name in enumerate(names)}
    script = Script(change=dict.fromkeys(names[:4], FAILED), base=dict.fromkeys(names[:4], FAILED))
    decision = decided(material(now, main), script, policy=GatePolicy(min_pass_rate=0.95))
    assert decision.sentence == (
        "16 of 20 passed (80.0%): an agent that keeps min_pass_rate 95% passes so few in 2% of runs."
    )


def test_a_limit_that_chance_alone_may_break_is_a_note() -> None:
    main = runs({name: [1, 0] * 10 if name == "order-1" else 1 for name in SUITE[:20]})
    now = {**dict.fromkeys(SUITE[:20], 1), "order-1": 0, "order-2": 0}
    decision = decided(material(now, main), Script(), policy=GatePolicy(min_pass_rate=0.95))
    assert decision.gate_status is GateStatus.PASSED
    assert any("too few cases to tell" in note for note in decision.notes)


@pytest.mark.parametrize("literal", [{"is_recorded": True, "may_rerun": False}, {}])
def test_a_limit_is_held_to_the_letter_for_recorded_traces_and_deterministic_agents(literal: Any) -> None:
    main = runs({name: 0 if name == "order-1" else 1 for name in SUITE[:10]})
    found = material({**dict.fromkeys(SUITE[:10], 1), "order-1": 0}, main, **literal)
    decision = decided(found, policy=GatePolicy(min_pass_rate=0.95, deterministic=not literal))
    assert decision.sentence == "9 of 10 passed (90.0%), below min_pass_rate 95%."


def test_so_many_cases_may_break_as_the_policy_allows_and_are_named() -> None:
    policy = GatePolicy(max_regressed_cases=1)
    assert told(decided(shop("order-1", "order-2"), breaking("order-1"), policy=policy)) == (
        "passed",
        False,
        "1 case broke, and max_regressed_cases allows 1: `order-1`.",
    )


# What is not settled.


def test_a_case_fails_on_both_sides() -> None:
    decision = decided(shop("order-1"), both_fail("order-1"))
    assert told(decision) == (
        "inconclusive",
        True,
        "`order-1` never passed again here; the base fails it too, but not in main's own run. Run main "
        "again.",
    )


def test_many_cases_fail_on_both_sides() -> None:
    names = SUITE[:18]
    script = both_fail(*names)
    passed = {name: int(name not in names) for name in SUITE}
    script.rounds = lambda _side, _number: counts_of(passed)
    assert decided(shop(*names), script).sentence == (
        "18 cases never passed again here; the base fails them too, but not in main's own run. Run main "
        "again."
    )


def test_a_case_fails_on_main_as_well() -> None:
    decision = decided(shop("order-1", newest=run({"order-1": 0}, "412")), both_fail("order-1"))
    assert told(decision) == ("passed", False, "Nothing broke; `order-1` fails on main as well (run 412).")
    assert [case.answer for case in decision.cases] == ["fails-on-main"]


def test_the_control_fails() -> None:
    script = Script(change={"order-1": FAILED}, base=dict.fromkeys(SUITE, FAILED))
    assert decided(shop("order-1"), script).sentence == (
        "The base does not run here: it fails `order-10` and `order-11` too, which this change passes. "
        "Does its "
        "setup miss a file?"
    )


def test_reliable_cases_are_left_and_the_suite_was_not_run_again() -> None:
    found = shop(*SUITE[:26])
    question = question_of(found, GatePolicy(), generated_at=NOW)
    rows = [CaseReruns(case_id=name, base=[PASSED] * 5, change=[PASSED] * 5) for name in question.order[:20]]
    record = rerun({"shop": question}, Script(most=0), BaseAgent("beside"))["shop"]
    decision = decided(replace(found, reruns=record.model_copy(update={"cases": rows, "cut": None})))
    assert decision.sentence == (
        "26 reliable cases fail; 20 were run again and none is this change's; 6 were not. Run again."
    )


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (breaking("order-1", most=9), "`order-1` never passed again here; the time of the run was used up."),
        (Script(most=2), "`order-1` is not settled: the time of the run was used up."),
        (
            breaking("order-1", alterations={"base": "the base's setup altered what the change runs"}),
            "`order-1` is not settled: the base's setup altered what the change runs.",
        ),
        (
            breaking("order-1", alterations={"change": "the agent altered `agent.py`"}),
            "`order-1` is not settled: the agent altered `agent.py`.",
        ),
        (
            Script(change={"order-1": UNJUDGED}),
            "`tool_abuse` cannot tell in `order-1`: A call of kind `x` was not read.",
        ),
    ],
    ids=["cut", "cut although it passed", "altered by the base", "altered by the agent", "judge cannot tell"],
)
def test_reruns_are_missing(script: Script, sentence: str) -> None:
    assert told(decided(shop("order-1"), script)) == ("inconclusive", True, sentence)


def test_the_base_could_not_be_run() -> None:
    base = BaseAgent("beside", problem="submodule `lib`")
    assert decided(shop("order-1"), breaking("order-1"), base).sentence == (
        "`order-1` never passed again here, and the base could not be run: submodule `lib`."
    )
    decision = decided(shop(), Script(), base)
    assert told(decision) == ("passed", False, "Nothing broke.")
    assert "The base could not be run: submodule `lib`." in decision.notes


def test_there_is_no_base_agent_and_main_ran_too_seldom() -> None:
    found = material({"order-1": 0}, runs({"order-1": 1}, 2))
    assert decided(found, breaking("order-1"), BaseAgent("none")).sentence == (
        "`order-1` never passed again here, and no base agent ran: the model may have moved. Set "
        "`base-agent`."
    )


def test_a_low_run_without_a_base() -> None:
    decision = decided(shop(*SUITE[:3]), Script(), BaseAgent("beside", problem="submodule `lib`"))
    assert told(decision) == (
        "inconclusive",
        True,
        "The run is below every one of main's last 20, and the suite is not settled: the base could not "
        "be run: "
        "submodule `lib`.",
    )


def test_nothing_of_main_was_judged() -> None:
    main = runs({"order-1": row("order-1", 0, 0, lost={"infrastructure": 1})})
    assert told(decided(material({"order-1": 1}, main), Script())) == (
        "inconclusive",
        True,
        "Nothing of main's runs could be judged. Run main again.",
    )


# What the change defines otherwise.


def defining(*by_main: CaseReruns, now: Any = None, **more: Any) -> Material:
    found = material(now or {"b": 1}, runs({"order-1": 1, "b": 1}))
    script = Script()
    record = rerun({"shop": question_of(found, GatePolicy(), generated_at=NOW)}, script, BaseAgent("beside"))[
        "shop"
    ]
    return replace(found, reruns=record.model_copy(update={"by_main": list(by_main)}), **more)


@pytest.mark.parametrize(
    ("by_main", "now", "sentence"),
    [
        (
            [CaseReruns(case_id="order-1", change=[FAILED])],
            {"order-1": row("order-1", 1, definition="new"), "b": 1},
            "`order-1` passes only by what this change expects of it.",
        ),
        (
            [CaseReruns(case_id="order-1", change=[FAILED])],
            None,
            "`order-1` fails by main's version, and this change removes it.",
        ),
        (
            [CaseReruns(case_id="order-1", change=[FAILED])],
            {"order-1": row("order-1", 0, definition="new"), "b": 1},
            "`order-1` fails by main's version, and this change alters it.",
        ),
        ([], None, "`order-1` was not run by main's version, and this change removes it."),
    ],
    ids=["passes only by the change", "removed and fails", "altered and fails", "not run"],
)
def test_what_fails_as_main_has_it_is_never_green(by_main: Any, now: Any, sentence: str) -> None:
    assert told(decided(defining(*by_main, now=now))) == ("inconclusive", False, sentence)
    assert decided(defining(*by_main, now=now), policy=RELEASE).blocks


def test_a_removed_case_that_still_passes() -> None:
    decision = decided(defining(CaseReruns(case_id="order-1", change=[FAILED, PASSED])))
    assert told(decision) == ("passed", False, "Nothing broke; 1 case was removed and still passes.")


def test_a_removed_case_that_main_fails_is_no_loss() -> None:
    found = material({"b": 1}, runs({"order-1": 0, "b": 1}))
    assert decided(found, Script()).sentence == "Nothing broke."


def test_a_safety_judge_fails_a_removed_case() -> None:
    decision = decided(defining(CaseReruns(case_id="order-1", change=[VIOLATED])))
    assert told(decision) == (
        "failed",
        True,
        "Safety: `prompt_injection` failed in `order-1`, which this change removes.",
    )


# What is green.


def test_nothing_fails() -> None:
    decision = decided(shop(), Script())
    assert told(decision) == ("passed", False, "Nothing broke.")
    assert decision.notes == [
        "What this run cannot see: a case that fails half the time now (seen in 3 of 10), and a loss "
        "over all cases: "
        "10 points are seen in 6 of 10 with 50 cases."
    ]


def test_cases_pass_again() -> None:
    decision = decided(shop("order-1"), Script())
    assert told(decision) == ("passed", False, "Nothing broke; `order-1` failed once and passed again.")
    names = SUITE[:12]
    script = Script(rounds=lambda _side, _number: counts_of(dict.fromkeys(SUITE, 1)))
    assert decided(shop(*names), script).sentence == "Nothing broke; 12 cases failed once and passed again."


def test_no_file_of_the_agent_differs() -> None:
    base = BaseAgent("beside", is_unchanged=True)
    decision = decided(shop("order-1"), breaking("order-1"), base)
    assert told(decision) == ("passed", False, "Nothing broke: no file of the agent differs from main's.")


def test_main_has_run_seldom() -> None:
    assert "Main has run once." in decided(material({"a": 1}, runs({"a": 1}, 1)), Script()).notes


def test_there_is_nothing_to_compare_with() -> None:
    decision = decided(material({"a": 1, "b": 0}), Script())
    assert told(decision) == ("no-baseline", False, "First run: nothing to compare with. 1 of 2 passed.")
    limited = decided(
        material({"a": 1, "b": 0}), Script(), policy=GatePolicy(min_pass_rate=0.9, deterministic=True)
    )
    assert limited.gate_status is GateStatus.FAILED
    now = {"a": row("a", 0, failing={"tool_abuse": 1})}
    violating = Script(change={"a": Rerun(result="failed", failing=["tool_abuse"])})
    assert decided(material(now), violating).gate_status is GateStatus.FAILED


# Quarantine and waivers.


def test_a_case_in_quarantine_is_shown_and_counts_nowhere() -> None:
    held = GatePolicy(
        quarantine=[Quarantine(case="order-9", reason="flaky", until="2026-07-01")],
        min_pass_rate=1.0,
        deterministic=True,
    )
    decision = decided(shop("order-9"), breaking("order-9"), policy=held)
    assert told(decision) == ("passed", False, "Nothing broke.")
    assert "`order-9`, in quarantine, failed." in decision.notes
    assert decision.quarantined_case_ids == ["order-9"]
    assert decided(shop(), Script(), policy=held).quarantined_case_ids == [], "it passes"
    held.quarantine.append(Quarantine(case="order-8", reason="flaky", until="2026-07-01"))
    both = decided(shop("order-8", "order-9"), Script(), policy=held)
    assert "2 cases in quarantine failed: `order-8`, `order-9`." in both.notes


def test_a_violation_in_quarantine_counts() -> None:
    held = GatePolicy(quarantine=[Quarantine(case="mail-3", reason="flaky", until="2026-07-01")])
    assert (
        decided(unsafe(), Script(change={"mail-3": VIOLATED}), policy=held).gate_status is GateStatus.FAILED
    )


def waiver(case_id: str) -> Waiver:
    return Waiver(
        waiver_id="w",
        baseline_name="main",
        case_id=case_id,
        reason="known",
        approved_by="ada",
        created_at="2026-05-01T00:00:00+00:00",
    )


def test_a_waived_regression_is_no_suspect() -> None:
    cases = {"a": "passed", "b": "passed"}
    compared = compare(view(cases), view({**cases, "a": "failed"}), generated_at=NOW)
    more = {"comparison": compared, "waivers": [waiver("a")]}
    script = breaking("a")
    decision = decided(material({"a": 0, "b": 1}, runs({"a": 1, "b": 1}), **more), script)
    assert (told(decision)[0], decision.waived_case_ids, script.log) == ("passed", ["a"], [])


def test_a_run_of_errors_alone_is_decided_where_main_says_how_it_was() -> None:
    errors = {"error_cases": 3, "failed_cases": 0}
    names = ["a", "b", "c"]
    found = material(dict.fromkeys(names, 0), runs(dict.fromkeys(names, 1)), summary=errors)
    decision = decided(found, breaking(*names))
    assert (told(decision)[0], decision.not_evaluated) == ("failed", [])
    first = material(dict.fromkeys(names, 0), summary=errors)
    assert decided(first, Script()).not_evaluated[0].startswith("Nothing was judged (3 cases, 3 errors)")


def test_a_waived_violation_counts_nowhere_and_is_listed() -> None:
    decision = decided(unsafe(waivers=[waiver("mail-3")]), Script(change={"mail-3": VIOLATED}))
    assert decision.gate_status is GateStatus.PASSED
    assert [(found.answer, found.reason) for found in decision.safety] == [
        ("waived", "Safety: `prompt_injection` failed in `mail-3`.")
    ]
    assert [applied.waiver_id for applied in decision.waivers] == ["w"]


# Recorded traces, releases, and judges that fail.


def test_recorded_cases_flip() -> None:
    decision = decided(shop("order-1", "order-2", may_rerun=False, is_recorded=True))
    assert (decision.gate_status.value, decision.blocks) == ("failed", True)
    assert decision.sentence.replace("`order-2`, `order-1`", "`order-1`, `order-2`") == (
        "2 of 50 cases flipped: `order-1`, `order-2`. One recorded run of each cannot tell chance from "
        "change: "
        "record 8 trials a case, or let the job run the agent."
    )


def test_three_of_eight_cases_fell_from_five_of_five_to_none() -> None:
    names = [f"c{k}" for k in range(8)]
    main = [run(dict.fromkeys(names, (5, 5)))]
    now = {**dict.fromkeys(names, (5, 5)), **dict.fromkeys(names[:3], (0, 5))}
    decision = decided(material(now, main, may_rerun=False))
    assert decision.gate_status is GateStatus.FAILED
    assert decision.sentence.startswith("3 cases broke: `c")
    assert "passed 0 of 5 times here and 5 of 5 on main" in decision.sentence


def test_a_release_is_open_where_its_margin_is_not_shown() -> None:
    decision = decided(shop(), Script(), policy=RELEASE)
    assert (decision.gate_status, decision.blocks) == (GateStatus.INCONCLUSIVE, True)
    assert decision.release is not None
    assert decision.sentence == decision.release.reason
    many = dict.fromkeys(SUITE, (20, 20))
    assert decided(material(many, [run(many)]), Script(), policy=RELEASE).gate_status is GateStatus.PASSED


@pytest.mark.parametrize(("again", "status"), [(2.0, "failed"), (1.0, "passed")])
def test_cost_breaks_its_limit_only_where_it_does_again(again: float, status: str) -> None:
    def cells(cost: float) -> dict[str, Any]:
        return {name: row(name, 1, cost_usd=cost) for name in SUITE[:10]}

    main = [run(cells(1.0), f"m{k}") for k in range(4)]
    script = Script(rounds=lambda _side, _number: counts_of(dict.fromkeys(SUITE[:10], 1)))
    script.figures = {
        "base": Figures(cost_usd=dict.fromkeys(SUITE[:10], 1.0)),
        "change": Figures(cost_usd=dict.fromkeys(SUITE[:10], again)),
    }
    decision = decided(material(cells(2.0), main), script, policy=GatePolicy(max_cost_increase=0.2))
    assert decision.gate_status.value == status
    answer = "breaks-limit" if status == "failed" else "rose"
    assert [(figure.name, figure.answer) for figure in decision.figures] == [("cost_usd", answer)]
    base = BaseAgent("beside", problem="submodule `lib`")
    never = decided(material(cells(2.0), main), Script(), base, policy=GatePolicy(max_cost_increase=0.2))
    assert (never.gate_status.value, never.blocks) == ("inconclusive", True)


def test_a_run_whose_judges_failed_is_not_decided() -> None:
    summary = {"trials": 50, "lost_trials": {"judge": 11}}
    decision = decided(shop(summary=summary), Script())
    assert (decision.gate_status, decision.blocks, decision.passed) == (GateStatus.INCONCLUSIVE, True, False)
    assert decision.sentence.startswith("11 of 50 trials (22.0%) could not be judged")
    assert decided(shop(summary={"trials": 50, "lost_trials": {"judge": 10}}), Script()).not_evaluated == []
    lost = {"trials": 50, "lost_trials": {"infrastructure": 50}}
    assert decided(shop(summary=lost), Script()).not_evaluated == []


def test_hostile_names_stay_on_one_line_between_backticks() -> None:
    name = "a`\n# x" + "y" * 200
    decision = decided(material({name: 0}, runs({name: 1})), breaking(name))
    assert "\n" not in decision.sentence
    assert decision.sentence.count("`") == 2
    assert len(decision.sentence) < 160


def test_the_same_material_decides_the_same() -> None:
    found = shop("order-1", "order-2")
    assert decided(found, breaking("order-1")) == decided(found, breaking("order-1"))


# Where judges fail, nothing is decided; an error of the agent is a failure.


def summary(**facts: Any) -> RunSummary:
    return reference(run({"a": 1, "b": 1}), **{"total_cases": 10, **facts}).summary


@pytest.mark.parametrize(("judge", "decides"), [(2, True), (3, False)])
def test_up_to_a_fifth_of_the_trials_may_be_unjudged(judge: int, decides: bool) -> None:
    assert (why_too_little(summary(trials=10, lost_trials={"judge": judge})) == []) is decides


def test_what_else_is_lost_are_failures() -> None:
    lost = {"infrastructure": 6, "environment": 4}
    assert why_too_little(summary(trials=10, lost_trials=lost)) == []


@pytest.mark.parametrize("held", [False, True])
def test_a_run_of_errors_alone_says_something_only_where_it_is_held_against_main(held: bool) -> None:
    found = why_too_little(summary(error_cases=10), errors_are_failures=held)
    assert (found == []) is held


def test_a_run_in_which_no_judge_had_anything_to_judge_says_nothing() -> None:
    found = why_too_little(summary(skipped_cases=10), errors_are_failures=True)
    assert found[0] == "Nothing was judged (10 cases), and that is no pass."
