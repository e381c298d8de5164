"""What is run again and how it ends: the procedure from its question to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

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
VIOLATED = Rerun(result="failed", failing=["prompt_injection"])
VIOLATION = ("a", "prompt_injection")
MANY, TEN = ([f"c{k:02}" for k in range(number)] for number in (30, 10))


def steady(names: Sequence[str] = "abc", now: Mapping[str, Any] | None = None, **more: Any) -> Question:
    """Cases that always passed in main's last 20 runs, of which `a` fails now."""
    return asked({**dict.fromkeys(names, 1), **(now or {"a": 0})}, runs(dict.fromkeys(names, 1)), **more)


def failing(*names: str) -> dict[str, Rerun]:
    return dict.fromkeys(names, FAILED)


def both(change: Any, base: Any = None) -> Script:
    return Script(change=change, base=change if base is None else base)


def altered(side: Side, change: Any) -> Script:
    return Script(change=change, alterations={side: "the base's setup altered what the change runs"})


def rounds(change: int, base: int = 30) -> Any:
    """Rounds in which so many of the cases pass."""
    passed = {"change": change, "base": base}
    return lambda side, _: counts_of({name: int(k < passed[side]) for k, name in enumerate(MANY)})


def unsafe(*names: str, **more: Any) -> Question:
    now = {name: row(name, 0, failing={"prompt_injection": 1}) for name in names}
    return asked(now, more.pop("main", runs(dict.fromkeys(names, 1))), **more)


def shown_on_main(times: int) -> Question:
    shown = row("a", 0, failing={"prompt_injection": 1})
    return unsafe("a", main=[run({"a": shown if k < times else 1}, f"m{k}") for k in range(20)])


ONE, ALL, LOW = steady(), steady(MANY, dict.fromkeys(MANY, 0)), steady(MANY, dict.fromkeys(MANY[:3], 0))
LOW_ALONE = asked({**dict.fromkeys(MANY, 1), **dict.fromkeys(MANY[:3], 0)}, runs(dict.fromkeys(MANY, 1), 9))
ONE_LOWER = [
    *runs(dict.fromkeys(MANY, 1), 19),
    run({**dict.fromkeys(MANY, 1), **dict.fromkeys(MANY[10:13], 0)}),
]
AS_LOW = asked({**dict.fromkeys(MANY, 1), **dict.fromkeys(MANY[:3], 0)}, ONE_LOWER)
HALF_ON_MAIN = asked({"a": 0, "b": 1}, runs({"a": [0, 1] * 10, "b": 1}))
LAST = ALL.order[-1]
LAST_FAILS = Script(
    change=failing(LAST),
    rounds=lambda side, _: counts_of({name: int(name != LAST or side == "base") for name in MANY}),
)
COVERED = steady(left_out=Excuses(covered={"a": frozenset({"policy"})}))
CRASH = Rerun(result="failed", failing=["policy"], unjudged=["execution"])
VIOLATIONS = [f"v{k:02}" for k in range(21)]
TWENTY_PASS = Script(rounds=lambda *_: counts_of(dict.fromkeys(VIOLATIONS[:20], 1)))
UNSURE = Rerun(result="unjudged", unjudged=["prompt_injection"])

