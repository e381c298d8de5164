from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.comparison.behaviour import ABSENT, behaviour_change
from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.contracts import (
    AppliedWaiver,
    CallCount,
    CaseSets,
    ExpiredExcuse,
    GateStatus,
    Outcome,
    RunBehaviour,
)
from agent_eval.contracts.run import ModelsUse
from agent_eval.reports.comment import render_markdown
from agent_eval.reports.detail import characters, utf8_bytes
from agent_eval.reports.terminal_comparison import gate_text
from tests.extent import examples
from tests.factories import make_index_row
from tests.security.github_markdown import Page
from tests.unit.reports import scenarios, situations

comment_on = scenarios.comment


def comment_with(**fields) -> str:
    """The comment on the suite that regressed, with other fields of its comparison."""
    suite = scenarios.regressed_suite()
    compared = suite.comparison.model_copy(update=fields)
    return comment_on(scenarios.report(replace(suite, comparison=compared)))


def comment_with_judges(*judges) -> list[str]:
    """The lines of the comment where these judges say something of the first case."""
    row = scenarios.three_regressions()[0][0]
    return comment_with(case_regressions=[row.model_copy(update={"judges": list(judges)})]).splitlines()


def judge(**fields):
    return scenarios.three_regressions()[0][0].judges[0].model_copy(update=fields)


OTHERS = ("rules-changed", "no-permission", "regressed", "500-regressed", "release-blocked")
SHOWN = {**{name: scenarios.SCENARIOS[name] for name in OTHERS}, **situations.SITUATIONS}


@pytest.mark.parametrize("name", SHOWN)
def test_comments_look_as_agreed(name, golden):
    golden(f"comment/{name}.md", comment_on(SHOWN[name]()))


