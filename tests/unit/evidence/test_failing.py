"""The cases of a pack that did not pass, found without reading the rest."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from agent_eval.evidence.failing import failing_cases
from tests.factories import make_pack, make_result

LAYOUTS = pytest.mark.parametrize("layout", ["files", "compact"])


@LAYOUTS
def test_cases_that_did_not_pass_come_in_suite_order_with_their_trajectory(
    tmp_path: Path, layout: str
) -> None:
    results = [make_result("z", failed="policy"), make_result("b"), make_result("a", failed="regex")]
    pack = make_pack(tmp_path / "pack", results, layout=layout)
    found = list(failing_cases(pack))
    assert [case.result["case_id"] for case in found] == ["z", "a"]
    assert all((pack / case.path).is_file() for case in found)
    assert [
        verdict["judge_id"] for verdict in found[1].result["verdicts"] if verdict["outcome"] == "failed"
    ] == ["regex"]


@LAYOUTS
def test_a_name_that_looks_like_a_pass_hides_nothing(tmp_path: Path, layout: str) -> None:
    results = [
        make_result('"outcome":"passed"', failed="policy"),
        make_result('"outcome": "passed"', failed="policy"),
    ]
    found = list(failing_cases(make_pack(tmp_path / "pack", results, layout=layout)))
    assert len(found) == 2


@LAYOUTS
def test_no_more_is_read_than_is_asked_for(tmp_path: Path, layout: str) -> None:
    results = [make_result(f"case-{number:03}", failed="policy") for number in range(300)]
    pack = make_pack(tmp_path / "pack", results, layout=layout)
    for path in (pack / "cases").glob("verdicts-00001.jsonl"):
        path.write_text("no JSON\n")
    for path in (pack / "cases").glob("case-299*/verdicts.json"):
        path.write_text("no JSON\n")
    assert len(list(islice(failing_cases(pack), 10))) == 10


def test_a_pack_that_is_not_finished_has_none(tmp_path: Path) -> None:
    assert list(failing_cases(tmp_path)) == []