# What fails now, what its reruns show, the base, and attributes of the answer or of the script; a number is
# how many there are. `sides` are the sides that ran in turn, `others` what else than `a` was run.
ENDS: dict[str, tuple[Question, Script, BaseAgent, dict[str, Any]]] = {
    "nothing is run where nothing fails": (
        steady(now={"a": 1}), Script(), BESIDE, {"is_open": False, "log": [], "again": 0},
    ),
    "after three broken cases no other is run": (
        steady(TEN, dict.fromkeys(TEN, 0)), Script(change=failing(*TEN)), BESIDE,
        {"broken": 3, "failed": True, "is_open": False, "not_rerun": 7, "log": 3 * 16},
    ),
    # What stays open.
    "a case that fails on both sides is not settled and a control is run": (
        ONE, both(failing("a")), BESIDE,
        {"open": {"a": "fails-on-both"}, "failed": False, "others": [("base", "b"), ("base", "c")]},
    ),
    "an isolated base excuses where it runs": (ONE, both(failing("a")), ISOLATED, {"open": {}}),
    "an isolated base excuses nothing where it does not run": (
        ONE, both(failing("a"), failing("a", "b", "c")), ISOLATED, {"open": {"a": "control-fails"}},
    ),
    "without a case for a control the base does not run": (
        steady("a"), both(failing("a")), ISOLATED, {"open": {"a": "fails-on-both"}},
    ),
    "what main passed less often is no loss where both fail": (
        HALF_ON_MAIN, both(failing("a")), BESIDE, {"again": {"a"}, "is_open": False},
    ),
    **{
        f"reruns cut after {most} leave a case open whatever they showed": (
            ONE, Script(change=failing("a"), most=most), BESIDE, {"open": {"a": "cut"}, "failed": False},
        )
        for most in (0, 1, 7, 15)
    },
    "main's newest run does not excuse what was cut": (
        steady(newest=run({"a": 0})), Script(change=failing("a"), most=4), BESIDE, {"open": {"a": "cut"}},
    ),
    "a trial that no judge could judge leaves the case open": (
        ONE, Script(change={"a": [PASSED, UNJUDGED]}), BESIDE,
        {"open": {"a": "unjudged"}, "sides": ["base", "change"] * 2},
    ),
    "where the base cannot be built passing again clears": (
        ONE, Script(), BROKEN, {"open": {}, "sides": ["change"]},
    ),
    "also when it passes late": (
        ONE, Script(change={"a": [FAILED, PASSED]}), BROKEN, {"open": {}, "sides": ["change"] * 2},
    ),
    "no passed trial of an altered change counts": (
        ONE, altered("change", {}), BESIDE, {"open": {"a": "altered"}, "failed": False},
    ),
    "what passes again needs no base": (
        ONE, altered("base", {"a": [FAILED] * 3 + [PASSED]}), BESIDE, {"open": {}, "failed": False},
    ),
    # Beyond the budget, and the whole suite.
    "cases beyond the budget that pass in the rounds are none": (
        ALL, Script(rounds=rounds(30)), BESIDE,
        {"is_open": False, "suite": "not-worse", "not_rerun": 10, "suites": 1},
    ),
    "a steady case that passes in no round either is run again late": (
        ALL, LAST_FAILS, BESIDE, {"broken": {LAST}, "failed": True, f"change of {LAST}": 8},
    ),
    "a run that is as good as one of main's is not run again": (AS_LOW, Script(), BESIDE, {"suite": None}),
    "broken cases spare the suite": (
        LOW, Script(change=failing("c00")), BESIDE, {"suite": None, "suites": []},
    ),
    "no case is run again where the suite is worse": (
        ALL, Script(rounds=rounds(10)), BESIDE, {"suite": "worse", "cases": set(ALL.order[:20])},
    ),
    # No base agent.
    "without a base agent four runs of main are enough": (
        asked({"a": 0, "b": 1}, runs({"a": 1, "b": 1}, 4)), Script(change=failing("a")), NONE,
        {"broken": {"a"}},
    ),
    "without a base agent three runs of main blame nobody": (
        asked({"a": 0, "b": 0}, runs({"a": 1, "b": 1}, 3)), Script(change=failing("a")), NONE,
        {"broken": set(), "open": {"a": "no-base-agent"}, "again": {"b"}},
    ),
    **{
        f"without a base agent a low run is run once more, and {again} of 30 pass": (
            LOW, Script(rounds=rounds(again)), NONE, {"suite": end, "suites": [("shop", ("change",))]},
        )
        for again, end in ((27, "open"), (29, "open"), (30, "not-worse"))
    },
    "without a base agent nine runs of main say nothing of a low run": (
        LOW_ALONE, Script(), NONE, {"suite": None},
    ),
    # Safety.
    "a new violation that comes twice blocks and the base never excuses it": (
        unsafe("a", newest=run({"a": 0})), both({"a": VIOLATED}), ISOLATED,
        {"unsafe": {VIOLATION}, "failed": True, "first": [("change", "a")] * 2},
    ),
    "a violation that reruns could not tell is open": (
        unsafe("a"), Script(change={"a": VIOLATED}, most=1), BESIDE,
        {"unsafe": set(), "open_safety": {VIOLATION}, "is_open": True},
    ),
    "a violation of an altered change is open": (
        unsafe("a"), altered("change", {"a": VIOLATED}), BESIDE,
        {"unsafe": set(), "open_safety": {VIOLATION}},
    ),
    "a violation of which two trials cannot tell is open and run no more": (
        unsafe("a"), Script(change={"a": UNSURE}), BESIDE, {"open_safety": {VIOLATION}, "change of a": 3},
    ),
    **{
        f"a violation that {times} of main's runs show blocks if {shown} have it": (
            shown_on_main(times), Script(change={"a": change}), BESIDE,
            {"unsafe": {VIOLATION} if blocks else set()},
        )
        for times in (1, 4)
        for shown, change, blocks in (("seven", [VIOLATED] * 7 + [PASSED], False), ("eight", VIOLATED, True))
    },
    "a violation that main shows in most runs is no news": (
        shown_on_main(20), Script(), BESIDE,
        {"unsafe": set(), "open_safety": set(), "is_open": False, "log": []},
    ),
    "more violations than can be run again block": (unsafe(*VIOLATIONS), Script(), BESIDE, {"unsafe": 21}),
    "twenty violations can be run again": (unsafe(*VIOLATIONS[:20]), TWENTY_PASS, BESIDE, {"unsafe": set()}),
    # Waivers.
    "what a waiver covers fails no rerun": (COVERED, Script(change=failing("a")), BESIDE, {"again": {"a"}}),
    "a waiver of one cause covers no crash": (
        COVERED, Script(change={"a": CRASH}), BESIDE, {"broken": {"a"}},
    ),
}  # fmt: skip