EVIDENCE = "https://github.com/acme/support-bot/actions/runs/812/artifacts/55"
FIELDS_OF_A_REPORT = {
    "boxes are plain quotes where a platform has none": (
        scenarios.regressed, {"boxes": False}, ["\n> **3 cases regressed, none allowed.** Why: ", "not [!"],
    ),
    "without a template there is no command": (scenarios.regressed, {"reproduce": ""}, ["not ```"]),
    "links that are not web addresses are left out": (
        scenarios.unchanged, {"run_url": "javascript:alert(1)", "evidence_url": None},
        ["· job summary · evidence `agent-eval-evidence`"],
    ),
    "the HTML report is named beside the evidence": (
        scenarios.regressed, {"html_name": "a.html"}, [f"[evidence]({EVIDENCE}) · [HTML report]({EVIDENCE})"],
    ),
    "where there is no HTML report none is named": (scenarios.regressed, {}, ["not HTML report"]),
    "warnings beyond what is shown are counted": (
        scenarios.regressed, {"warnings": [f"number {n}" for n in range(43)]},
        ["> ⚠️ number 39\n>\n> and 3 more warnings, see the job summary.", "not number 40"],
    ),
    "what could not be evaluated takes the place of the decision": (
        scenarios.unchanged, {"not_evaluated": "The baseline could not be looked up."},
        ["\n## 🛑 Not evaluated: the baseline could not be looked up · agent-eval\n", "not ✅"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("report", "fields", "said"), FIELDS_OF_A_REPORT.values(), ids=FIELDS_OF_A_REPORT)
def test_a_comment_says_what_its_report_has(report, fields, said):
    check(comment_on(replace(report(), **fields)), said)


def check(text, said):
    """Assert that a text has these parts, and not those that begin with `not `."""
    for part in said:
        assert (part.removeprefix("not ") in text) is not part.startswith("not "), part


def test_it_names_the_run_where_the_baselines_commit_is_unknown():
    suite = scenarios.unchanged_suite(baseline=None)
    baseline = suite.comparison.baseline.model_copy(update={"git_commit": None})
    suite = replace(suite, comparison=suite.comparison.model_copy(update={"baseline": baseline}))
    assert "`9be1f04` vs run `run-baseline`" in comment_on(scenarios.report(suite, head_sha=None))


def test_new_cases_that_fail_are_counted():
    suite = scenarios.regressed_suite(failing=scenarios.failing_rows(2))
    suite.comparison.cases.new = ["order-000", "order-001", "order-de-1"]
    suite.comparison.cases.removed = ["gone", "old-7"]
    text = comment_on(scenarios.report(suite))
    assert "- ⚠️ 3 new, not compared: `order-000`, `order-001` and `order-de-1` (2 do not pass)" in text
    assert "⚠️ 1 removed: `gone`" in text


def with_change(*, behaviour: RunBehaviour | None = None, **fields) -> str:
    rows, changes = scenarios.three_regressions()
    change = changes[0].model_copy(update={"metrics": [], "output_changed": False, "calls": [], **fields})
    told = {"behaviour": behaviour} if behaviour is not None else {}
    return comment_with(behaviour_changes=[change], case_regressions=rows[:1], **told)


def called(before, now):
    """How a case changed with these calls, each a tool and how many times it is called in a row."""
    rows = []
    for side in (before, now):
        calls = [[tool, arguments] for tool, times, arguments in side for _ in range(times)]
        rows.append(make_index_row({"case_id": "a", "trace": []}) | {"calls": calls})
    change = behaviour_change(*rows, None)
    return {name: getattr(change, name) for name in type(change).model_fields if "call" in name}


def call(kind, tool, **fields):
    return scenarios.CallChange(kind=kind, tool=tool, **fields)


def calls(before, now, *changes, **more):
    return {"baseline_calls": before, "candidate_calls": now, "calls": list(changes), **more}


PAGE = call("arguments", "refund", arguments={"$.page": (1, 2)})
FIELDS = call("arguments", "refund", arguments={f"$.field{number}": (None, number) for number in range(6)})
SEARCHES = [("search", 1, str(number)) for number in range(300)]
MODELS = {"model_changed": True, "baseline_models": ["gpt-4o"], "candidate_models": ["gpt-4o-mini"]}
COSTS = [scenarios.metric("cost_usd", 1, 2), scenarios.metric("output_tokens", 100, 120)]
COSTS += [scenarios.metric("input_tokens", 0, 5), scenarios.metric("latency_ms", None, 5)]
DOUBLED = RunBehaviour(shifts=[scenarios.metric("cost_usd", 50, 101)])
AS_BEFORE = {"behaviour": RunBehaviour()}
CHANGES = {
    "many calls are told by what changed": (
        calls(["a", "b"] * 10, ["a", "b"] * 11, *[call("added", "search")] * 2, call("moved", "refund")),
        ["- Calls: 20 became 22; added `search ×2`; moved `refund`"],
    ),
    "a call that changed after very many is named": (
        lambda: called([("a", 250, "1"), ("pay", 1, "1")], [("a", 250, "1"), ("delete_all", 1, "1")]),
        ["- Calls: 251 before and now; added `delete_all`; removed `pay`"],
    ),
    "numbers of calls are those of all calls": (
        lambda: called([("a", 250, "1")], [("a", 900, "1")]), ["- Calls: 250 became 900; added `a ×650`"],
    ),
    "very many calls with other arguments": (
        lambda: called([("a", 20_000, "1")], [("a", 20_000, "2")]),
        ["- Calls: `a ×200 → … 19,800 more` with other arguments"],
    ),
    "calls of one tool in another order do not become themselves": (
        lambda: called(SEARCHES, SEARCHES[::-1]), ["- Calls: 300 before and now; moved `search ×299`"],
    ),
    "an argument that was not given is no value": (
        calls(["pay"], ["pay"], call("arguments", "pay", arguments={"$.x": (ABSENT, "1")})),
        ['- Argument `$.x` of `pay`: `(absent)` became `"1"`'],
    ),
    "arguments that are not listed are counted": (
        calls(["refund"] * 200, ["refund"] * 200, *[PAGE] * 400,
              baseline_call_count=900, candidate_call_count=900,
              call_counts=[CallCount(kind="arguments", tool="refund", count=900)]),
        ["- and more arguments, in 900 calls in all"],
    ),
    "equal calls with other arguments are told once": (
        calls(["a"] * 12, ["a"] * 12, FIELDS),
        ["- Argument `$.field0` of `refund`: `null` became `0`", "- and 2 more arguments changed",
         "not Calls:"],
    ),
    "equal calls are named where nobody knows the arguments": (
        calls(["a"] * 12, ["a"] * 12), ["- Calls: `a ×12` with other arguments"],
    ),
    "no call and no output are said in words": (
        calls(["a"], [], output_changed=True, baseline_output="x", candidate_output=None),
        ["- Calls: `a` became `no call`", "- Output now: nothing"],
    ),
    "outputs that nobody kept": (
        {"output_changed": True, "baseline_output": None, "candidate_output": None}, ["- Output changed"],
    ),
    "another model is named": ({**MODELS, **AS_BEFORE}, ["- Model: `gpt-4o` became `gpt-4o-mini`"]),
    "another model is named once where the whole run has it": (MODELS, ["not - Model: `gpt-4o` became"]),
    "usage is told where it stands out from the whole run": (
        {"metrics": COSTS, **AS_BEFORE}, ["Usage: cost 1.00 USD → 2.00 USD"],
    ),
    "usage is not told where the whole run has it": (
        {"metrics": COSTS, "behaviour": DOUBLED}, ["not Usage:"],
    ),
    "latency within the time that a start takes is no shift": (
        {"metrics": [scenarios.metric("latency_ms", 200, 400)], **AS_BEFORE}, ["not Usage:"],
    ),
    "latency beyond the time that a start takes is a shift": (
        {"metrics": [scenarios.metric("latency_ms", 900, 2000)], **AS_BEFORE},
        ["Usage: latency 900 ms → 2.0 s"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_a_case_tells_how_its_behaviour_changed(change, said):
    check(with_change(**(change() if callable(change) else change)), said)


@pytest.mark.parametrize(
    ("baseline", "candidate", "said"),
    [
        (Outcome.PASSED, None, "- ➖ `regex` no longer judges this case: `why`"),
        (Outcome.PASSED, Outcome.INCONCLUSIVE, "- ❔ `regex` cannot tell: `why`"),
        (Outcome.PASSED, Outcome.SKIPPED, "- ➖ `regex` has nothing to judge: `why`"),
        (Outcome.FAILED, Outcome.PASSED, "- ✅ `regex` passes now, was failed"),
        (None, Outcome.PASSED, "- ✅ `regex` passes now, was absent"),
    ],
)
def test_every_outcome_of_a_judge_has_words(baseline, candidate, said):
    assert said in comment_with_judges(
        judge(judge_id="regex", baseline=baseline, candidate=candidate, reason="why")
    )


def test_a_case_without_judges_tells_its_outcome():
    assert "- passed → failed" in comment_with_judges()


def test_a_case_that_is_defined_anew_is_changed_and_not_new():
    line = "| ❌ `order-000` | `lookup_order` was never called | failed | changed |"
    assert line in comment_on(scenarios.nothing_shared())


def test_many_suites_share_the_room_for_cases():
    suites = [scenarios.regressed_suite(slug=f"suite-{number}") for number in range(90)]
    text = comment_on(scenarios.report(*suites))
    listed = text.count("- ❌ `suite-")
    assert f"and {90 - listed} more suites, see the job summary." in text
    sections = text.count("### ❌ `suite-")
    assert 0 < sections < 90
    assert text.count("\n#### ") % sections == 0  # as many open cases in each


def test_a_command_survives_ids_that_a_shell_would_read():
    ids = ("a b", "x'; rm -rf /", "two\nlines", "`id`")
    rows = [scenarios.regression(case_id, f"policy {case_id}", "why") for case_id in ids]
    text = comment_with(case_regressions=rows)
    assert "--case 'a b' --out" in text
    assert """--case 'x'"'"'; rm -rf /' --out""" in text
    assert r"""--case "$(printf 'two\012lines')" --out""" in text
    assert "--case '`id`' --out" in text


def test_a_command_is_shown_whole_or_not_at_all():
    rows = [scenarios.regression(case_id, case_id, "why") for case_id in ("x" * 1_500, "y" * 3_000, "\0")]
    text = comment_with(case_regressions=rows)
    assert f"--case {'x' * 1_500} --out reproduce" in text
    assert text.count("```sh") == 1
    assert text.count("The command that repeats it is too long to be shown") == 1


def test_a_case_with_many_judges_names_a_few_and_those_that_say_the_same_once():
    lines = comment_with_judges(*(judge(judge_id=f"judge-{n}", reason=f"reason {n}") for n in range(12)))
    assert "- ❌ `judge-2`: `reason 2`" in lines
    assert not any("reason 3" in line for line in lines)
    assert "- and `judge-3`, `judge-4`, `judge-5`, `judge-6`, and 5 more" in lines
    lines = comment_with_judges(*(judge(judge_id=f"judge-{number}") for number in range(4)))
    same = "`judge-0`, `judge-1`, `judge-2`, `judge-3`"
    assert f"- ❌ {same}: `forbidden tool escalate was called (event 5)`" in lines


def test_limits_are_listed_with_what_was_measured():
    rules = [
        scenarios.rule("min_pass_rate", 0.9, 0.95, True, message="38 of 40 passed (95.0%)."),
        scenarios.rule("max_regressed_cases", 0, None, True, applied=False, message="No baseline."),
        scenarios.rule("max_hard_fail_rate", 0, 0.1, False, message="4 of 40 hard-failed (10.0%)."),
    ]
    report = scenarios.first_run()
    suite = replace(report.suites[0], decision=scenarios.decision(GateStatus.FAILED, rules))
    lines = comment_on(replace(report, suites=[suite])).splitlines()
    assert lines[2] == "## ❌ 4 of 40 hard-failed (10.0%) · agent-eval"
    place = lines.index("- ✅ 38 of 40 passed (95.0%).")
    assert lines[place + 1] == "- ➖ No baseline."


def test_a_waiver_or_quarantine_that_has_expired_is_named():
    report = scenarios.regressed()
    over = "2026-01-01T00:00:00+00:00"
    expired = [
        ExpiredExcuse(waiver_id="w-1", expires_at=over, case_ids=["a", "b"]),
        ExpiredExcuse(expires_at=over, case_ids=["`x` @acme/team"]),
    ]
    suite = report.suites[0]
    suite = replace(suite, decision=suite.decision.model_copy(update={"expired": expired}))
    text = comment_on(replace(report, suites=[suite]))
    assert f"- Counts again, as its waiver `w-1` expired on `{over}`: `a` and `b`." in text
    assert f"- Counts again, as its quarantine expired on `{over}`: `´x´ @acme/team`." in text
    assert "Counts again" in gate_text(suite.decision, "d.json")


def grown(number: int, word: str) -> object:
    """An evaluation in which everything that can grow has grown."""
    suite = scenarios.regressed_suite(slug=word, failing=scenarios.failing_rows(number))
    many, judges = [word] * number, [f"{word}{key}" for key in range(number % 30)]
    fields = {
        "case_regressions": [scenarios.regression(f"{word}-{k}", word, word * 3) for k in range(number)],
        "cases": CaseSets(compared=200, new=many, changed=many, removed=many),
        "behaviour": RunBehaviour(notices=[word] * (number % 20)),
        "judge_metrics": {name: scenarios.metric(name, 1.0, 0.5) for name in judges},
    }
    suites = [replace(suite, comparison=suite.comparison.model_copy(update=fields))] * (number % 50 + 1)
    return scenarios.report(*suites, title=word, warnings=[word] * (number % 10), evidence_name=word)


@given(
    number=st.integers(0, 300),
    word=st.sampled_from(["x", "long " * 60, "🙂" * 300, "`|@a" * 80]),
    data=st.data(),
)
@settings(max_examples=examples(40))
def test_any_limit_is_kept_without_cutting_markup(number, word, data):
    limit = data.draw(st.integers(2_000, 65_536))
    text = comment_on(grown(number, word), limit=limit)
    assert characters(text) <= limit
    assert text.startswith(scenarios.MARKER)
    assert Page(text).balanced()
    assert re.search(r"^## ❌ ", text, flags=re.MULTILINE)


def test_less_room_means_less_detail_in_steps():
    report = scenarios.two_suites()
    lengths = [len(comment_on(report, limit=limit)) for limit in (65_536, 5_000, 3_000, 2_000, 1)]
    assert lengths == sorted(lengths, reverse=True)


def test_astral_characters_count_twice():
    assert characters("a🙂") == 3


def test_the_worst_suite_decides():
    statuses = [GateStatus.PASSED, GateStatus.NO_BASELINE, GateStatus.INCONCLUSIVE, GateStatus.FAILED]
    suites = [
        replace(scenarios.unchanged_suite(), decision=scenarios.decision(status)) for status in statuses
    ]
    for number, status in enumerate(statuses, 1):
        assert scenarios.report(*suites[:number]).status is status


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (GateStatus.PASSED, "All 2 suites passed"),
        (GateStatus.FAILED, "2 of 2 suites failed: `support` and `support`"),
        (GateStatus.NO_BASELINE, "2 of 2 suites are not compared: `support` and `support`"),
        (GateStatus.INCONCLUSIVE, "2 of 2 suites are not settled: `support` and `support`"),
    ],
)
def test_several_suites_are_summed_up_in_a_sentence(status, said):
    suite = replace(scenarios.unchanged_suite(), decision=scenarios.decision(status))
    assert f" {said} · agent-eval\n" in comment_on(scenarios.report(suite, suite))


def test_new_rules_are_folded_away_and_said_to_hold_once_merged():
    report = scenarios.rules_changed()
    changes = replace(report.rule_changes, diffs=[("gate.yml", ["-margin: 0.02", "+margin: 0.2"])])
    text = comment_on(replace(report, rule_changes=changes))
    fold = text.partition("<summary>New rules in this change hold once it is merged</summary>")[2]
    assert "- `gate.yml`: `margin` was `0.02` and is now `0.2`." in fold
    assert "```diff\n-margin: 0.02\n+margin: 0.2\n```" in fold


def test_a_case_that_breaks_a_limit_of_cost_shows_what_it_took_before_and_now():
    reason = "cost_usd 0.0035 exceeds 0.0025 (cost: from tokens)"
    moved = [scenarios.metric("cost_usd", 0.0008, 0.0035), scenarios.metric("input_tokens", 600, 2980)]
    change = {"metrics": moved, "output_changed": False, "calls": [], "case_id": "refund"}
    text = comment_with(
        behaviour=RunBehaviour(shifts=[scenarios.metric("input_tokens", 6000, 29800)]),
        behaviour_changes=[scenarios.three_regressions()[1][0].model_copy(update=change)],
        case_regressions=[scenarios.regression("refund", "cost_budget", reason)],
    )
    assert "- Usage: cost 0.0008 USD → 0.0035 USD; input tokens 600 → 2,980" in text
    assert "Intended? Raise the limit, or have it waived." in text


def test_waivers_beyond_the_room_are_counted():
    one = AppliedWaiver(waiver_id="w", approved_by="qa", reason="agreed", case_ids=["order-000"])
    decision = scenarios.by_policy(GateStatus.PASSED, "Nothing broke.", waivers=[one] * 44)
    text = comment_on(scenarios.report(replace(scenarios.unchanged_suite(), decision=decision)))
    assert text.count("- Waived: ") == 40
    assert "and 4 more, see the job summary." in text


def test_texts_of_a_turn_that_differ_late_are_shown_where_they_differ() -> None:
    long = "All of this is the same. " * 40
    report = situations.conversations()
    [change] = report.suites[0].comparison.conversations  # type: ignore[union-attr]
    pair = change.first_differing
    pair.baseline.agent, pair.candidate.agent = f"{long}It is refused.", f"{long}It is paid."  # type: ignore[union-attr]
    row = next(line for line in comment_on(report).splitlines() if line.startswith("| Agent"))
    assert "It is refused.`" in row
    assert "It is paid.`" in row


def test_what_judging_took_and_what_no_model_gave_is_in_the_comment() -> None:
    report = situations.conversations()
    [suite] = report.suites
    for number in (0, 2):
        summary = suite.candidate.summary.model_copy(update={"judging": ModelsUse(calls=3, scripted=number)})
        candidate = suite.candidate.model_copy(update={"summary": summary})
        text = comment_on(replace(report, suites=[replace(suite, candidate=candidate)]))
        assert "LLM judges: 3 calls." in text
        assert ("2 verdicts are `scripted`: from a file, by no model." in text) is bool(number)


# How much is shown of very many cases: every case is shown or counted.


KEPT = "A comparison keeps how the behaviour changed of 200 cases"


def shown(text: str) -> tuple[int, int]:
    """Cases in full, and those that are only counted."""
    counted = re.search(r"^… and ([0-9,]+) more cases? that got worse: see", text, flags=re.MULTILINE)
    return text.count("\n#### "), int(counted[1].replace(",", "")) if counted else 0


@pytest.mark.parametrize("number", [21, 400, 9_000])
def test_a_comment_shows_one_case_of_a_cause_and_counts_the_others_in_its_row(number: int) -> None:
    text = scenarios.comment(scenarios.many_behave_otherwise(number))
    assert shown(text) == (1, 0)
    assert f"`checkout-flow-0003`, and {number - 4:,} more | `escalate` was called |" in text
    assert "agent-eval run --suite suites/support.json --case checkout-flow-0000 --out" in text
    assert characters(text) < 4_000


def test_the_full_report_holds_what_the_comment_has_no_room_for() -> None:
    text = scenarios.full_report(scenarios.many_behave_otherwise(1_000))
    assert shown(text) == (1_000, 0)
    assert utf8_bytes(text) <= scenarios.SUMMARY_LIMIT


def test_beyond_its_limit_the_full_report_says_how_many_are_missing_and_where_they_are() -> None:
    text = scenarios.full_report(scenarios.many_regressed(9_000), limit=200_000)
    in_full, counted = shown(text)
    assert utf8_bytes(text) <= 200_000
    assert in_full + counted == 9_000 > counted > 0
    assert "see `case_regressions` in `compare/baseline_delta.json`." in text


def test_a_markdown_file_of_a_comparison_is_filled_alike() -> None:
    comparison = scenarios.many_behave_otherwise(300).suites[0].comparison
    assert comparison is not None
    assert shown(render_markdown(comparison, None, title="Nightly")) == (300, 0)


def test_where_the_comparison_keeps_no_behaviour_it_is_said_once() -> None:
    assert DETAIL_LIMIT == 200
    assert scenarios.full_report(scenarios.many_behave_otherwise(300)).count(KEPT) == 1
    assert KEPT not in scenarios.full_report(scenarios.many_behave_otherwise(300, kept=199))
    assert KEPT not in scenarios.full_report(scenarios.many_behave_otherwise(200))


@given(limit=st.integers(2_000, 65_536), number=st.integers(0, 120))
@settings(max_examples=examples(15))
def test_every_case_is_named_or_counted_at_any_limit(limit: int, number: int) -> None:
    text = scenarios.comment(scenarios.many_behave_otherwise(number), limit=limit)
    assert characters(text) <= limit
    assert Page(text).balanced()
    assert not number or f"{number} of 2,000 cases regressed" in text


@pytest.mark.parametrize("name", ["first-run", "regressed", "two-suites", "hostile"])
def test_full_reports_look_as_agreed(name, golden):  # type: ignore[no-untyped-def]
    golden(f"summary/{name}.md", scenarios.full_report(scenarios.SCENARIOS[name]()))


@given(limit=st.integers(2_000, 200_000))
@settings(max_examples=examples(15))
def test_any_limit_of_a_full_report_in_bytes_is_kept(limit: int) -> None:
    text = scenarios.full_report(scenarios.many_regressed(700), limit=limit)
    assert utf8_bytes(text) <= limit
    assert Page(text).balanced()
