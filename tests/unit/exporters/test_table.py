"""A pack as CSV: a row for each verdict of each trial, and nothing that a spreadsheet runs."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.contracts import CaseResult
from agent_eval.evidence.reader import open_pack
from agent_eval.exporters.table import COLUMNS, cell, csv_lines
from tests.factories import make_case, make_config, make_judged, make_pack, make_result


def exported(pack: Path) -> list[dict[str, str]]:
    text = "".join(csv_lines(open_pack(pack)))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert all(list(row) == list(COLUMNS) for row in rows)
    return rows


def test_every_verdict_is_a_row(tmp_path: Path) -> None:
    rows = exported(make_pack(tmp_path / "p", [make_result("a"), make_result("b", failed="policy")]))
    assert len(rows) == 12
    (failed,) = [row for row in rows if row["passed"] == "false"]
    assert (failed["case_id"], failed["judge_id"], failed["outcome"], failed["score"]) == (
        "b", "policy", "failed", "0.0",
    )  # fmt: skip
    assert failed["failure"] == "policy_violation"
    assert {row["case_input_tokens"] for row in rows} == {""}


def of_policy(root: Path, result: CaseResult, case: dict[str, Any]) -> list[dict[str, str]]:
    """The rows of one judge of a pack of one case."""
    pack = make_pack(root / "p", [result], cases=[case], config=make_config(judges=["policy"]))
    return [row for row in exported(pack) if row["judge_id"] == "policy"]


def test_every_trial_has_its_rows_and_one_of_them_decides(tmp_path: Path) -> None:
    result = make_judged("a", "failed", "passed")
    rows = of_policy(tmp_path, result, make_case("a", trials=[{"trace": make_case("a")["trace"]}]))
    assert [(row["trial"], row["outcome"], row["decides"]) for row in rows] == [
        ("0", "failed", "false"),
        ("1", "passed", "true"),
    ]


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\ufeff=1", "\uff1d1", "|cmd", "\u200b=1"],
)
def test_a_text_that_a_spreadsheet_might_run_begins_with_an_apostrophe(text: str) -> None:
    assert str(cell(text)).startswith("'")


@pytest.mark.parametrize("text", ["It is -5 degrees", "a=b", "", "'=1", "Refunded."])
def test_other_texts_are_as_they_are(text: str) -> None:
    assert cell(text) == text


@given(reason=st.text(), case_id=st.text(min_size=1, max_size=20))
def test_hostile_text_stays_in_its_cell(
    tmp_path_factory: pytest.TempPathFactory, reason: str, case_id: str
) -> None:
    result = make_judged(case_id, "failed", reason=reason)
    (row,) = of_policy(tmp_path_factory.mktemp("p"), result, make_case(case_id))
    assert row["reason"].removeprefix("'") == reason.replace("\0", "\ufffd").removeprefix("'")
    assert row["case_id"].removeprefix("'") == case_id.replace("\0", "\ufffd").removeprefix("'")
