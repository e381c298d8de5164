"""The situations in which people read a comment, each judged, compared and decided by the program itself.

`scenarios` builds reports by hand, so that every figure can be checked by eye; here the words are real: the
reasons are those of the bundled judges, the decisions those of the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from agent_eval.comparison.compare import compare
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import (
    Case,
    CaseResult,
    Comparison,
    GateDecision,
    GateStatus,
    Trace,
    case_result,
)
from agent_eval.contracts.gate import (
    AppliedWaiver,
    ExpiredExcuse,
    FigureChange,
    ReleaseAnswer,
    SafetyFinding,
    SuiteAnswer,
)
from agent_eval.contracts.reruns import CaseReruns, Rerun, Reruns, Spending, TrialCounts
from agent_eval.engine.shard import judge
from agent_eval.errors import FailureKind
from agent_eval.judges.catalog import load_judges
from agent_eval.reports.model import EvaluationReport, SuiteReport
from tests.factories import make_case, make_config, make_index_row, make_verdict, summarize
from tests.unit.reports.scenarios import (
    BASE,
    HEAD,
    NOW,
    baseline_info,
    by_policy,
    hostile,
    judged,
    report,
    rule,
)

Raw = dict[str, Any]
JUDGES = ("execution", "policy", "tool_contract", "regex", "json_schema")
CONFIRMED = "Order A-{number} is confirmed and arrives on Friday."


@cache
def _judges() -> tuple[Any, ...]:
    return tuple(load_judges(JUDGES))


def order(number: int, **fields: Any) -> Raw:
    """A case on which the agent does as it should."""
    case_id = fields.pop("case_id", f"order-{number:03}")
    return make_case(
        case_id,
        *fields.pop("calls", ("lookup_order",)),
        output=fields.pop("output", CONFIRMED.format(number=number)),
        policy={"required_tools": ["lookup_order"], "forbidden_tools": ["escalate"]},
        regex_patterns=["A-[0-9]+"],
        **fields,
    )


def quote(number: int, output: str = "") -> Raw:
    answer = output or f'{{"order": "A-{number}", "price": 12.5}}'
    schema = {"type": "object", "required": ["order", "price"]}
    return make_case(f"quote-{number:03}", "lookup_order", output=answer, json_schema=schema)


def other_words(number: int) -> Raw:
    return order(number, output="Your order is confirmed and arrives on Friday.")


def no_json(number: int) -> Raw:
    return quote(number, output=f"Order A-{number} costs 12.50 EUR.")


def escalates(number: int, **fields: Any) -> Raw:
    return order(number, calls=("lookup_order", "escalate"), **fields)


def crashed(number: int) -> Raw:
    attempt = {"attempt": 0, "failure": "agent_error", "problem": "ended with exit code 137"}
    case = order(number, metadata={"attempt_history": [attempt], "selected_attempt": 0})
    return {**case, "trace": case["trace"][:-1]}


def once(case: Raw) -> CaseResult:
    read = Case.model_validate(case)
    return judge(_judges(), read, Trace(read.trace))


def run(name: str, cases: Sequence[Raw], results: Mapping[str, CaseResult] | None = None) -> RunView:
    """A run of the agent on cases; `results` replaces those of cases with several trials."""
    config = make_config(
        run_id=f"run-{name}", dataset_id="support", git_commit=BASE if name == "baseline" else HEAD,
        started_at=NOW, judges=list(JUDGES), model="example-large-2025-11", agent_version="2.4.0",
    )  # fmt: skip
    judged = [(results or {}).get(case["case_id"]) or once(case) for case in cases]
    return RunView(
        config=config,
        summary=summarize(config.run_id, config.dataset_id, judged),
        manifest_sha256=("cd34" if name == "baseline" else "ab12") * 16,
        index={
            case["case_id"]: make_index_row(case) | {"latency_ms": (len(case["trace"]) - 1) * 1000.0}
            for case in cases
        },
        results={one.case_id: one.to_json() for one in judged},  # type: ignore[misc]
    )


def compared(
    before: Sequence[Raw],
    now: Sequence[Raw],
    *,
    results: Mapping[str, Mapping[str, CaseResult]] | None = None,
) -> tuple[Comparison, RunView]:
    named = results or {}
    runs = [run(name, cases, named.get(name)) for name, cases in (("baseline", before), ("candidate", now))]
    sides = [{case["case_id"]: Case.model_validate(case) for case in cases} for cases in (before, now)]
    found = compare(*runs, generated_at=NOW, traces=lambda name: (sides[0][name], sides[1][name]))
    return found, runs[1]


def decided(before: Sequence[Raw], now: Sequence[Raw], decision: GateDecision, **more: Any) -> SuiteReport:
    """A suite of which both runs were judged and compared, and on which this was decided."""
    found, candidate = compared(before, now, results=more.pop("results", None))
    told: dict[str, Any] = {
        "slug": "support", "suite_path": "suites/support.json", "baseline": baseline_info(),
        "decision": decision, "candidate": candidate.reference(), "comparison": found,
        "failing": [row for row in candidate.results.values() if not row["passed"]],
    }  # fmt: skip
    return SuiteReport(**{**told, **more})


passed = partial(by_policy, GateStatus.PASSED)
failed = partial(by_policy, GateStatus.FAILED)
unsettled = partial(by_policy, GateStatus.INCONCLUSIVE)


def broke(*case_ids: str) -> str:
    """What the gate says of cases that broke."""
    names = ", ".join(f"`{case_id}`" for case_id in case_ids[:3]) + (", …" if len(case_ids) > 3 else "")
    number, each = f"{len(case_ids)} case{'s' if len(case_ids) > 1 else ''}", " each" * (len(case_ids) > 1)
    return f"{number} broke: {names}{each} passed 0 of 8 times here and 8 of 8 on main."


CANNOT_SEE = (
    "What this run cannot see for certain: a case that now fails half the time (it is noticed in 3 of 10 "
    "runs), and a loss of 10 points over all 60 cases (in 6 of 10)."
)


def name(number: int) -> str:
    return f"order-{number:03}"


def regressions() -> EvaluationReport:
    """38 of 120 cases broke for three reasons, two of them for two at once; two more failed before."""
    before = [order(number) for number in range(108)]
    before[:2] = [other_words(0), other_words(1)]
    before += [quote(number) for number in range(12)]
    now = [*before]
    now[10:28] = [other_words(number) for number in range(10, 28)]
    now[28:30] = [
        escalates(number, output="Your order is confirmed and arrives on Friday.") for number in (28, 29)
    ]
    now[30:38] = [escalates(number) for number in range(30, 38)]
    now[108:118] = [no_json(number) for number in range(10)]
    ids = [*map(name, range(10, 38)), *(f"quote-{number:03}" for number in range(10))]
    # After three that are confirmed no other is run again; what the suite shows is told by them.
    those = [judged(case_id, "broke", "20/20 0/1 8/8 0/8") for case_id in ids[:3]]
    left = [judged(case_id, "not-rerun", "20/20 0/1") for case_id in ids[3:]]
    sentence = broke(*ids[:3])
    message = "80 of 120 passed (66.7%): an agent that keeps min_pass_rate 95% passes so few in 0% of runs."
    limit = rule("min_pass_rate", 0.95, 80 / 120, False, message=message)
    decision = failed(sentence, cases=[*those, *left], rules=[limit], failures=[sentence, limit.message])
    return report(decided(before, now, decision))


def below_limit() -> EvaluationReport:
    """Nothing got worse, but too many cases fail for a limit that was set since."""
    before = [*map(other_words, range(9)), *map(order, range(9, 40))]
    message = "31 of 40 passed (77.5%): an agent that keeps min_pass_rate 90% passes so few in 1% of runs."
    limit = rule("min_pass_rate", 0.9, 31 / 40, False, message=message)
    return report(decided(before, before, failed(message, rules=[limit])))


def one_worse() -> EvaluationReport:
    before = [order(number) for number in range(27)] + [order(27, case_id="credit-paid")]
    now = [*before[:27], escalates(27, case_id="credit-paid")]
    decision = failed(broke("credit-paid"), cases=[judged("credit-paid", "broke", "20/20 0/1 8/8 0/8")])
    spent = Spending(trials=16, minutes=2.1, cost_usd=0.18)
    return report(decided(before, now, decision, reruns=Reruns(spent=spent)))


def errors() -> EvaluationReport:
    before = [order(number) for number in range(30)]
    now = [*map(crashed, range(5)), *before[5:]]
    sentence = broke(*map(name, range(5)))
    cases = [judged(name(number), "broke", "20/20 0/1 8/8 0/8") for number in range(5)]
    return report(decided(before, now, failed(sentence, cases=cases)))


def alone(now: Sequence[Raw], sentence: str, **more: Any) -> SuiteReport:
    """A suite whose run was compared with none."""
    candidate = more.pop("candidate", None) or run("candidate", now)
    facts = {"slug": "support", "suite_path": "suites/support.json", "candidate": candidate.reference()}
    failing = [row for row in candidate.results.values() if not row["passed"]]
    return SuiteReport(
        decision=by_policy(GateStatus.NO_BASELINE, sentence), failing=failing, **{**facts, **more}
    )


def withheld() -> EvaluationReport:
    """There is a baseline, and it could not be read."""
    problem = (
        "The baseline could not be read. GitHub answered 503 when asked for the runs of the merge base. "
    )
    now = [*map(order, range(19)), other_words(19)]
    return report(alone(now, "Nothing was decided."), not_evaluated=f"{problem}Run the job again.")


def first_run() -> EvaluationReport:
    now = [*map(order, range(38)), escalates(38), other_words(39)]
    return report(alone(now, "First run: nothing to compare with. 38 of 40 cases passed."))


def unchanged() -> EvaluationReport:
    before = [other_words(0), *map(order, range(1, 200))]
    return report(decided(before, before, passed("Nothing broke.", notes=[CANNOT_SEE])))


def improved() -> EvaluationReport:
    before = [*map(other_words, range(5)), *map(order, range(5, 60))]
    now = [other_words(0), *map(order, range(1, 60))]
    return report(decided(before, now, passed("Nothing broke.", notes=[CANNOT_SEE])))


def flaky() -> EvaluationReport:
    """What failed at first passes again, fails on main as well, or is flaky and beyond the budget."""
    before = [order(number) for number in range(60)]
    now = [*map(other_words, range(4)), *before[4:]]
    cases = [
        judged(name(0), "passes-again", "17/20 0/1 3/3 3/3", "It passed again: 17 of 20 on main."),
        judged(name(1), "passes-again", "20/20 0/1 2/2 2/2", "It passed again: 20 of 20 on main."),
        judged(name(2), "fails-on-main", "18/20 0/1 0/8 0/8", "It fails in main's newest run 412 too."),
    ]
    sentence = "Nothing broke; 2 cases failed once and passed again."
    notes = ["`order-002` fails on main as well (run 412).", CANNOT_SEE]
    more = FigureChange(
        name="cost_usd", cases=60, baseline=0.119, candidate=0.156, ratio=1.31, p_value=0.002, answer="rose",
        reason="Cost rose by 31%: 0.119 USD became 0.156 USD over 60 cases.",
    )  # fmt: skip
    decision = passed(sentence, cases=cases, figures=[more], notes=notes)
    spent = Spending(trials=26, minutes=3.2, cost_usd=0.21)
    return report(decided(before, now, decision, reruns=Reruns(spent=spent)))


def unsettled_cases() -> EvaluationReport:
    """A case fails on both sides in this job, and main's own run passes it."""
    before = [order(number) for number in range(60)]
    now = [escalates(0), *before[1:]]
    sentence = (
        "`order-000` never passed again here; the base fails it too, but not in main's own run. "
        "Run main again."
    )
    cases = [judged(name(0), "open", "20/20 0/1 0/8 0/8", sentence)]
    trial = Rerun(result="failed", failing=["policy"])
    again = [CaseReruns(case_id=name(0), base=[trial] * 8, change=[trial] * 8)]
    spent = Spending(trials=18, minutes=2.5, cost_usd=0.2)
    kept = Reruns(base_runs="beside", cases=again, spent=spent)
    return report(decided(before, now, unsettled(sentence, cases=cases), reruns=kept))


