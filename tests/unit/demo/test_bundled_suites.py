"""The bundled suites of conversations, against what the demonstration's agents know."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import Case, Event, Trace
from agent_eval.contracts.conversation import FORWARDING
from agent_eval.demo.agents import BUNDLED, Answer, Session, domains_by_agent
from agent_eval.judges.builtin.strict import StrictJudge
from agent_eval.suites.reader import open_suite
from agent_eval.suites.validate import validate_suite

SUITES = sorted(
    path for folder in ("Demo Agents", "Quack Agents") for path in (BUNDLED / folder).rglob("*.json")
)
EXAMPLE = Path(__file__).parents[2] / "fixtures" / "aui" / "specification-example.json"
"""The example of the format's specification, for which the demonstration has an agent as well."""


def names(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(BUNDLED)) for path in paths]


def recorded(answer: Answer) -> dict[str, Any]:
    """Write an answer as an AUI agent of the first generation reports it."""
    rules = [{"type": "rule_triggered", "rule": {"code": code}} for code in answer.rules]
    calls = [
        {"type": "call_integration", "integration": {"code": code, "type": "REST", "status_code": 200}}
        for code in answer.integrations
    ]
    return {
        "executed_workflows": answer.workflows,
        "trace_info": {
            "context": {},
            "understanding": {"extracted_params": answer.params},
            "decisions": [*rules, *calls],
            "response": {"type": "error" if answer.is_error else "answer", "message": answer.text},
        },
    }


def agent_said(idx: int, answer: Answer, turn: int | None = None) -> Event:
    said = {"actor": "agent", "type": "message", "output": answer.text, "turn": turn}
    return Event(idx=idx, **said, attributes={"aui": recorded(answer)})


def conversation(case: Case, agent_id: str) -> Trace:
    """Say the fixed messages of a case, until the first that is simulated or the end of the conversation."""
    assert case.conversation is not None
    session, events = Session(domains_by_agent()[agent_id]), list[Event]()
    for number, turn in enumerate(case.turns, start=1):
        if turn.auto:
            break
        answer = session.answer(turn.input, case.conversation.user_info)
        events.append(Event(idx=len(events), actor="user", type="message", output=turn.input, turn=number))
        events.append(agent_said(len(events), answer, number))
        if answer.is_error or FORWARDING in answer.workflows:
            break
    return Trace(events)


@pytest.mark.parametrize("path", SUITES, ids=names(SUITES))
def test_a_bundled_suite_is_valid_and_realistic(path: Path) -> None:
    report = validate_suite(path)
    assert report.errors == []
    assert report.warnings == []
    cases = [case for _, case in open_suite(path).cases()]
    assert len(cases) >= 6
    for case in cases:
        assert case.metadata["tags"]
        assert case.metadata["strict"]
        assert case.metadata["llm"]
        evaluations = [*case.metadata["strict"], *case.metadata["llm"]]
        assert all("category" in evaluation for evaluation in evaluations)
        assert case.conversation is not None
        assert case.conversation.guidelines
        assert any(turn.auto for turn in case.turns)
    logic = [rule for case in cases for each in case.metadata["strict"] for rule in each.get("aui_logic", [])]
    assert len(set(logic)) >= 3


@pytest.mark.parametrize("path", SUITES, ids=names(SUITES))
def test_an_agent_that_knows_nothing_fails_in_every_test(path: Path) -> None:
    session = Session(domains_by_agent()["demo-hr"].model_copy(update={"steps": []}))
    trace = Trace([agent_said(0, session.answer("Hello", {}))])
    for _, case in open_suite(path).cases():
        assert not StrictJudge().evaluate(case, trace).passed, case.case_id


def test_every_domain_is_that_of_a_suite() -> None:
    agents = {open_suite(path).header.metadata["agent_id"] for path in [*SUITES, EXAMPLE]}
    assert agents == set(domains_by_agent())
    assert len(agents) == len(list((BUNDLED / "domains").glob("*.json")))


def test_every_step_of_a_domain_answers_a_message_of_its_suites() -> None:
    answers: dict[str, set[str]] = {}
    for path in [*SUITES, EXAMPLE]:
        suite = open_suite(path)
        agent_id = suite.header.metadata["agent_id"]
        for _, case in suite.cases():
            given = {str(event.output) for event in conversation(case, agent_id) if event.is_agent}
            answers.setdefault(agent_id, set()).update(given)
    for agent_id, given in answers.items():
        steps = domains_by_agent()[agent_id].steps
        unused = [step.reply for step in steps if not any(_may_be(step.reply, text) for text in given)]
        assert unused == [], agent_id


def _may_be(reply: str, text: str) -> bool:
    """Tell whether a text is a reply with the values of variables filled in."""
    return re.fullmatch(re.sub(r"\\{\w+\\}", ".*", re.escape(reply)), text) is not None


def test_no_two_suites_have_the_same_name() -> None:
    names = [open_suite(path).header.dataset_id for path in SUITES]
    assert len(names) == len(set(names))