def answered(question: Question, record: Reruns | None, **more: Any) -> Answer:
    return answer(question, record.model_copy(update=more) if record is not None else None)


def is_as(found: Answer, expected: Mapping[str, Any], **more: Any) -> bool:
    """Whether the answer is as expected; a number stands for how many there are."""
    real = {name: more.get(name, getattr(found, name, None)) for name in expected}
    counted = {
        name: len(value) if type(expected[name]) is int and not isinstance(value, int) else value
        for name, value in real.items()
    }
    assert counted == expected
    return True


@pytest.mark.parametrize(("question", "script", "base", "expected"), ENDS.values(), ids=ENDS)
def test_what_reruns_show_decides(
    question: Question, script: Script, base: BaseAgent, expected: dict[str, Any]
) -> None:
    script = replace(script, log=[], suites=[])
    found = answer(question, rerun({"shop": question}, script, base)["shop"])
    ran = {
        "log": script.log, "suites": script.suites, "first": script.log[:2],
        "sides": [side for side, _ in script.log],
        "others": [place for place in script.log if place[1] != "a"],
        "cases": {name for _, name in script.log}, "change of a": script.times("change", "a"),
        f"change of {LAST}": script.times("change", LAST),
    }  # fmt: skip
    assert is_as(found, expected, **ran)


def whole(question: Question, script: Script) -> Reruns:
    return rerun({"shop": question}, script, BESIDE)["shop"]


def test_the_record_names_both_commits() -> None:
    record = rerun({"shop": ONE}, Script(), BaseAgent("beside", commit="ba5e"))["shop"]
    assert (record.commit, record.base_commit) == ("c0ffee", "ba5e")


def test_a_case_whose_reruns_were_cut_is_open_also_beside_broken_ones() -> None:
    question = steady(["a", "b", "c", "d"], dict.fromkeys("abcd", 0))
    record = whole(question, Script(change=failing("a", "b", "c", "d")))
    cut = CaseReruns(case_id=next(iter({*"abcd"} - {row_.case_id for row_ in record.cases})), base=[PASSED])
    assert is_as(
        answered(question, record, cases=[*record.cases, cut]), {"open": {cut.case_id: "cut"}, "failed": True}
    )


# Several suites.


def test_suites_share_the_level_and_a_failed_one_ends_the_job() -> None:
    records = rerun({"low": LOW, "broken": ONE}, Script(change=failing("a")), BESIDE)
    assert answer(ONE, records["broken"]).failed
    assert is_as(answer(LOW, records["low"]), {"failed": False, "suite": "open"})
    assert records["low"].cut == "another suite of this job fails, so that this one was not run again"


def test_two_suites_hold_each_a_stricter_level() -> None:
    # Six falls of thirty: 1 in 64 is below .05 / 3, and not below .05 / 3 / 2.
    script = Script(rounds=rounds(24))
    records = rerun({"one": LOW, "two": LOW}, script, BESIDE)
    assert [slug for slug, _ in script.suites] == ["one"] * 3 + ["two"] * 3
    assert records["one"].others.suites == 1


def test_other_suites_are_told_of_the_tests_of_each() -> None:
    records = rerun({"one": ONE, "two": ONE}, Script(change=failing("a")), BESIDE)
    assert records["one"].others == OtherSuites(suites=1, steady=[1 / 12870], others=[])


# Recorded traces, which nothing runs again.

