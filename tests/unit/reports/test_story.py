"""What a report says: first how it ended, then what to do, by what keeps the answer open."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from agent_eval.contracts import GateDecision, GateStatus
from agent_eval.contracts.gate import FigureChange, ReleaseAnswer, SafetyFinding
from agent_eval.contracts.reruns import CaseReruns, Rerun, Reruns
from agent_eval.contracts.run import JudgeCounts, RunSummary
from agent_eval.contracts.verdict import row_fault
from agent_eval.errors import Fault
from agent_eval.reports.blocks import amount, pair, points
from agent_eval.reports.comment import render_summary
from agent_eval.reports.counts import expects_nothing, passing
from agent_eval.reports.html.page import render_html
from agent_eval.reports.model import EvaluationReport, Story, SuiteReport
from agent_eval.reports.story import clause, overall, rest_of, spending_text, story_of
from agent_eval.reports.terminal_comparison import gate_text
from agent_eval.text.numbers import allowed, count, percent
from tests.unit.reports import scenarios, situations
from tests.unit.reports.scenarios import by_policy, judged, metric, run
from tests.unit.reports.situations import SITUATIONS

GONE = re.compile(
    r"confirm(?!ed and arrives)|suspect|cleared|zero.tolerance|tracked|expected.fail|promote me|coverage|"
    r"non-inferior|McNemar|\blook after|\btier|\btopic|\bpool|settled by",
    re.IGNORECASE,
)
"""Words of what the gate no longer has."""


def story(decision: GateDecision, **more: object) -> Story:
    return story_of(replace(scenarios.unchanged_suite(), decision=decision, **more))


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_report_begins_with_one_headline_and_green_only_where_it_passed(name: str) -> None:
    report = SITUATIONS[name]()
    comment = scenarios.comment(report)
    assert comment.splitlines()[2].startswith("## ✅") == (report.status is GateStatus.PASSED)
    if len(report.suites) == 1 and not report.not_evaluated and name != "hostile":
        [suite] = report.suites
        assert comment.splitlines()[2].endswith(f" {overall(report)} · agent-eval")
        crash = name == "errors"  # its cause says more than which cases were run again
        assert suite.status is GateStatus.PASSED or crash or suite.decision.sentence in comment
        terminal = gate_text(suite.decision, "d.json", comparison=suite.comparison)
        assert suite.comparison is None or overall(report) in " ".join(terminal.split())
        assert terminal.startswith("✅") == (report.status is GateStatus.PASSED)


@pytest.mark.parametrize("name", SITUATIONS)
def test_no_report_has_a_word_of_what_is_gone(name: str) -> None:
    report = SITUATIONS[name]()
    for text in (scenarios.comment(report), scenarios.full_report(report), scenarios.terminal(report)):
        found = GONE.search(text.replace("is confirmed and", ""))
        assert found is None, found


def test_a_sentence_is_said_once() -> None:
    reason = "The pass rate fell by 15.0 points."
    answer = ReleaseAnswer(fall=0.15, low=0.1, high=0.2, margin=0.02, answer="worse", reason=reason)
    told = story(by_policy(GateStatus.FAILED, reason, release=answer, notes=[reason, "Main has run once."]))
    assert (told.sentence, told.findings) == (reason, [])
    assert told.notes == ["Main has run once."]


def test_cost_is_said_only_where_a_test_says_so() -> None:
    known = {"cases": 60, "baseline": 1.0, "candidate": 1.3, "ratio": 1.3, "p_value": 0.01}
    figures = [
        FigureChange.model_validate(
            {"name": "cost_usd", **known, "answer": answer, "reason": f"Cost {answer}."}
        )
        for answer in ("not-shown", "rose", "breaks-limit", "open")
    ]
    told = story(by_policy(GateStatus.PASSED, "Nothing broke.", figures=figures))
    assert [(each.state, each.text) for each in told.findings] == [
        ("skipped", "Cost rose."),
        ("failed", "Cost breaks-limit."),
        ("inconclusive", "Cost open."),
    ]


CASE = judged("a", "open", "20/20 0/1 0/8 0/8", "It is open.")
NEVER_RUN = judged("a", "open", "20/20 0/1", "It is open.")
UNSAFE = SafetyFinding(case_id="a", judge_id="tool_abuse", answer="open", reason="It cannot tell.")
NEVER_AGAIN = "Look at what the case does now: it never passed here. To settle it, "
TIME = "the time of the run was used up"


def beside(**more: object) -> Reruns:
    return Reruns(base_runs="beside", **more)  # type: ignore[arg-type]


# What is open, the record of the reruns, and what to do about it; with a sentence that says that itself.
TO_DO: dict[str, tuple[dict[str, Any], Reruns | None, str]] = {
    "altered": ({"cases": [CASE]}, Reruns(altered={"change": "x"}), "Give each side a set-up of its own"),
    "compiled": (
        {"cases": [CASE]}, Reruns(altered={"change": "the agent altered `a/__pycache__/b.pyc`"}),
        "Take what Python compiled",
    ),
    "no set-up": (
        {"cases": [CASE]}, Reruns(base_problem="submodule `lib`"), "Mend the set-up that the base needs",
    ),
    "time": ({"cases": [CASE]}, beside(cut=TIME), f"{NEVER_AGAIN}raise `limits.run.seconds`"),
    "money": (
        {"cases": [CASE]}, beside(cut="the money of the run was used up"),
        f"{NEVER_AGAIN}raise `limits.run.cost_usd`",
    ),
    "cut": ({"cases": [CASE]}, beside(cut="no trial could be run"), f"{NEVER_AGAIN}run the job again."),
    "not run again": (
        {"cases": [NEVER_RUN]}, beside(cut=TIME), "Raise `limits.run.seconds`, or run the job again.",
    ),
    "no base": ({"cases": [CASE]}, Reruns(base_runs="none"), "Set `base-agent`"),
    "left": ({"cases": [CASE]}, beside(), "Run the job again."),
    "both": ({"cases": [CASE]}, beside(cases=[CaseReruns(case_id="a")]), "Run main again, then this change"),
    "unknown": ({"cases": [CASE]}, None, "Run main again, then this change"),
    "a safety judge cannot tell": (
        {"safety": [UNSAFE]}, None,
        "Make `tool_abuse` able to judge what the agent did, then run the job again.",
    ),
    "defined otherwise": (
        {}, None, "Read the cases named here: who merges this accepts what it expects of them.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("facts", "reruns", "to_do"), TO_DO.values(), ids=TO_DO)
def test_what_to_do_goes_by_what_keeps_a_decision_open(
    facts: dict[str, Any], reruns: Reruns | None, to_do: str
) -> None:
    assert story(by_policy(GateStatus.INCONCLUSIVE, "`a` is open.", **facts), reruns=reruns).to_do.startswith(
        to_do
    )


def test_what_the_sentence_says_already_is_not_said_again() -> None:
    sentence = "`a` never passed again here; the base fails it too. Run main again."
    assert story(by_policy(GateStatus.INCONCLUSIVE, sentence, cases=[CASE])).to_do == ""


def test_cases_that_pass_again_do_not_count_as_worse() -> None:
    suite = situations.flaky().suites[0]
    assert suite.worse == []
    assert suite.excused == {"order-000", "order-001", "order-002", "order-003"}


def test_new_cases_that_the_base_passes_too_are_named() -> None:
    passes = [CaseReruns.model_validate({"case_id": "n", "base": [{"result": "passed"}]})]
    told = story(by_policy(GateStatus.PASSED, "Nothing broke."), reruns=Reruns(new=passes))
    assert told.notes == ["1 new case: the base passes `n` too, so it does not show what this change does."]


def test_a_cost_that_is_not_known_is_no_cost_of_zero() -> None:
    assert "cost unknown" in spending_text(Reruns().spent)


def test_a_suite_without_a_decision_says_nothing_of_what_got_worse() -> None:
    suite: SuiteReport = situations.one_worse().suites[0]
    told = story_of(suite, is_evaluated=False)
    assert (told.state, told.word, told.cases, told.why) == ("error", "not evaluated", (), "")


def test_a_case_that_no_rerun_passes_is_not_said_to_pass_again() -> None:
    cases = [
        judged("a", "passes-again", "8/12 0/1 0/5 0/4"),
        judged("b", "passes-again", "20/20 0/1 2/2 2/2"),
    ]
    told = story(by_policy(GateStatus.PASSED, "Nothing broke; 2 cases failed.", cases=cases))
    counted = "1 case failed once and passed again; 1 case failed, as at times on main"
    assert told.headline == f"None got worse; {counted}"
    assert told.lead == "`b` failed once and passed again. `a` failed, as at times on main."
    assert [(row.case_id, row.state) for row in told.cases] == [("a", "skipped"), ("b", "passed")]


def test_an_agent_that_crashes_in_every_case_is_blamed_once() -> None:
    before = [situations.order(number) for number in range(9)]
    cases = [judged(f"order-{k:03}", "broke", "20/20 0/1 8/8 0/8") for k in range(3)]
    cases += [judged(f"order-{k:03}", "not-rerun", "20/20 0/1") for k in range(3, 9)]
    broke = "3 cases broke: `order-000`, … each passed 0 of 8 times here and 8 of 8 on main."
    decision = by_policy(GateStatus.FAILED, f"Held to main. {broke}", failures=[broke], cases=cases)
    told = story_of(situations.decided(before, list(map(situations.crashed, range(9))), decision))
    assert told.headline == "The agent crashes on all 9 cases"
    assert told.lead == "Held to main. Main passes them: look at this change."
    assert "9 regressed" in told.figures
    assert {group.why for group in told.groups} == {"the agent crashed"}


def test_recorded_cases_that_flip_are_looked_at_and_chance_is_named() -> None:
    before = [situations.order(number) for number in range(9)]
    sentence = "1 of 9 cases flipped: `order-000`. One recorded run of each cannot tell chance from change."
    decision = by_policy(GateStatus.FAILED, sentence, cases=[judged("order-000", "broke", "2/2 0/1")])
    told = story_of(situations.decided(before, [situations.other_words(0), *before[1:]], decision))
    assert told.headline == "1 of 9 recorded cases regressed"
    assert told.lead == (
        "`order-000` passed on main and fails here. One recorded run of it cannot rule out that it is flaky."
    )
    assert told.to_do.startswith("Look at it: what changed is below. To settle it, record 8 trials")


def test_where_the_base_crashes_too_nothing_is_said_of_the_change() -> None:
    before, now = [situations.order(0)], [situations.crashed(0)]
    decision = by_policy(GateStatus.INCONCLUSIVE, "Open.", not_evaluated=["Nothing was judged."])
    trial = Rerun(result="failed")
    reruns = Reruns(base_runs="beside", cases=[CaseReruns(case_id="order-000", base=[trial], change=[trial])])
    suite = situations.decided(before, now, decision, reruns=reruns)
    assert row_fault(suite.failing[0]) is Fault.AGENT
    told = story_of(suite, is_evaluated=False)
    assert told.headline == "Not evaluated: the agent crashes on the only case, and so does the base"
    assert "says nothing of this change" in told.sentence
    assert told.to_do.startswith("Mend what both need here")
    assert [(group.now, group.main) for group in told.groups] == [("error", "error")]


def test_what_main_did_before_is_said_of_a_case_that_the_base_did_not_run_here() -> None:
    before, now = ([make(number) for number in range(2)] for make in (situations.order, situations.crashed))
    decision = by_policy(GateStatus.INCONCLUSIVE, "Open.", not_evaluated=["Nothing was judged."])
    reruns = beside(cases=[CaseReruns(case_id="order-000", base=[Rerun(result="failed")])])
    told = story_of(situations.decided(before, now, decision, reruns=reruns), is_evaluated=False)
    assert [(group.now, group.main) for group in told.groups] == [("error", "passed before")]


def test_a_comparison_that_nobody_wants_is_no_first_run() -> None:
    told = story(
        by_policy(GateStatus.NO_BASELINE, "First run: nothing to compare with. 188 of 200 passed."),
        comparison=None,
        lack="no baseline was looked for",
    )
    assert told.headline == "Not compared: no baseline was looked for"
    assert told.lead.endswith("Whether a case got worse was not looked at.")
    assert "First run" not in told.lead + told.to_do
    assert told.to_do.endswith("remove `baseline: none`, so that changes are compared.")


def test_whoever_removes_cases_is_asked_whether_that_is_meant() -> None:
    before = [situations.order(number) for number in range(9)]
    told = story_of(situations.decided(before, before[:7], by_policy(GateStatus.PASSED, "Nothing broke.")))
    assert [finding.text for finding in told.sets] == [
        "2 removed: `order-007` and `order-008`. Check that this is meant."
    ]
    assert (told.to_do, told.is_plain) == ("", True)


def test_below_green_a_few_cases_are_named_that_improved_or_fail_as_before() -> None:
    before = [*map(situations.other_words, range(10)), *map(situations.order, range(10, 60))]
    now = [*map(situations.other_words, range(5)), *map(situations.order, range(5, 60))]
    told = story_of(situations.decided(before, now, by_policy(GateStatus.PASSED, "Nothing broke.")))
    assert told.notes == [
        "Improved: `order-005`, `order-006`, `order-007`, `order-008` and 1 more.",
        "5 cases fail on main as well: `order-000`, `order-001`, `order-002`, `order-003` and 1 more.",
    ]


def test_new_rules_are_to_be_checked_by_whoever_reviews_them() -> None:
    report = situations.unchanged()
    [suite] = report.suites
    rules = "New rules hold once merged: `min_pass_rate` 0.95 → 0.5."
    decision = suite.decision.model_copy(update={"notes": [rules, "Main has run once."]})
    text = scenarios.comment(replace(report, suites=[replace(suite, decision=decision)]))
    assert f"\n- ⚠️ {rules} Check that this is meant.\n\n1 case fails on main as well" in text


@pytest.mark.parametrize(
    ("text", "first", "rest"),
    [
        ("The suite a.json cannot be read: it is cut. Mend it.", "the suite a.json cannot be read",
         "It is cut. Mend it."),
        ("a.json: line 1: it is cut. Mend it.", "a.json: line 1: it is cut", "Mend it."),
        ("The agent said `a: b. c` and ended: no answer.", "the agent said `a: b. c` and ended",
         "No answer."),
    ],
)  # fmt: skip
def test_a_heading_ends_with_a_clause_and_never_within_code(text: str, first: str, rest: str) -> None:
    assert (clause(text), rest_of(text)) == (first, rest)


# A run that says nothing about the change: every report says that, and nothing else about the change.


OF_THE_CHANGE = re.compile(r"regress|got worse|Here again|[Nn]ot settled|broke")
"""What would say something about the change."""
WHY = "8 of 30 trials were lost to a judge, the first with: 503. Run it again."


def lost_judge() -> EvaluationReport:
    """Twelve of thirty cases fail that passed, and of eight others the judge could not be reached."""
    before = [situations.order(number) for number in range(30)]
    now = [*map(situations.other_words, range(12)), *before[12:]]
    lost = {f"order-{number:03}": situations.unreachable(number) for number in range(20, 28)}
    decision = scenarios.by_policy(
        GateStatus.INCONCLUSIVE,
        "12 cases broke.",
        cases=[scenarios.judged("order-000", "broke", "20/20 0/1 8/8 0/8")],
        not_evaluated=[WHY],
    )
    suite = situations.decided(before, now, decision, results={"candidate": lost})
    return situations.report(suite, not_evaluated=WHY)


@pytest.mark.parametrize(
    "rendered",
    [
        scenarios.comment,
        lambda report: render_summary(report, limit=100_000),
        lambda report: gate_text(report.suites[0].decision, "d.json"),
        lambda report: render_html(report).partition('class="lines')[0].partition("<h1")[2],
    ],
    ids=["comment", "summary", "gate", "page"],
)
def test_a_run_that_says_nothing_is_shown_without_what_would_say_something(rendered) -> None:  # type: ignore[no-untyped-def]
    text = rendered(lost_judge())
    assert "gave no verdict" in text.replace("\n  ", " ") or "lost to a judge" in text.replace("\n  ", " ")
    assert not OF_THE_CHANGE.search(text)
    assert "✅" not in text.splitlines()[0]


def test_the_comment_still_lists_the_cases_that_do_not_pass_and_why() -> None:
    text = scenarios.comment(lost_judge())
    assert text.splitlines()[2].startswith(
        "## 🛑 Not evaluated: judge `llm` gave no verdict in 8 of 30 cases"
    )
    to_do = "Check the judge's code, or its model's key, address and quota; then run the job again."
    assert f"> **To do:** {to_do}" in text
    rows = [line for line in text.splitlines() if line.startswith("| ❌ ")]
    assert rows[0].endswith("and 4 more | judge `llm` failed | error | passed |")
    assert rows[1].endswith("and 8 more | the answer does not match a pattern | failed | passed |")
    assert "the judge's model answered 503 three times" in text


def test_of_several_suites_only_the_one_that_says_nothing_is_without_a_decision() -> None:
    lost = lost_judge()
    other = situations.regressions().suites[0]
    both = replace(lost, suites=[replace(lost.suites[0], slug="lost"), replace(other, slug="shop")])
    text = scenarios.comment(both)
    assert "### 🛑 `lost`: Not evaluated: judge `llm` gave no verdict" in text
    assert "### ❌ `shop`: 3 of 120 cases regressed; 35 more newly fail" in text


# Numbers in words.


def test_cases_that_were_not_judged_are_counted_apart():
    summary = run("candidate", 10, 1, error_cases=2, inconclusive_cases=1, skipped_cases=3).summary
    assert passing(summary) == (
        "1 of 10 cases passed (10.0%); 2 could not be judged; 1 inconclusive; 3 without anything to judge."
    )


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.0, "0%"), (1.0, "100%"), (0.875, "87.5%"), (0.9999, "99.99%"), (0.00001, "0.001%"), (None, "–"),
        (0.99999999, "over 99.9999%"), (1e-9, "under 0.0001%"),
    ],
)  # fmt: skip
def test_percent__all_and_none_are_exact(share, shown):
    assert percent(share) == shown


def test_two_rates_that_differ_never_look_the_same():
    assert pair(metric("pass_rate", 0.9001, 0.9)) == ("90.01%", "90.00%", "−0.01 pts")
    assert pair(metric("pass_rate", 0.92, 0.875)) == ("92.0%", "87.5%", "−4.5 pts")
    assert pair(metric("pass_rate", None, 0.875)) == ("–", "87.5%", "–")
    assert pair(metric("pass_rate", 0.5, 0.5)) == ("50.0%", "50.0%", "±0 pts")


def test_figures_have_units():
    assert points(0.045) == "+4.5 pts"
    assert (allowed(0.9), allowed(0.025)) == ("90%", "2.5%")
    assert (count(1, "case"), count(12_000, "case")) == ("1 case", "12,000 cases")
    assert (amount("cost_usd", 0.0021), amount("total_cost_usd", 12)) == ("0.0021 USD", "12.00 USD")
    assert (amount("latency_ms", 900), amount("latency_ms", 1500)) == ("900 ms", "1.5 s")
    assert (amount("input_tokens", 1200), amount("cost_usd", None)) == ("1,200", "unknown")


@pytest.mark.parametrize(("errors", "expected"), [(0, True), (1, True), (2, False)])
def test_where_every_case_is_an_error_nothing_is_known_of_what_is_expected(errors, expected):
    judges = {"execution": JudgeCounts(error=errors, skipped=2 - errors), "strict": JudgeCounts(skipped=2)}
    judges["replay_contract"] = JudgeCounts(passed=2 - errors, error=errors)
    summary = RunSummary.model_construct(judge_counts=judges, total_cases=2, error_cases=errors)
    assert expects_nothing(summary) is expected
