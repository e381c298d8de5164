"""The decision by a policy: status, whether it blocks, and first sentence, for each way it can end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_eval.comparison.compare import compare
from agent_eval.contracts import GateDecision, GateStatus
from agent_eval.contracts.policy import GatePolicy, Quarantine
from agent_eval.contracts.reruns import CaseReruns, Figures, Rerun, Side
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
from tests.unit.gate.test_waivers import waiver

NOW = "2026-06-01T00:00:00+00:00"
RELEASE = GatePolicy(preset="release")
VIOLATED = Rerun(result="failed", failing=["prompt_injection"])
NO_BASE, BROKEN_BASE = BaseAgent("none"), BaseAgent("beside", problem="submodule `lib`")
SUITE = [f"order-{k}" for k in range(1, 51)]


def decided(
    found: Material,
    script: Script | None = None,
    base: BaseAgent | None = None,
    policy: GatePolicy | None = None,
) -> GateDecision:
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


def shop(*failing: str, **more: Any) -> Material:
    """Fifty steady cases, of which these fail now."""
    return material(
        {**dict.fromkeys(SUITE, 1), **dict.fromkeys(failing, 0)}, runs(dict.fromkeys(SUITE, 1)), **more
    )


def unsafe(**more: Any) -> Material:
    now = {"mail-3": row("mail-3", 0, failing={"prompt_injection": 1}), "b": 1}
    return material(now, runs({"mail-3": 1, "b": 1}), **more)


def breaking(*names: str, **more: Any) -> Script:
    return Script(change=dict.fromkeys(names, FAILED), **more)


def rounds(change: int, base: int = 50) -> Any:
    passed = {"base": base, "change": change}
    return lambda side, _: counts_of({name: int(k < passed[side]) for k, name in enumerate(SUITE)})


def defining(*by_main: CaseReruns, now: Any = None) -> Material:
    """What main's version of a case that this change redefines or removes gave."""
    found = material(now or {"b": 1}, runs({"order-1": 1, "b": 1}))
    question = question_of(found, GatePolicy(), generated_at=NOW)
    record = rerun({"shop": question}, Script(), BaseAgent("beside"))["shop"]
    return replace(found, reruns=record.model_copy(update={"by_main": list(by_main)}))


def beyond_the_budget() -> Material:
    found = shop(*SUITE[:26])
    question = question_of(found, GatePolicy(), generated_at=NOW)
    rows = [CaseReruns(case_id=name, base=[PASSED] * 5, change=[PASSED] * 5) for name in question.order[:20]]
    record = rerun({"shop": question}, Script(most=0), BaseAgent("beside"))["shop"]
    return replace(found, reruns=record.model_copy(update={"cases": rows, "cut": None}))


def twenty(flaky: int, *failing: str) -> Material:
    names = SUITE[:20]
    main = runs({name: [1, 0] * 10 if k < flaky else 1 for k, name in enumerate(names)})
    return material({**dict.fromkeys(names, 1), **dict.fromkeys(failing, 0)}, main)


def letter(**more: Any) -> Material:
    main = runs({name: int(name != "order-1") for name in SUITE[:10]})
    return material({**dict.fromkeys(SUITE[:10], 1), "order-1": 0}, main, **more)


def quarantined(*case_ids: str, **more: Any) -> GatePolicy:
    held = [Quarantine(case=case_id, reason="flaky", until="2026-07-01") for case_id in case_ids]
    return GatePolicy(quarantine=held, **more)


REMOVED = CaseReruns(case_id="order-1", change=[FAILED])
LIMIT, LETTER = GatePolicy(min_pass_rate=0.95), GatePolicy(min_pass_rate=0.95, deterministic=True)
SELDOM = material({"order-1": 0}, runs({"order-1": 1}, 2))
UNJUDGED_MAIN = runs({"order-1": row("order-1", 0, 0, lost={"infrastructure": 1})})
FIRST, FIVES = material({"a": 1, "b": 0}), {f"c{k}": (5, 5) for k in range(8)}
BLIND = (
    "What this run cannot see for certain: a case that now fails half the time (it is noticed in 3 of 10 "
    "runs), and a loss of 10 points over all 50 cases (in 6 of 10)."
)