EIGHTS = [f"c{k:02}" for k in range(20)]
ABUSED = row("a", 0, failing={"tool_abuse": 1})
RECORDED: dict[str, tuple[dict[str, Any], Sequence[Any], dict[str, Any], dict[str, Any]]] = {
    "a flip of a case that flips on main too does not": (
        {"a": 0}, runs({"a": [1, 0, 0, 0] + [1] * 16}), {}, {"broken": set()},
    ),
    "a flip that main's newest run has too is excused": (
        {"a": 0}, runs({"a": 1}), {"newest": run({"a": 0})}, {"broken": set(), "on_main": {"a"}},
    ),
    "four trials of each are tested": (
        {"a": (0, 4), "b": (4, 4)}, [run({"a": (4, 4), "b": (4, 4)})], {}, {"broken": {"a"}},
    ),
    "a reliable case that passes in no trial is never green and did not pass again": (
        {"a": (0, 2), "b": (2, 2)}, [run({"a": (2, 2), "b": (2, 2)})], {},
        {"broken": set(), "open": {"a": "recorded"}, "is_open": True, "again": set()},
    ),
    "a case of one trial among cases of several flips": (
        {"a": 0, "b": (2, 2)}, [run({"a": 1, "b": (2, 2)})], {}, {"broken": {"a"}},
    ),
    "one trial before and several now flip": ({"a": (0, 4)}, [run({"a": 1})], {}, {"broken": {"a"}}),
    "a suite is tested as a whole": (
        dict.fromkeys(EIGHTS, (7, 8)), [run(dict.fromkeys(EIGHTS, (8, 8)))], {},
        {"broken": set(), "suite": "worse", "failed": True},
    ),
    "a violation blocks at once": ({"a": ABUSED}, runs({"a": 1}), {}, {"unsafe": {("a", "tool_abuse")}}),
    "a case that no judge could judge is open": (
        {"a": row("a", 0, 0, lost={"judge": 1})}, runs({"a": 1}), {}, {"open": {"a": "unjudged"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("now", "main", "more", "expected"), RECORDED.values(), ids=RECORDED)
def test_recorded_traces_decide(now: Any, main: Any, more: dict[str, Any], expected: dict[str, Any]) -> None:
    assert is_as(answer(asked(now, main, may_rerun=False, **more), None), expected)


def test_without_a_record_an_agent_that_could_run_again_is_decided_as_recorded() -> None:
    assert answer(unsafe("a"), None).unsafe == {VIOLATION}
    assert answer(ONE, None).broken == {"a"}


# Records that claim less than was asked, or more.


@pytest.mark.parametrize("base_runs", ["beside", "isolated", "none"])
def test_an_empty_record_is_never_green(base_runs: Any) -> None:
    assert answer(ONE, Reruns(base_runs=base_runs)).is_open
    assert answer(unsafe("a"), Reruns(base_runs=base_runs)).is_open


@pytest.mark.parametrize("side", ["base", "change"])
@pytest.mark.parametrize("kept", range(8))
def test_a_record_that_lost_trials_is_never_green(kept: int, side: str) -> None:
    record = whole(ONE, Script(change=failing("a")))
    short = record.cases[0].model_copy(update={side: getattr(record.cases[0], side)[:kept]})
    found = answered(ONE, record, cases=[short])
    assert found.failed or found.is_open


@pytest.mark.parametrize(
    "told",
    [
        {"rounds": [SuiteRound()]},
        {"rounds": [SuiteRound(base=counts_of({"c00": 1}), change=counts_of({"c00": 1}))]},
        {"rounds": [SuiteRound(change=rounds(30)("change", 0))]},
        {"altered": {"change": "the agent altered `agent.py`"}},
    ],
    ids=["empty", "one case", "without the base", "altered"],
)
def test_rounds_that_lack_something_leave_the_suite_open(told: dict[str, Any]) -> None:
    record = whole(LOW, Script(rounds=rounds(30)))
    assert not answer(LOW, record).is_open
    assert answered(LOW, record, **told).suite == "open"


def test_rounds_that_ended_before_they_told_leave_the_suite_open() -> None:
    record = whole(LOW, Script(rounds=lambda side, done: rounds(30 if done else 28)(side, done)))
    cut = {"rounds": record.rounds[:1], "cut": "the time of the run was used up"}
    assert answered(LOW, record, **cut).suite == "open"


def test_tests_of_cases_that_nothing_asked_for_do_not_dilute_the_correction() -> None:
    names = [f"c{k:03}" for k in range(200)]
    question = steady(names, {"c000": 0})
    record = whole(question, Script(change={"c000": [FAILED] * 6 + [PASSED] * 2}))
    padded = [CaseReruns(case_id=name, base=[PASSED], change=[PASSED]) for name in names[1:]]
    assert answer(question, record).broken == {"c000"}
    assert answered(question, record, cases=[*record.cases, *padded]).broken == {"c000"}


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
        answer(ONE, Reruns(base_runs="beside", **more))


def test_figures_are_measured_again_only_where_they_are_in_doubt() -> None:
    script = Script(rounds=lambda _side, _number: {"a": TrialCounts(passed=1, trials=1)})
    script.figures = {"base": Figures(cost_usd={"a": 1.0}), "change": Figures(cost_usd={"a": 2.0})}
    question = steady(now={"a": 1})
    record = rerun({"shop": question}, script, BESIDE, figures_in_doubt=frozenset({"shop"}))["shop"]
    assert (record.figures, whole(question, script).figures) == (script.figures, {})


def test_new_cases_are_run_once_by_the_base() -> None:
    question = asked({"a": 1, "new": 0}, runs({"a": 1}))
    record = whole(question, Script(base=failing("new")))
    assert [(each.case_id, each.base) for each in record.new] == [("new", [FAILED])]
