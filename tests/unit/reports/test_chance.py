"""What the first lines call more than chance: only what the gate's own test of it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_eval.reports.headline import Headline
from agent_eval.reports.standing import Voice

from agent_eval.contracts import GateStatus
from agent_eval.reports.decision import sureness
from agent_eval.reports.model import SuiteReport
from tests.unit.gate.test_topics import SPREAD_NOISE, TOPIC, compared, decided
from tests.unit.reports import scenarios, situations

VOICE = Voice(code="`{}`".format, prose=str)


def topic_that_fell(trials: int = 1) -> SuiteReport:
    """Nine of topic 3's cases broke, and one each of `0-0` and `9-0`; as a whole that could be chance."""
    comparison = compared({*TOPIC, "0-0", "9-0"}, noise=SPREAD_NOISE, trials=trials)
    return SuiteReport(
        slug="support",
        suite_path="",
        decision=decided(comparison),
        candidate=comparison.candidate,
        comparison=comparison,
    )


@pytest.mark.parametrize(("trials", "how"), [(1, "regressed"), (4, "pass less often")])
def test_a_topic_alone_does_not_make_all_cases_more_than_chance_explains(trials: int, how: str) -> None:
    suite = topic_that_fell(trials)
    assert suite.status is GateStatus.FAILED
    assert Headline(suite, VOICE).what_happened == (
        f"11 of 100 cases regressed. Of 10 cases about `3` 9 {how}, more than chance explains."
    )


def test_cases_of_the_topic_that_fell_are_the_first_examples() -> None:
    suite = topic_that_fell()
    assert {row.case_id for row in suite.worse[:9]} == TOPIC
    assert suite.causes[0].cases[0].case_id in TOPIC
    assert [row.case_id for row in suite.worse[9:]] == ["0-0", "9-0"]


def test_the_fold_says_how_much_of_the_suite_is_beyond_chance() -> None:
    title = sureness(topic_that_fell().decision)
    assert title.startswith("More than chance explains in 1 topic; all cases: p = 0.")


def test_a_judge_alone_does_not_make_all_cases_more_than_chance_explains() -> None:
    before = [situations.order(number) for number in range(40)]
    suite = situations.decided(before, [*map(situations.escalates, range(12)), *before[12:]])
    evidence = suite.decision.evidence
    assert evidence is not None
    assert Headline(suite, VOICE).what_happened == "12 of 40 cases regressed, more than chance explains."
    judges = [judge.model_copy(update={"significant": False}) for judge in evidence.judges]
    judges.append(judges[0].model_copy(update={"judge_id": "tone", "significant": True}))
    decision = suite.decision.model_copy(update={"evidence": evidence.model_copy(update={"judges": judges})})
    assert Headline(replace(suite, decision=decision), VOICE).what_happened == (
        "12 of 40 cases regressed. "
        "`tone` objects to 12 cases that it passed before, more than chance explains."
    )
    assert sureness(decision).startswith("More than chance explains by 1 judge; all cases: p under 0.001")


def test_no_report_without_a_test_speaks_of_chance() -> None:
    assert "chance" not in Headline(scenarios.regressed_suite(), VOICE).what_happened