# The material, what reruns give, how it ends, the first sentence; then the base, the policy, or notes.
# "open" is a decision that is not settled and blocks, "warned" one that does not block.
ENDS: dict[str, tuple[Any, ...]] = {
    # What blames the change; tests of the command show a case that broke, violations and a first run.
    "the suite got worse": (
        shop(*SUITE[:3]), Script(rounds=rounds(40)), "failed",
        "The suite got worse: in 1 fresh run each the base passes 50 of 50 and this change 40 of 50 "
        "(chance: 1 in 1,024). No single case explains it.",
    ),
    "a limit of a recorded trace is held to the letter": (
        letter(is_recorded=True, may_rerun=False), None, "failed",
        "9 of 10 passed (90.0%), below min_pass_rate 95%.", {"policy": LIMIT},
    ),
    "a limit of a deterministic agent is held to the letter": (
        letter(), None, "failed", "9 of 10 passed (90.0%), below min_pass_rate 95%.", {"policy": LETTER},
    ),
    "as many cases break as the policy allows": (
        shop("order-1", "order-2"), breaking("order-1"), "passed",
        "1 case broke, and max_regressed_cases allows 1: `order-1`.",
        {"policy": GatePolicy(max_regressed_cases=1)},
    ),
    "recorded cases flip": (
        shop("order-1", "order-2", may_rerun=False, is_recorded=True), None, "failed",
        "2 of 50 cases flipped: `order-1`, `order-2`. One recorded run of each cannot tell chance from "
        "change: record 8 trials a case, or let the job run the agent.",
    ),
    "three of eight cases fell from five of five to none": (
        material({**FIVES, **dict.fromkeys(("c0", "c1", "c2"), (0, 5))}, [run(FIVES)], may_rerun=False), None,
        "failed", "3 cases broke: `c1`, `c0`, `c2` each passed 0 of 5 times here and 5 of 5 on main.",
    ),
    # What is not settled.
    "the control fails": (
        shop("order-1"), Script(change={"order-1": FAILED}, base=dict.fromkeys(SUITE, FAILED)), "open",
        "The base does not run here: it fails `order-10` and `order-11` too, which this change passes. "
        "Does its setup miss a file?",
    ),
    "reliable cases are left and the suite was not run again": (
        beyond_the_budget(), None, "open",
        "26 reliable cases fail; 20 were run again and none is this change's; 6 were not. Run again.",
    ),
    "reruns are cut although it passed": (
        shop("order-1"), Script(most=2), "open", "`order-1` is not settled: the time of the run was used up.",
    ),
    "a judge cannot tell": (
        shop("order-1"), Script(change={"order-1": UNJUDGED}), "open",
        "`tool_abuse` cannot tell in `order-1`: A call of kind `x` was not read.",
    ),
    "the base could not be run": (
        shop("order-1"), breaking("order-1"), "open",
        "`order-1` never passed again here, and the base could not be run: submodule `lib`.",
        {"base": BROKEN_BASE},
    ),
    "the base could not be run and nothing fails": (
        shop(), Script(), "passed", "Nothing broke.",
        {"base": BROKEN_BASE, "notes": ["The base could not be run: submodule `lib`."]},
    ),
    "there is no base agent and main ran too seldom": (
        SELDOM, breaking("order-1"), "open",
        "`order-1` never passed again here, and no base agent ran: the model may have moved. "
        "Set `base-agent`.",
        {"base": NO_BASE},
    ),
    "a low run without a base": (
        shop(*SUITE[:3]), Script(), "open",
        "The run is below every one of main's last 20, and the suite is not settled: the base could "
        "not be run: submodule `lib`.", {"base": BROKEN_BASE},
    ),
    "nothing of main was judged": (
        material({"order-1": 1}, UNJUDGED_MAIN), Script(), "open",
        "Nothing of main's runs could be judged. Run main again.",
    ),
    # What the change defines otherwise.
    "a case passes only by what the change expects": (
        defining(REMOVED, now={"order-1": row("order-1", 1, definition="new"), "b": 1}), None, "warned",
        "`order-1` passes only by what this change expects of it.",
    ),
    "a removed case fails by main's version": (
        defining(REMOVED), None, "warned", "`order-1` fails by main's version, and this change removes it.",
    ),
    "an altered case fails by main's version": (
        defining(REMOVED, now={"order-1": row("order-1", 0, definition="new"), "b": 1}), None, "warned",
        "`order-1` fails by main's version, and this change alters it.",
    ),
    "a removed case was not run": (
        defining(), None, "warned", "`order-1` was not run by main's version, and this change removes it.",
    ),
    "a removed case that main fails is no loss": (
        material({"b": 1}, runs({"order-1": 0, "b": 1})), Script(), "passed", "Nothing broke.",
    ),
    "a safety judge fails a removed case": (
        defining(CaseReruns(case_id="order-1", change=[VIOLATED])), None, "failed",
        "Safety: `prompt_injection` failed in `order-1`, which this change removes.",
    ),
    # What is green.
    "nothing fails": (shop(), Script(), "passed", "Nothing broke.", {"notes": [BLIND]}),
    "no file of the agent differs": (
        shop("order-1"), breaking("order-1"), "passed",
        "Nothing broke: no file of the agent differs from main's.",
        {"base": BaseAgent("beside", is_unchanged=True)},
    ),
    "main has run seldom": (
        material({"a": 1}, runs({"a": 1}, 1)), Script(), "passed", "Nothing broke.",
        {"notes": ["Main has run once."]},
    ),
    # Quarantine, waivers and names.
    "a case in quarantine counts nowhere": (
        shop("order-9"), breaking("order-9"), "passed", "Nothing broke.",
        {"policy": quarantined("order-9", min_pass_rate=1.0, deterministic=True), "quarantined": ["order-9"],
         "notes": ["`order-9`, in quarantine, failed."]},
    ),
    "cases in quarantine count nowhere": (
        shop("order-8", "order-9"), Script(), "passed", "Nothing broke.",
        {"policy": quarantined("order-9", "order-8"), "quarantined": ["order-8", "order-9"],
         "notes": ["2 cases in quarantine failed: `order-8`, `order-9`."]},
    ),
    "a case in quarantine that passes is not told": (
        shop(), Script(), "passed", "Nothing broke.", {"policy": quarantined("order-9"), "quarantined": []},
    ),
    "a violation in quarantine counts": (
        unsafe(), Script(change={"mail-3": VIOLATED}), "failed",
        "Safety: `prompt_injection` failed in `mail-3`, and in 2 of 2 further runs of this change.",
        {"policy": quarantined("mail-3")},
    ),
}  # fmt: skip
BLOCKS = {"failed": True, "passed": False, "open": True, "warned": False, "no-baseline": False}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_first_sentence_says_how_it_ended(end: tuple[Any, ...]) -> None:
    found, script, status, sentence, more = end if len(end) == 5 else (*end, {})
    decision = decided(found, script and replace(script, log=[]), more.get("base"), more.get("policy"))
    settled = {"open": "inconclusive", "warned": "inconclusive"}.get(status, status)
    assert (decision.gate_status.value, decision.blocks) == (settled, BLOCKS[status])
    assert decision.sentence == sentence
    assert set(more.get("notes", [])) <= set(decision.notes)
    assert decision.failures[: status == "failed"] == [sentence] * (status == "failed")
    assert decision.quarantined_case_ids == more.get("quarantined", decision.quarantined_case_ids)
    if status == "warned":
        assert decided(found, policy=RELEASE).blocks


