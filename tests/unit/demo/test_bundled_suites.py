"""The bundled suites of conversations, against what the demonstration's agents know."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent_eval.contracts import Case, Event, Trace
from agent_eval.contracts.conversation import FORWARDING
from agent_eval.demo.agents import BUNDLED, Session, domains_by_agent
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


def answers(case: Case, agent_id: str) -> list[str]:
    """Say the fixed messages of a case, until the first that is simulated or the end of the conversation."""
    assert case.conversation is not None
    session, texts = Session(domains_by_agent()[agent_id]), list[str]()
    for turn in case.turns:
        if turn.auto:
            break
        answer = session.answer(turn.input, case.conversation.user_info)
        texts.append(answer.text)
        if answer.is_error or FORWARDING in answer.workflows:
            break
    return texts


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
    trace_info = {"context": {}, "understanding": {"extracted_params": {}}, "decisions": [], "response": {}}
    knows_nothing = {"aui": {"executed_workflows": [], "trace_info": trace_info}}
    said = {"actor": "agent", "type": "message", "output": "I do not know.", "attributes": knows_nothing}
    trace = Trace([Event(idx=0, **said)])
    for _, case in open_suite(path).cases():
        assert not StrictJudge().evaluate(case, trace).passed, case.case_id


def test_every_domain_is_that_of_a_suite() -> None:
    agents = {open_suite(path).header.metadata["agent_id"] for path in [*SUITES, EXAMPLE]}
    assert agents == set(domains_by_agent())
    assert len(agents) == len(list((BUNDLED / "domains").glob("*.json")))


def test_every_step_of_a_domain_answers_a_message_of_its_suites() -> None:
    texts: dict[str, set[str]] = {}
    for path in [*SUITES, EXAMPLE]:
        suite = open_suite(path)
        agent_id = suite.header.metadata["agent_id"]
        for _, case in suite.cases():
            texts.setdefault(agent_id, set()).update(answers(case, agent_id))
    for agent_id, given in texts.items():
        steps = domains_by_agent()[agent_id].steps
        unused = [step.reply for step in steps if not any(_may_be(step.reply, text) for text in given)]
        assert unused == [], agent_id


def _may_be(reply: str, text: str) -> bool:
    """Tell whether a text is a reply with the values of variables filled in."""
    return re.fullmatch(re.sub(r"\\{\w+\\}", ".*", re.escape(reply)), text) is not None


def test_no_two_suites_have_the_same_name() -> None:
    names = [open_suite(path).header.dataset_id for path in SUITES]
    assert len(names) == len(set(names))
