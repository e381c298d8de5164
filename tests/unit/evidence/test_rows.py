"""Rows of packs: checked whichever rows came before them, built when asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.contracts import CaseResult
from agent_eval.errors import InvalidPack
from agent_eval.evidence.reader import open_pack
from agent_eval.evidence.rows import ResultChecker, contradiction
from agent_eval.storage.json import dumps
from tests.factories import make_case, make_config, make_index_row, make_pack, make_result, make_verdict, seal
from tests.unit.comparison.views import tried
from tests.unit.evidence.test_writer import LAYOUTS

OLD = ("case_policy", "trials")
"""Fields that results did not have before cases could have several trials."""


def row(case_id: str, *, without: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    result = {**make_result(case_id).to_json(), **fields}
    return {name: value for name, value in result.items() if name not in without}


def test_results_of_an_older_version_are_read() -> None:
    checker = ResultChecker("pack")
    checker.check(row("a", without=OLD), "v.jsonl")
    checker.check(row("b"), "v.jsonl")
    assert checker.tally().cases["passed"] == 2


@pytest.mark.parametrize(
    ("malformed", "problem"),
    [
        (row("b", without=("verdicts",)), "case 2 in it: verdicts: Field required"),
        (row("b", without=(*OLD, "outcome")), "outcome: Field required"),
        (row("b", without=OLD, passed="yes"), "passed: Input should be a valid boolean"),
        (row("b", without=OLD[:1], trials=7), "trials: Input should be a valid list"),
        (row("b", passed=False), "outcome 'passed' does not follow from its verdicts"),
        ({**row("c"), "case_id": "a"}, "belongs to another case"),
        ([], "Input should be a valid dictionary"),
        (7, "Input should be a valid dictionary"),
    ],
)
def test_a_malformed_result_after_one_of_an_older_version_is_refused(malformed: Any, problem: str) -> None:
    checker = ResultChecker("pack")
    checker.check(row("a", without=OLD), "v.jsonl")
    with pytest.raises(InvalidPack, match=problem):
        checker.check(malformed, "v.jsonl", 2)


@pytest.mark.parametrize(
    ("trials", "number", "problem"),
    [
        # Up to 0.1 the policy decided however many trials were errors, so that trial 2 may decide as well.
        (("error", "error", "passed"), 0, None),
        (("error", "error", "passed"), 2, None),
        (("error", "error", "passed"), 1, "trial 1 does not decide it, by any trial 0 does"),
        # A trial that is lost decides nothing while another was scored.
        (("lost", "lost", "passed"), 2, None),
        (("lost", "lost", "passed"), 0, "trial 0 does not decide it, by all trial 2 does"),
    ],
)
def test_a_trial_decides_as_it_says(trials: tuple[str, ...], number: int, problem: str | None) -> None:
    is_old = "error" in trials
    case = tried("a", *trials, policy="any" if is_old else "all").to_json()
    for result in (case, *case["trials"]):
        result["fault"] = result.get("fault")
        if is_old:
            del result["fault"]
    row = case | case["trials"][number] | {"trial": number}
    assert contradiction(row) == problem  # type: ignore[arg-type]


@pytest.mark.parametrize("stated", ["judge", "agent", "environment", "weather"])
def test_a_fault_that_does_not_follow_from_the_verdicts_is_refused(stated: str) -> None:
    lost = tried("a", "lost").to_json() | {"fault": stated}
    with pytest.raises(InvalidPack, match=f"fault '{stated}' does not follow from its verdicts"):
        ResultChecker("pack").check(lost, "v.json")


SOUND = dumps(row("c"))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (SOUND[:-1], "line 3, column"),
        (SOUND.replace(b'"c"', b'"c\xff"'), "line 3, column"),
        (SOUND.replace(b'"c"', b'"\x01"'), "line 3, column"),
        (b"", "line 3, column"),
        (SOUND.replace(b'"passed":true', b'"passed":false', 1), "case 3 in it"),
    ],
    ids=range(5),
)
def test_a_broken_line_is_named(tmp_path: Path, broken: bytes, message: str) -> None:
    root = make_pack(tmp_path / "p", [make_result(name) for name in "abcd"], layout="compact")
    file = root / "cases/verdicts-00000.jsonl"
    first, second, _, last = file.read_bytes().splitlines()
    file.write_bytes(b"\n".join([first, second, broken, last, b""]))
    seal(root, make_config(), layout="compact", case_ids=list("abcd"))
    with pytest.raises(InvalidPack, match=message) as caught:
        open_pack(root)
    assert caught.value.details["file"] == "cases/verdicts-00000.jsonl"


def told_apart(case_id: str) -> CaseResult:
    """A result whose reason no other case has."""
    result = make_result(case_id)
    verdicts = [make_verdict(case_id, "policy", reason=f"took {case_id} steps"), *result.verdicts]
    verdicts.pop(3)
    return result.model_copy(update={"verdicts": verdicts})


@LAYOUTS
def test_rows_are_those_of_the_files_in_order_and_by_id(tmp_path: Path, layout: str) -> None:
    results = [make_result("b"), told_apart("a"), make_result("c"), make_result('d"', failed="regex")]
    cases = [make_case(result.case_id, "lookup", "buy") for result in results]
    pack = open_pack(make_pack(tmp_path / "p", results, cases=cases, layout=layout, shard=2))
    said = [result.to_json() for result in results]
    index = [json.loads(dumps(make_index_row(case))) for case in cases]
    for rows, by_id, expected in (
        (pack.results(), pack.results_by_id(), said),
        (pack.index(), pack.index_by_id(), index),
    ):
        assert list(rows) == expected  # type: ignore[comparison-overlap]
        assert dict(by_id) == {row["case_id"]: row for row in expected}  # type: ignore[comparison-overlap]
        assert (list(by_id), len(by_id)) == (["b", "a", "c", 'd"'], 4)
        assert by_id.keys() - {"a", "b"} == {"c", 'd"'}
        assert "a" in by_id
        assert "e" not in by_id
        with pytest.raises(KeyError):
            by_id["e"]
    # Shards are read again in any order.
    assert [pack.results()[position]["case_id"] for position in (3, 0, 2, 1)] == ['d"', "b", "c", "a"]


def test_rows_are_a_sequence_and_a_changed_row_changes_no_pack(tmp_path: Path) -> None:
    pack = open_pack(make_pack(tmp_path / "p", [make_result(name) for name in "abcd"]))
    rows = pack.results()
    assert len(rows) == 4
    assert (rows[1]["case_id"], rows[-1]["case_id"]) == ("b", "d")
    assert [row["case_id"] for row in rows[1:3]] == ["b", "c"]
    with pytest.raises(IndexError):
        rows[4]
    assert rows == list(rows) == pack.results()
    assert rows != list(rows)[:3]
    assert rows != 4
    assert repr(rows) == "Rows of 4 cases"
    rows[0]["outcome"] = "failed"
    pack.index()[0]["calls"].clear()
    assert rows[0]["outcome"] == "passed"
    assert pack.index()[0]["calls"]