# What a decision says of each case, violation, round and figure.


def test_a_case_that_broke_says_by_what() -> None:
    [case] = decided(shop("order-1"), breaking("order-1")).cases
    assert (case.answer, case.steady, case.p_value) == ("broke", True, pytest.approx(1 / 12870))
    assert case.reason == (
        "`order-1` broke: it passed 20 of 20 trials of main's last runs; run again now, the base passes "
        "8 of 8 and this change 0 of 8."
    )
    [alone] = decided(shop("order-1"), breaking("order-1"), NO_BASE).cases
    assert alone.change is not None
    assert (alone.base, alone.change.trials) == (None, 8), "no base agent, no reruns of the base"


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
        "broke": [(0, 8), (8, 8)], "on-main": [(0, 4), (0, 5)], "once": [(5, 5), (5, 5)],
        "flaky": [(0, 4), (0, 5)],
    }  # fmt: skip
    assert [case.case_id for case in decision.cases if case.p_value is not None] == ["broke"]


def test_a_case_that_was_not_run_again_has_no_reruns_and_says_so() -> None:
    decision = decided(shop(*SUITE), breaking(*SUITE))
    last = decision.cases[-1]
    assert (decision.cases[0].answer, last.answer) == ("broke", "not-rerun")
    assert (last.change, last.base, last.p_value) == (None, None, None)
    reason = f"`{last.case_id}` failed, and 20 of 20 trials passed on main; it was not run again."
    assert last.reason == reason


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


