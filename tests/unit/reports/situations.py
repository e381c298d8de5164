"""The situations in which people read a comment, each judged, compared and decided by the program itself.

`scenarios` builds reports by hand, so that every figure can be checked by eye; here the words are real: the
reasons are those of the bundled judges, the decisions those of the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from agent_eval.comparison.compare import compare
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import (
    Case,
    CaseResult,
    Comparison,
    Outcome,
    Thresholds,
    Trace,
    Verdict,
    case_policy,
    case_result,
    summarize,
    trials_result,
)
from agent_eval.contracts.confirmation import ConfirmedSide, NewCaseTrial, Spending
from agent_eval.contracts.policy import GatePolicy
from agent_eval.engine.shard import judge
from agent_eval.errors import FailureKind
from agent_eval.gate.confirmation import Confirmed
from agent_eval.gate.decide import decide_by_policy, decide_without_baseline
from agent_eval.history.board import tiers_of_policy
from agent_eval.judges.catalog import load_judges
from agent_eval.reports.model import EvaluationReport, SuiteHistory, SuiteReport
from tests.factories import make_case, make_config, make_index_row
from tests.unit.gate.test_confirmation import fresh, record
from tests.unit.history.made import made_run
from tests.unit.reports.scenarios import (
    BASE,
    HEAD,
    NOW,
    baseline_info,
    hostile,
    report,
    waiver,
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


def quote(number: int, **fields: Any) -> Raw:
    """A case that is answered with JSON."""
    return make_case(
        f"quote-{number:03}",
        "lookup_order",
        output=fields.pop("output", f'{{"order": "A-{number}", "price": 12.5}}'),
        json_schema={"type": "object", "required": ["order", "price"]},
        **fields,
    )


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
        run_id=f"run-{name}",
        dataset_id="support",
        git_commit=BASE if name == "baseline" else HEAD,
        started_at=NOW,
        judges=list(JUDGES),
        model="example-large-2025-11",
        agent_version="2.4.0",
    )
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
    quarantined: frozenset[str] = frozenset(),
) -> tuple[Comparison, RunView]:
    """Compare two runs on these cases."""
    named = results or {}
    runs = [run(name, cases, named.get(name)) for name, cases in (("baseline", before), ("candidate", now))]
    sides = [{case["case_id"]: Case.model_validate(case) for case in cases} for cases in (before, now)]
    found = compare(
        *runs,
        changed="exclude",
        generated_at=NOW,
        traces=lambda case_id: (sides[0][case_id], sides[1][case_id]),
        quarantined=quarantined,
    )
    return found, runs[1]


def decided(
    before: Sequence[Raw], now: Sequence[Raw], *, policy: GatePolicy | None = None, **more: Any
) -> SuiteReport:
    """A suite that a policy decided on; a waiver or a number of trials is among `more`."""
    waivers = more.pop("waivers", ())
    ways = {name: more.pop(name) for name in ("results", "quarantined") if name in more}
    policy, kept = policy or GatePolicy(), more.get("confirmation")
    found, candidate = compared(before, now, **ways)
    told: dict[str, Any] = {
        "slug": "support",
        "suite_path": "suites/support.json",
        "baseline": baseline_info(),
        "decision": decide_by_policy(
            found,
            policy,
            generated_at=NOW,
            waivers=waivers,
            confirmation=Confirmed(kept, "d" * 64) if kept is not None else None,
        ),
        "candidate": candidate.reference(),
        "comparison": found,
        "failing": [row for row in candidate.results.values() if not row["passed"]],
    }
    return SuiteReport(**{**told, **more})


def _with_limits(**limits: Any) -> GatePolicy:
    return GatePolicy(thresholds=Thresholds(**limits))


def regressions() -> EvaluationReport:
    """38 of 120 cases regressed for three reasons, two of them for two at once; two more failed before."""
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
    return report(decided(before, now, policy=_with_limits(min_pass_rate=0.95)))


def below_limit() -> EvaluationReport:
    """Nothing got worse, but too many cases fail for a limit that was set since."""
    before = [*map(other_words, range(9)), *map(order, range(9, 40))]
    return report(decided(before, before, policy=_with_limits(min_pass_rate=0.9, max_regressed_cases=0)))


def one_worse() -> EvaluationReport:
    """One case of few got worse."""
    before = [order(number) for number in range(27)] + [order(27, case_id="credit-paid")]
    now = [*before[:27], escalates(27, case_id="credit-paid")]
    return report(decided(before, now))


def errors() -> EvaluationReport:
    """The agent crashed on some cases."""
    before = [order(number) for number in range(30)]
    now = [*map(crashed, range(5)), *before[5:]]
    return report(decided(before, now))


def withheld() -> EvaluationReport:
    """There is a baseline, and it could not be read."""
    candidate = run("candidate", [*map(order, range(19)), other_words(19)])
    suite = SuiteReport(
        slug="support",
        suite_path="suites/support.json",
        decision=decide_without_baseline(candidate.reference(), Thresholds(), generated_at=NOW),
        candidate=candidate.reference(),
        failing=[row for row in candidate.results.values() if not row["passed"]],
    )
    problem = (
        "The baseline could not be read. GitHub answered 503 when asked for the runs of the merge base. "
        "Run the job again."
    )
    return report(suite, not_evaluated=problem)


def first_run() -> EvaluationReport:
    """Nothing was evaluated before."""
    candidate = run("candidate", [*map(order, range(38)), escalates(38), other_words(39)])
    suite = SuiteReport(
        slug="support",
        suite_path="suites/support.json",
        decision=decide_without_baseline(candidate.reference(), Thresholds(), generated_at=NOW),
        candidate=candidate.reference(),
        baseline_note="This run is the first: there is no earlier one to compare with.",
        failing=[row for row in candidate.results.values() if not row["passed"]],
    )
    return report(suite)


def unchanged() -> EvaluationReport:
    """The same verdicts as before."""
    before = [other_words(0), *map(order, range(1, 200))]
    return report(decided(before, before))


def improved() -> EvaluationReport:
    """Cases pass that failed before."""
    before = [*map(other_words, range(5)), *map(order, range(5, 60))]
    now = [other_words(0), *map(order, range(1, 60))]
    return report(decided(before, now))


def _tried(case_id: str, good: Raw, bad: Raw, passed: int, trials: int) -> CaseResult:
    results = [once({**(good if number < passed else bad), "case_id": case_id}) for number in range(trials)]
    return trials_result(results, case_policy("majority"))


def tried(case: Raw, bad: Raw, passed: int, trials: int) -> CaseResult:
    """The result of a case of which so many trials pass; the others do as `bad` does. All must pass."""
    answers = [case if number < passed else {**bad, "case_id": case["case_id"]} for number in range(trials)]
    return trials_result([once(answer) for answer in answers], case_policy("all"))


def trials() -> EvaluationReport:
    """Five trials of each case: some cases pass less often, none by so many that it is certain."""
    cases = [order(number) for number in range(24)]
    passed = {
        "baseline": [5] * 16 + [4] * 4 + [3, 3, 2, 0],
        "candidate": [5] * 12 + [4, 3, 4, 2] + [5, 4, 2, 3] + [3, 4, 4, 0],
    }
    results = {
        name: {
            case["case_id"]: _tried(case["case_id"], case, other_words(number), counts[number], 5)
            for number, case in enumerate(cases)
        }
        for name, counts in passed.items()
    }
    return report(decided(cases, cases, results=results))


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
    by_model = Verdict(
        case_id=read.case_id,
        judge_id="llm",
        outcome=Outcome(criterion["outcome"]),
        passed=not finding,
        score=0.0 if finding else 1.0,
        reason=finding or "1 criterion passed",
        failure=FailureKind.CONTRACT_VIOLATION if finding else None,
        evidence={"criteria": [criterion]},
    )
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
    limits = _with_limits(max_regressed_cases=0)
    return report(decided(before, now, results=results, policy=limits))


def suites() -> EvaluationReport:
    """Three suites: one regressed, one improved, one as before."""
    before = [order(number) for number in range(40)]
    worse = [*map(escalates, range(3)), *before[3:]]
    limits = _with_limits(max_regressed_cases=0)
    return report(
        decided(before, before, slug="billing", suite_path="suites/billing.json"),
        decided(before, worse, policy=limits),
        decided([other_words(0), *before[1:]], before, slug="search", suite_path="suites/search.json"),
    )


def nothing_to_compare() -> EvaluationReport:
    """Every case asks something else than in the baseline."""
    before = [order(number) for number in range(12)]
    now = [order(number, input=f"Where is order {number}?") for number in range(11)] + [other_words(12)]
    found, candidate = compared(before, now)
    suite = SuiteReport(
        slug="support",
        suite_path="suites/support.json",
        decision=decide_without_baseline(candidate.reference(), Thresholds(), generated_at=NOW),
        candidate=candidate.reference(),
        comparison=found,
        baseline=baseline_info(),
        failing=[row for row in candidate.results.values() if not row["passed"]],
    )
    return report(suite)


def excused() -> EvaluationReport:
    """A waived case, one in quarantine, and one that was removed."""
    before = [order(number) for number in range(60)]
    now = [escalates(0), other_words(1), *before[2:59]]
    held = [
        {
            "case_id": "order-001",
            "reason": "answers differ from day to day",
            "expires_at": "2026-12-20T00:00:00Z",
        }
    ]
    policy = GatePolicy(quarantine=held)
    return report(decided(before, now, policy=policy, waivers=[waiver("order-000")]))


def unreachable(number: int) -> CaseResult:
    """The result of a case whose judge could not be reached."""
    verdict = Verdict(
        judge_id="llm",
        case_id=f"order-{number:03}",
        outcome=Outcome.ERROR,
        passed=False,
        reason="the judge's model answered 503 three times",
        hard=True,
        failure=FailureKind.JUDGE_ERROR.value,
    )
    return case_result(verdict.case_id, [verdict])


def confirmed() -> EvaluationReport:
    """Of four cases that newly fail one is confirmed; others are tracked, and two are new."""
    before = [order(number) for number in range(60)]
    before[11], before[20] = other_words(11), other_words(20)
    broken = {number: escalates(number) for number in (0, 1, 2, 3, 10)}
    now = [broken.get(number, before[number]) for number in range(60)]
    now += [order(60, case_id="refund-in-parts"), escalates(61, case_id="refund-twice")]
    policy = GatePolicy(
        tracked=["order-010"],
        expected_fail=["order-011", "order-012"],
        max_new_error_cases=1,
        thresholds=Thresholds(min_coverage=0.95),
    )
    sides = {"ffffff": "pppppp", "ppp": "ppp", "pppf": "pppp", "fff": "fff"}
    trials = [
        fresh(*side, f"order-{number:03}", history_passed=20 - number, history_scored=20)
        for number, side in enumerate(sides.items())
    ]
    kept = record(
        *trials,
        new_cases=[
            NewCaseTrial(case_id="refund-in-parts", candidate_passed=True, base="passed"),
            NewCaseTrial(case_id="refund-twice", candidate_passed=False, base="failed"),
        ],
        expected=Spending(trials=50, minutes=8.0, cost_usd=0.9),
        spent=Spending(trials=33, minutes=5.4, cost_usd=0.61),
        base=ConfirmedSide(commit=BASE),
        baseline_manifest_sha256="cd34" * 16,
        candidate_manifest_sha256="ab12" * 16,
    )
    ways = {"candidate": {"order-020": unreachable(20)}}
    suite = decided(before, now, policy=policy, confirmation=kept, results=ways)
    passes = [
        [case not in (11, 20 - run) and (case != 12 or run > 4) for case in range(60)] for run in range(8)
    ]
    counts = [{f"order-{case:03}": (passed, 1) for case, passed in enumerate(run)} for run in passes]
    earlier = [made_run(run, cases, dataset_id="support") for run, cases in enumerate(counts)][::-1]
    own = made_run(9, {f"order-{case:03}": (case not in (*broken, 11), 1) for case in range(60)})
    history = SuiteHistory(own=own, earlier=earlier, branch="main", declared=tiers_of_policy(policy))
    return report(replace(suite, history=history, declared=tiers_of_policy(policy)))


def release() -> EvaluationReport:
    """A release that got worse, with a case in quarantine."""
    before = [order(number) for number in range(120)]
    now = [*map(escalates, range(18)), *before[18:]]
    held = [{"case_id": "order-100", "reason": "flaky", "expires_at": "2026-12-20T00:00:00Z"}]
    ways: dict[str, Any] = {"quarantined": frozenset({"order-100"})}
    return report(decided(before, now, policy=GatePolicy(preset="release", quarantine=held), **ways))


SITUATIONS: dict[str, Callable[[], EvaluationReport]] = {
    "regressions": regressions,
    "below-limit": below_limit,
    "one-worse": one_worse,
    "errors": errors,
    "withheld": withheld,
    "first-run": first_run,
    "unchanged": unchanged,
    "improved": improved,
    "trials": trials,
    "conversations": conversations,
    "suites": suites,
    "nothing-to-compare": nothing_to_compare,
    "excused": excused,
    "confirmed": confirmed,
    "release": release,
    "hostile": hostile,
}
