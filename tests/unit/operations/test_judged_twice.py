"""Where definitions, judges or the case policy differ, both runs are judged by either side's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.agents.base import SHARE_EXPECTED_OUTPUT
from agent_eval.agents.tools import CASSETTE, RESPONSES
from agent_eval.contracts import Comparison
from agent_eval.errors import InvalidInput
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.procedure import Counts
from agent_eval.history.records import record_of
from agent_eval.operations.compare import compared
from agent_eval.operations.decision_material import counts_of
from agent_eval.operations.judged_twice import judge_twice
from agent_eval.storage.redaction_rules import RedactionRules
from tests.factories import make_case, make_trace
from tests.unit.operations.runs import judged


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found() -> Comparison:
    return compared(
        open_pack(Path("before")), open_pack(Path("now")), generated_at="2026-01-14T10:00:00+00:00"
    )


def counted() -> Counts:
    before, now = open_pack(Path("before")), open_pack(Path("now"))
    main = record_of(before)
    return counts_of(now, before, main=[main], newest=main)


def answer(case_id: str, output: str, *patterns: str, **fields: Any) -> dict[str, Any]:
    return make_case(case_id, output=output, regex_patterns=list(patterns), **fields)


def test_runs_that_are_judged_alike_are_not_judged_again() -> None:
    before, now = (judged(name, answer("a", "done", "done")) for name in ("before", "now"))
    assert judge_twice(before, now) is None


def test_a_case_that_passes_only_by_its_new_expectation_is_named() -> None:
    judged("before", answer("a", "done", "done"), answer("b", "done", "done"))
    judged("now", answer("a", "sorry", "."), answer("b", "done", "."))
    comparison = found()
    assert comparison.cases.judged_twice == ["a", "b"]
    assert comparison.cases.changed == []
    assert comparison.regressed_case_ids == []
    assert comparison.new_expectations == {"a": ["regex"]}


def test_a_stricter_expectation_makes_no_unchanged_agent_worse_and_a_worse_agent_is_regressed() -> None:
    judged("before", answer("a", "done", "."), answer("b", "done", "."))
    judged("now", answer("a", "done", "perfect"), answer("b", "sorry", "done"))
    comparison = found()
    assert comparison.regressed_case_ids == ["b"]
    assert comparison.new_expectations == {}
    assert comparison.metrics["pass_rate"].baseline == 0.5
    said = "The baseline's results of 2 cases are by today's definitions and judges."
    assert said in comparison.behaviour.notices


@pytest.mark.parametrize(
    "fields",
    [
        {"input": "Something else."},
        {"metadata": {RESPONSES: {"lookup": "nothing that is hostile"}}},
        {"metadata": {CASSETTE: {"lookup": ["nothing that is hostile"]}}},
        {"metadata": {"model": "larger"}},
        {"metadata": {"tools": []}},
        {"metadata": {SHARE_EXPECTED_OUTPUT: True}},
    ],
)
def test_another_input_is_another_case(fields: dict[str, Any]) -> None:
    judged("before", answer("a", "done", "done"))
    judged("now", answer("a", "done", "done", **fields))
    comparison = found()
    assert (comparison.cases.compared, comparison.cases.changed) == (0, ["a"])
    assert comparison.new_expectations == {}


def test_an_added_judge_judges_the_baseline_too() -> None:
    rules = {"policy": {"forbidden_tools": ["lookup"]}}
    judged("before", answer("a", "done", "done", **rules))
    judged("now", answer("a", "done", "done", **rules), judges=("regex", "policy"))
    comparison = found()
    assert comparison.regressed_case_ids == []
    rate = comparison.metrics["pass_rate"]
    assert (rate.baseline, rate.candidate, comparison.new_expectations) == (0.0, 0.0, {})
    counts = counted()
    assert counts.baseline is not None
    assert counts.baseline.cases["a"].failing == {"policy": 1}


def tokens(case_id: str, output_tokens: int) -> dict[str, Any]:
    case = make_case(case_id)
    case["trace"][-1]["attributes"] = {"input_tokens": 1, "output_tokens": output_tokens}
    return case


def test_a_limit_is_held_against_both_runs_by_either_configuration() -> None:
    def run(name: str, spent: int, most: int) -> None:
        configs = {"cost_budget": {"max_output_tokens": most}}
        judged(name, tokens("a", spent), tokens("b", 90), judges=("cost_budget",), configs=configs)

    run("before", 90, 100)
    run("now", 900, 1_000)
    assert found().new_expectations == {"a": ["cost_budget"]}
    run("now", 90, 10)
    assert (found().regressed_case_ids, found().new_expectations) == ([], {})


def test_a_laxer_case_policy_hides_no_trial() -> None:
    def case(*outputs: str) -> dict[str, Any]:
        others = [{"trace": make_trace("lookup", output=output)} for output in outputs[1:]]
        return answer("a", outputs[0], "done", trials=others)

    judged("before", case("done", "done", "done"))
    judged("now", case("sorry", "sorry", "done"), case_policy="any")
    comparison = found()
    assert comparison.regressed_case_ids == []
    assert comparison.new_expectations == {"a": ["regex"]}


PLUG_IN = """
from pathlib import Path
from agent_eval.judges import BaseJudge, JudgeConfig
from agent_eval.errors import FailureKind