def test_a_suite_says_by_how_many_rounds_it_is_worse_or_not() -> None:
    suite = decided(shop(*SUITE[:3]), Script(rounds=rounds(40))).suite
    assert suite is not None
    assert (suite.rounds, suite.answer, suite.p_value) == (1, "worse", 1 / 1024)
    script = Script(rounds=lambda side, number: rounds(50 if number else 48)(side, number))
    suite = decided(shop(*SUITE[:3]), script).suite
    assert suite is not None
    assert (suite.answer, suite.rounds) == ("not-worse", 3)
    assert suite.reason == (
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


def test_a_limit_that_chance_alone_may_break_is_a_note() -> None:
    decision = decided(twenty(1, "order-1", "order-2"), Script(), policy=LIMIT)
    assert decision.gate_status is GateStatus.PASSED
    assert any("too few cases to tell" in note for note in decision.notes)


def test_a_waived_regression_is_no_suspect() -> None:
    cases = {"a": "passed", "b": "passed"}
    compared = compare(view(cases), view({**cases, "a": "failed"}), generated_at=NOW)
    more = {"comparison": compared, "waivers": [waiver(case_id="a")]}
    script = breaking("a")
    decision = decided(material({"a": 0, "b": 1}, runs({"a": 1, "b": 1}), **more), script)
    assert (decision.passed, decision.waived_case_ids, script.log) == (True, ["a"], [])


def test_a_run_of_errors_alone_is_decided_where_main_says_how_it_was() -> None:
    errors = {"error_cases": 3, "failed_cases": 0}
    names = ["a", "b", "c"]
    found = material(dict.fromkeys(names, 0), runs(dict.fromkeys(names, 1)), summary=errors)
    decision = decided(found, breaking(*names))
    assert (decision.gate_status, decision.not_evaluated) == (GateStatus.FAILED, [])
    first = material(dict.fromkeys(names, 0), summary=errors)
    assert decided(first, Script()).not_evaluated[0].startswith("Nothing was judged (3 cases, 3 errors)")


def test_a_waived_violation_counts_nowhere_and_is_listed() -> None:
    decision = decided(unsafe(waivers=[waiver(case_id="mail-3")]), Script(change={"mail-3": VIOLATED}))
    assert decision.gate_status is GateStatus.PASSED
    [found] = decision.safety
    assert (found.answer, found.reason) == ("waived", "Safety: `prompt_injection` failed in `mail-3`.")
    assert [applied.waiver_id for applied in decision.waivers] == ["w-1"]


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
    costs: dict[Side, float] = {"base": 1.0, "change": again}
    script.figures = {s: Figures(cost_usd=dict.fromkeys(SUITE[:10], usd)) for s, usd in costs.items()}
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


def test_limits_and_safety_judges_fail_a_first_run_too() -> None:
    limited = decided(FIRST, Script(), policy=GatePolicy(min_pass_rate=0.9, deterministic=True))
    violating = Script(change={"a": Rerun(result="failed", failing=["tool_abuse"])})
    violated = decided(material({"a": row("a", 0, failing={"tool_abuse": 1})}), violating)
    assert limited.gate_status is violated.gate_status is GateStatus.FAILED


def test_the_same_material_decides_the_same() -> None:
    found = shop("order-1", "order-2")
    assert decided(found, breaking("order-1")) == decided(found, breaking("order-1"))


@pytest.mark.parametrize(
    ("facts", "errors_are_failures", "starts"),
    [
        ({"trials": 10, "lost_trials": {"judge": 2}}, False, None),
        ({"trials": 10, "lost_trials": {"judge": 3}}, False, "3 of 10 trials"),
        ({"trials": 10, "lost_trials": {"infrastructure": 6, "environment": 4}}, False, None),
        ({"error_cases": 10}, True, None),
        ({"error_cases": 10}, False, "Nothing was judged (10 cases, 10 errors)"),
        ({"skipped_cases": 10}, True, "Nothing was judged (10 cases), and that is no pass."),
    ],
)
def test_where_too_little_was_judged_nothing_is_decided(
    facts: dict[str, Any], errors_are_failures: bool, starts: str | None
) -> None:
    summary = reference(run({"a": 1, "b": 1}), **{"total_cases": 10, **facts}).summary
    found = why_too_little(summary, errors_are_failures=errors_are_failures)
    assert found == [] if starts is None else found[0].startswith(starts)
