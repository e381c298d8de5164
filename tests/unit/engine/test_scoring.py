"""Score a suite: the same pack every time, and only an error if it cannot be scored."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import SHARD_CASES, Outcome
from agent_eval.engine import JudgePlan, shard
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import InvalidInput, NotEvaluable
from agent_eval.suites.reader import SuiteSource
from tests.extent import crossed
from tests.unit.engine.conftest import MakeSuite, Score, case

PLUGINS = "tests.unit.engine.plugins"


def plan(name: str) -> JudgePlan:
    return JudgePlan((f"{PLUGINS}:{name}",))


def contents(root: Path) -> dict[str, bytes]:
    return {at.relative_to(root).as_posix(): at.read_bytes() for at in root.rglob("*") if at.is_file()}


@crossed(layout=["files", "compact"], name=["suite.jsonl", "suite.json"])
def test_scoring_again_gives_the_same_bytes(
    score: Score, make_suite: MakeSuite, out: Path, layout: Any, name: str
) -> None:
    suite = make_suite(2 * SHARD_CASES + 17, name)
    for place in (out, out.with_name("again")):
        score(suite, place=place, layout=layout)
    assert contents(out) == contents(out.with_name("again"))
    assert len(contents(out)) > 5


BROKEN: list[tuple[dict[int, Any], str]] = [
    ({5: '{"case_id": "x"'}, "line 7, "),
    ({400: {"case_id": 3}, 900: "garbage"}, "line 402: cases[400]: case_id must be a string, not 3"),
    ({900: {"case_id": "c0"}}, 'case_id "c0" occurs twice: lines 2 and 902'),
    ({300: {"case_id": "c0"}, 700: "garbage"}, "lines 2 and 302"),
    ({300: "garbage", 700: {"case_id": "c0"}}, "line 302, column 1"),
    ({300: {"case_id": "c299"}, 301: {}}, "lines 301 and 302"),
    ({260: {"case_id": "x", "regex_patterns": ["("]}}, "line 262: case"),
    ({260: {"case_id": "c1", "regex_patterns": ["("]}}, "lines 3 and 262"),
]


@pytest.mark.parametrize("problem", BROKEN)
def test_first_problem_in_suite_order_is_the_error(
    score: Score, out: Path, problem: tuple[dict[int, Any], str]
) -> None:
    changes, message = problem
    cases: list[Any] = [case(f"c{number}") for number in range(1000)]
    for position, broken in changes.items():
        cases[position] = broken
    with pytest.raises(InvalidInput) as caught:
        score(cases, JudgePlan(("policy", "regex")), layout="compact")
    assert message in caught.value.message
    assert caught.value.details["file"] in caught.value.message
    assert caught.value.details["line"] == min(changes) + 2
    assert list(out.parent.iterdir()) == []


def test_case_that_cannot_be_judged_is_named_with_its_field(score: Score, make_suite: MakeSuite) -> None:
    suite = make_suite([case("a"), case("b", json_schema={"type": 7})], "suite.json")
    with pytest.raises(InvalidInput) as caught:
        score(suite, JudgePlan(("json_schema",)))
    assert caught.value.message.startswith(f'{suite.path}: case "b": json_schema')
    assert {"case_id": "b", "field": "json_schema", "position": 1}.items() <= caught.value.details.items()


def test_plug_ins_can_be_forbidden(score: Score) -> None:
    forbidden = JudgePlan((f"{PLUGINS}:Plain",), allow_plugins=False)
    with pytest.raises(InvalidInput):
        score(1, forbidden)


def test_verdict_that_json_cannot_hold_is_an_error_of_its_judge(score: Score, out: Path) -> None:
    summary = score(3, plan("NotJson"), layout="compact")
    assert (summary.error_cases, summary.passed_cases) == (1, 2)
    results = [json.loads(line) for line in (out / "cases/verdicts-00000.jsonl").read_text().splitlines()]
    assert results[1]["outcome"] == Outcome.ERROR.value
    (verdict,) = [found for found in results[1]["verdicts"] if found["judge_id"] == "not_json"]
    assert verdict["failure"] == "judge_error"
    assert "not JSON" in verdict["reason"]


@pytest.mark.parametrize("name", ["suite.json", "suite.jsonl"])
def test_evidence_is_what_was_read_not_what_a_judge_left_of_it(
    score: Score, make_suite: MakeSuite, out: Path, name: str
) -> None:
    suite = make_suite(2, name)
    score(suite, plan("Plain"), layout="compact")
    meddled = out.with_name("meddled")
    score(suite, plan("Meddling"), place=meddled, layout="compact")
    for path in ("run/index.jsonl", "cases/trajectories-00000.jsonl"):
        assert (out / path).read_bytes() == (meddled / path).read_bytes()


def test_verdict_that_cannot_be_read_is_an_error_of_its_judge(score: Score) -> None:
    summary = score(3, plan("Poisoned"))
    assert (summary.error_cases, summary.judge_counts["poisoned"].error) == (3, 3)


def test_out_of_memory_is_not_evaluable(score: Score, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def index_row(*case: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(shard, "index_row", index_row)
    with pytest.raises(NotEvaluable, match="out of memory while scoring cases 0 to 2"):
        score(3)
    assert list(out.parent.iterdir()) == []


def test_progress_counts_up_to_all(score: Score, make_suite: MakeSuite) -> None:
    seen: list[RunProgress] = []
    suite = make_suite(4 * SHARD_CASES + 1)
    score(suite, layout="compact", on_progress=seen.append)
    done = [progress.done for progress in seen]
    assert done == sorted(done)
    last, total = seen[-1], 4 * SHARD_CASES + 1
    assert (last.done, last.total, last.unit, last.errors) == (total, total, "cases", 0)
    assert last.failed == len(range(3, total, 7))


def test_suite_that_changes_meanwhile_is_not_evaluated(score: Score, make_suite: MakeSuite) -> None:
    suite = make_suite(3)
    changed: SuiteSource = make_suite(4)
    assert changed.path == suite.path
    with pytest.raises(NotEvaluable, match="changed while"):
        score(suite)