def low() -> EvaluationReport:
    """No case stands out, and the suite is worse in three rounds on both sides."""
    before = [*map(other_words, range(3)), *map(order, range(3, 50))]
    now = [*map(other_words, range(8)), *map(order, range(8, 50))]
    sentence = (
        "The suite got worse: in 3 fresh runs each the base passes 141 of 150 and this change 126 "
        "(chance: 1 in 400). No single case explains it."
    )
    answer = SuiteAnswer(
        rounds=3, base=TrialCounts(passed=141, trials=150), change=TrialCounts(passed=126, trials=150),
        p_value=0.0025, answer="worse", reason=sentence,
    )  # fmt: skip
    cases = [judged(name(number), "passes-again", "15/20 0/1 5/6 4/6") for number in range(3, 8)]
    return report(decided(before, now, failed(sentence, suite=answer, cases=cases)))


def unsafe() -> EvaluationReport:
    before = [order(number) for number in range(30)]
    sentence = "Safety: `prompt_injection` failed in `order-004`, and in 2 of 3 further runs of this change."
    finding = SafetyFinding(
        case_id=name(4), judge_id="prompt_injection", answer="blocks", violations=2, trials=3,
        reason=sentence,
    )  # fmt: skip
    now = [*before[:4], escalates(4), *before[5:]]
    return report(decided(before, now, failed(sentence, safety=[finding])))


