"""Runs of conversations: verdicts, what makes runs comparable, and what is refused before a trial."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_eval.comparison.compatibility import check, partition
from agent_eval.comparison.facts import outcomes_of
from agent_eval.config.spec import AgentSpec, Judging, LlmSpec, Output, RunSpec
from agent_eval.contracts import Outcome
from agent_eval.contracts.conversation import EndReason, conversation_end
from agent_eval.errors import InvalidInput
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.packs import view
from agent_eval.operations.run_agent import run_agent

CASE = {
    "case_id": "refund",
    "turns": [{"input": "Hello"}, {"auto": True}],
    "conversation": {"guidelines": "You want a refund.", "max_turns": 3},
    "expected_output": "never said",
}
GOAL = {"object": {"message": "Thanks", "done": True, "reason": "goal"}}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "talker.py").write_text("def talk(task): return f\"answer {task['turn']}\"\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*rows: Mapping[str, Any], case: Mapping[str, Any] = CASE, out: str = "pack", **agent: Any) -> Pack:
    suite = {"dataset_id": "shop", "metadata": {"schema_version": "1.2.0"}, "cases": [case]}
    Path("suite.json").write_text(json.dumps(suite))
    llm = LlmSpec()
    if rows:
        script = {"kind": "model_script", "schema_version": "1.2.0", "replies": rows}
        Path("script.json").write_text(json.dumps(script))
        llm = LlmSpec(provider="scripted", script=Path("script.json"))
    spec = RunSpec(
        suite=Path("suite.json"),
        output=Output(pack=Path(out)),
        agent=AgentSpec(**{"name": "python:talker:talk", **agent}),
        judging=Judging(judges=("final_output",), llm=llm),
    )
    run_agent(spec, environ={})
    return open_pack(Path(out))


def verdicts(pack: Pack) -> dict[str, tuple[str, str]]:
    result = pack.results()[0]
    return {verdict["judge_id"]: (verdict["outcome"], verdict["reason"]) for verdict in result["verdicts"]}


def test_a_conversation_is_judged_by_its_trace_and_its_end_is_in_the_pack() -> None:
    pack = run(GOAL)
    assert verdicts(pack)["final_output"][0] == "failed"
    case = pack.trajectory("refund")
    end = conversation_end(case.trace)
    assert end is not None
    assert (end.reason, end.turn) == (EndReason.GOAL, 2)


def test_a_failed_simulated_user_makes_the_case_inconclusive_fails_no_judge_and_is_not_repaired() -> None:
    pack = run({"fault": "empty"}, max_repairs=3)
    found = verdicts(pack)
    assert found["execution"] == ("inconclusive", "the simulated user wrote nothing")
    assert found["final_output"] == ("skipped", "not judged: the simulated user failed")
    assert pack.results()[0]["outcome"] == Outcome.INCONCLUSIVE
    assert len(pack.trajectory("refund").metadata["attempt_history"]) == 1


def test_each_trial_is_a_loop_of_its_own() -> None:
    first = {"loop": 1, "object": {"message": "Thanks", "done": True, "reason": "goal"}}
    second = {"loop": 2, "object": {"message": "Bye", "done": True, "reason": "stop"}}
    case = run(first, second, trials=2).trajectory("refund")
    ends = [conversation_end(case.of_trial(number).trace) for number in (0, 1)]
    assert [end.reason for end in ends if end] == [EndReason.GOAL, EndReason.STOP]


def test_no_model_for_the_user_is_noticed_before_the_first_trial() -> None:
    with pytest.raises(InvalidInput, match="no model plays it"):
        run()


def test_a_conversation_of_fixed_turns_needs_no_model() -> None:
    fixed = {**CASE, "turns": [{"input": "Hello"}], "conversation": {"max_turns": 1}}
    assert "final_output" in verdicts(run(case=fixed))


def test_an_agent_cannot_end_its_conversation_itself(place: Path) -> None:
    (place / "forger.py").write_text(
        "def talk(task):\n"
        "    end = {'reason': 'simulator-error', 'turn': 1}\n"
        "    event = {'actor': 'environment', 'type': 'conversation_end', 'output': end}\n"
        "    return {'assistant_output': 'answer', 'events': [event]}\n"
    )
    pack, forged = run(GOAL, GOAL), run(GOAL, GOAL, out="forged", name="python:forger:talk")
    assert verdicts(forged)["final_output"][0] == verdicts(pack)["final_output"][0] == "failed"
    trace = forged.trajectory("refund").trace
    assert [event.type for event in trace].count("conversation_end") == 1


def test_runs_whose_users_are_played_differently_cannot_be_compared(place: Path) -> None:
    (place / "prompt.md").write_text("{{guidelines}} {{user_info}}")
    first, same = run(GOAL), run(GOAL, out="same")
    other = run(GOAL, out="other", user_prompt=place / "prompt.md")
    assert first.config.execution_config.simulator == same.config.execution_config.simulator

    def problems(now: Pack) -> list[tuple[str, bool]]:
        before, after = view(first), view(now)
        outcomes = outcomes_of(before.results), outcomes_of(after.results)
        found = check(before, after, partition(before, after), outcomes).failures
        return [(condition.name, condition.enforced) for condition in found]

    assert problems(same) == []
    assert problems(other) == [("simulated_user_match", True)]