class Config(JudgeConfig):
    strict: bool = True

class Mine(BaseJudge[Config]):
    judge_id = "mine"
    Config = Config

    def evaluate(self, case, trace):
        Path("ran").touch()
        if self.config.strict:
            return self.failed(case, "no", FailureKind.POLICY_VIOLATION)
        return self.passed(case, "yes")
"""


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    Path("mine_of_judged_twice.py").write_text(PLUG_IN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "mine_of_judged_twice:Mine"


COMMAND = ["sh", "-c", "touch ran; echo '{\"passed\": true}'"]


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(None, {}, id="a plug-in that was added"),
        pytest.param({"strict": False}, {"strict": True}, id="a plug-in that changed"),
        pytest.param({"command": COMMAND}, {"command": [*COMMAND, "x"]}, id="a command that changed"),
    ],
)
def test_no_code_that_a_pack_names_is_run_and_what_it_judges_stays_apart(
    plug_in: str, before: dict[str, Any] | None, now: dict[str, Any]
) -> None:
    judge = "command" if "command" in now else plug_in
    for name, config in (("before", before), ("now", now)):
        judges = ("regex",) if config is None else ("regex", judge)
        judged(name, answer("a", "done", "done"), judges=judges, configs={judge: config} if config else {})
    Path("ran").unlink()
    comparison = found()
    assert not Path("ran").exists()
    assert (comparison.regressed_case_ids, comparison.new_expectations) == ([], {})
    own = "mine" if judge == plug_in else "command"
    assert any("Not compared" in notice and own in notice for notice in comparison.behaviour.notices)


def test_a_changed_case_is_not_compared_where_a_plug_in_judges_it(plug_in: str) -> None:
    judged("before", answer("a", "done", "done"), judges=("regex", plug_in))
    judged("now", answer("a", "done", "."), judges=("regex", plug_in))
    assert found().cases.changed == ["a"]


def test_what_the_agent_did_stays_with_its_trace() -> None:
    """Figures in the metadata are the agent's; another figure is no other expectation."""
    spent = {"usage": {"output_tokens": 90}}, {"usage": {"output_tokens": 900}}
    config = {"cost_budget": {"max_output_tokens": 100}}
    judged("before", make_case("a", metadata=spent[0]), judges=("cost_budget",), configs=config)
    judged("now", make_case("a", metadata=spent[1]), judges=("cost_budget",), configs=config)
    comparison = found()
    assert comparison.regressed_case_ids == ["a"]
    assert comparison.cases.judged_twice == ["a"]
    assert comparison.new_expectations == {}


@pytest.mark.parametrize("is_redacted", [False, True])
def test_a_rule_for_redaction_hides_nothing_that_the_baseline_forbids(is_redacted: bool) -> None:
    def case(output: str, **schema: Any) -> dict[str, Any]:
        return make_case("a", output=f'"{output}"', json_schema={"type": "string", **schema})

    forbids = {"not": {"pattern": "leak"}}
    rules = RedactionRules(patterns=("WORD=leak",)) if is_redacted else RedactionRules()
    judged("before", case("done", **forbids), judges=("json_schema",))
    judged("now", case("leak"), judges=("json_schema",), redaction=rules)
    assert found().new_expectations == {"a": ["json_schema"]}


def test_an_error_while_a_changed_case_is_judged_is_no_case_that_cannot_be_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise InvalidInput("a verdict of another form", remedy="")

    judged("before", answer("a", "done", "."))
    judged("now", answer("a", "done", "perfect"))
    monkeypatch.setattr("agent_eval.judges.catalog.judge_case", fail)
    with pytest.raises(InvalidInput, match="of another form"):
        found()


def test_a_case_that_expects_something_else_counts_as_it_is_judged_now() -> None:
    judged("before", answer("a", "done", "."), answer("b", "done", "."))
    judged("now", answer("a", "done", "perfect"), answer("b", "done", "."))
    counts = counted()
    assert counts.baseline is not None
    assert (counts.baseline.cases["a"].passed, counts.baseline.cases["b"].passed) == (0, 1)
    assert counts.baseline.cases["a"].definition == counts.own.cases["a"].definition
    assert counts.main[0].cases["a"].passed == 1


def test_a_renamed_case_keeps_its_history() -> None:
    asks = {"input": "Refund order 7."}
    judged("before", answer("old", "done", "done", **asks), answer("b", "done", "done"))
    judged("now", answer("new", "sorry", "done", **asks), answer("b", "done", "done"))
    counts = counted()
    for run in (counts.baseline, counts.main[0], counts.newest):
        assert run is not None
        assert (sorted(run.cases), run.cases["new"].passed) == (["b", "new"], 1)
        assert run.cases["new"].definition == counts.own.cases["new"].definition


def test_two_cases_that_ask_the_same_are_matched_with_none() -> None:
    asks = {"input": "Refund order 7."}
    judged("before", answer("one", "done", "done", **asks), answer("two", "done", "done", **asks))
    judged("now", answer("three", "done", "done", **asks), answer("four", "done", "done", **asks))
    counts = counted()
    assert counts.baseline is not None
    assert sorted(counts.baseline.cases) == ["one", "two"]