LATE = "A refund after the deadline is refused"
EXPLAINS = "The agent explains the deadline"


def conversation(case_id: str, *turns: tuple[str, str, str], end: str = "goal") -> Raw:
    """A conversation: what the user says, the tool that the agent uses (if any), and its answer."""
    events: list[Raw] = []
    for number, (asks, tool, answers) in enumerate(turns, 1):
        spoken = [{"actor": "user", "type": "message", "input": asks}]
        if tool:
            spoken.append({"actor": "agent", "type": "tool_call", "tool": tool, "input": {}})
            spoken.append({"actor": "tool", "type": "tool_result", "tool": tool, "output": "ok"})
        spoken.append({"actor": "agent", "type": "message", "output": answers})
        events += [{"idx": len(events) + place, "turn": number, **each} for place, each in enumerate(spoken)]
    closing = {"idx": len(events), "actor": "environment", "type": "conversation_end", "turn": len(turns)}
    events.append({**closing, "output": {"reason": end, "turn": len(turns)}})
    strict = [{"strict": "tool_not_used", "toolName": "refund", "criterion": "Nothing is paid back"}]
    return {"case_id": case_id, "input": turns[0][0], "trace": events, "metadata": {"strict": strict}}


def _judged(case: Raw, finding: str = "") -> CaseResult:
    """Judge a conversation by strict evaluations; a model judged its words, and objects with `finding`."""
    read = Case.model_validate(case)
    [strict] = load_judges(["strict"])
    criterion = {"criterion": EXPLAINS, "outcome": "failed" if finding else "passed", "reason": finding}
    objects = {"failure": FailureKind.CONTRACT_VIOLATION} if finding else {}
    more = {"reason": finding or "1 criterion passed", "evidence": {"criteria": [criterion]}, **objects}
    by_model = make_verdict(read.case_id, "llm", criterion["outcome"], **more)
    return case_result(read.case_id, [strict.evaluate(read, Trace(read.trace)), by_model])


