from __future__ import annotations

from pathlib import Path

from agent_eval.contracts import case_policy, trials_result
from agent_eval.operations.run_conversations import conversation_results
from tests.factories import make_config, make_pack, make_result
from tests.unit.reports.situations import conversation


def test_each_loop_has_its_own_turns_whichever_of_them_decides(tmp_path: Path) -> None:
    loops = [conversation("a", (f"Question {number}", "", f"Answer {number}")) for number in range(3)]
    case = {**loops[0], "trials": [{"trace": loop["trace"]} for loop in loops[1:]]}
    results = [make_result("a"), make_result("a", failed="policy"), make_result("a")]
    decided = trials_result(results, case_policy("all"))
    assert decided.trial == 1
    make_pack(tmp_path / "pack", [decided], cases=[case], config=make_config(), layout="compact")
    tests = conversation_results(tmp_path / "pack").tests
    assert [(test.loop, test.passed, test.turns[0].user, test.turns[0].agent) for test in tests] == [
        (1, True, "Question 0", "Answer 0"),
        (2, False, "Question 1", "Answer 1"),
        (3, True, "Question 2", "Answer 2"),
    ]