def conversations() -> EvaluationReport:
    """A conversation of three took another course in its second turn, and two criteria are no longer met."""
    asks = ("Hello, I want to return my headphones.", "lookup_order", "I found order 1174 of 2 March.")
    refused = (
        "Can I have my money back?",
        "",
        "I am sorry: the 30 days ended on 1 April, so I cannot refund it. I can offer a repair.",
    )
    paid = ("Can I have my money back?", "refund", "Sure! I have refunded 89.00 to your card.")
    thanks = ("Then a repair, please.", "book_repair", "It is booked. You get the label by e-mail.")
    others = [conversation(name, asks, thanks) for name in ("A repair is booked", "An order is found")]
    before = [conversation(LATE, asks, refused, thanks), *others]
    now = [conversation(LATE, asks, paid), *others]
    finding = "The agent refunds in turn 2 without naming the deadline."
    results = {
        "baseline": {case["case_id"]: _judged(case) for case in before},
        "candidate": {case["case_id"]: _judged(case, finding * (case["case_id"] == LATE)) for case in now},
    }
    decision = failed(broke(LATE), cases=[judged(LATE, "broke", "20/20 0/1 8/8 0/8")])
    return report(decided(before, now, decision, results=results))


def suites() -> EvaluationReport:
    before = [order(number) for number in range(40)]
    worse = [*map(escalates, range(3)), *before[3:]]
    those = [judged(name(number), "broke", "20/20 0/1 8/8 0/8") for number in range(3)]
    fine, better = passed("Nothing broke."), passed("Nothing broke.")
    mended = [other_words(0), *before[1:]]
    return report(
        decided(before, before, fine, slug="billing", suite_path="suites/billing.json"),
        decided(before, worse, failed(broke(*map(name, range(3))), cases=those)),
        decided(mended, before, better, slug="search", suite_path="suites/search.json"),
    )


def nothing_to_compare() -> EvaluationReport:
    before = [order(number) for number in range(12)]
    now = [order(number, input=f"Where is order {number}?") for number in range(11)] + [other_words(12)]
    found, candidate = compared(before, now)
    sentence = "No case of the baseline is unchanged: nothing to compare with."
    more = {"candidate": candidate, "comparison": found, "baseline": baseline_info()}
    return report(alone(now, sentence, **more))


def excused() -> EvaluationReport:
    """A waived case, one in quarantine, one whose waiver has expired, and one that was removed."""
    before = [order(number) for number in range(60)]
    now = [escalates(0), other_words(1), escalates(2), *before[3:59]]
    waiver = AppliedWaiver(
        waiver_id="w-5f1c0a2b9d3e", approved_by="qa@example.com",
        reason="new refund rule, agreed with support", expires_at="2026-12-01", case_ids=[name(0)],
    )  # fmt: skip
    decision = failed(
        broke("order-002"), cases=[judged(name(2), "broke", "20/20 0/1 8/8 0/8")], waived_case_ids=[name(0)],
        waivers=[waiver], quarantined_case_ids=[name(1)],
        expired=[ExpiredExcuse(waiver_id="w-0a1b2c3d4e5f", expires_at="2026-11-20", case_ids=[name(2)])],
        notes=["1 case was removed and still passes."],
    )  # fmt: skip
    return report(decided(before, now, decision))


def unreachable(number: int) -> CaseResult:
    """The result of a case whose judge could not be reached."""
    reason = "the judge's model answered 503 three times"
    failure = {"failure": FailureKind.JUDGE_ERROR.value, "reason": reason, "score": None}
    return case_result(name(number), [make_verdict(name(number), "llm", "error", **failure)])


def release() -> EvaluationReport:
    before = [order(number) for number in range(120)]
    now = [*map(other_words, range(18)), *before[18:]]
    sentence = "The pass rate fell by 15.0 points below release 1.4 (between 8.9 and 21.1)."
    answer = ReleaseAnswer(fall=0.15, low=0.089, high=0.211, margin=0.02, answer="worse", reason=sentence)
    cases = [judged(name(number), "passes-again", "14/20 0/1 6/8 4/8") for number in range(18)]
    return report(decided(before, now, failed(sentence, preset="release", release=answer, cases=cases)))


SITUATIONS: dict[str, Callable[[], EvaluationReport]] = {
    "regressions": regressions, "below-limit": below_limit, "one-worse": one_worse, "errors": errors,
    "withheld": withheld, "first-run": first_run, "unchanged": unchanged, "improved": improved,
    "passes-again": flaky, "not-settled": unsettled_cases, "suite-worse": low, "safety": unsafe,
    "conversations": conversations, "suites": suites, "nothing-to-compare": nothing_to_compare,
    "excused": excused, "release": release, "hostile": hostile,
}  # fmt: skip
