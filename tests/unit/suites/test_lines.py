"""The line of a case is found as it is written, in each format and with each kind of quotation mark."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.suites import lines
from agent_eval.suites.lines import lines_of_cases


@pytest.mark.parametrize(
    ("text", "case_id", "line"),
    [
        ('{"cases": [\n{"case_id": "a"},\n{"case_id":"b"}]}', "b", 3),
        ('{"cases": [{"case_id": "a"}, {"case_id": "b"}]}', "b", 1),
        ('{"dataset_id": "x"}\n{"input": 1, "case_id": "b"}\n', "b", 2),
        ('\n{"case_id": "caf\\u00e9 \\"x\\""}', 'café "x"', 2),
        ("cases:\n- case_id: a b\n- case_id: 'it''s'\n", "it's", 3),
        ("cases:\n- case_id: a b  # the first\n", "a b", 2),
        ("cases:\n- {case_id: b, input: x}\n", "b", 2),
        ('{"case_id": "b"}\n{"case_id": "b"}\n', "b", 1),
    ],
)
def test_the_line_of_a_case(tmp_path: Path, text: str, case_id: str, line: int) -> None:
    path = tmp_path / "suite"
    path.write_text(text)
    assert lines_of_cases(path, [case_id]) == {case_id: line}


@pytest.mark.parametrize("text", ["", "case_ids: a", '{"case_id": "\\x"}', '{"case_id": 7}', '{"case_id": "'])
def test_what_is_not_found_has_no_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "suite"
    path.write_text(text)
    assert lines_of_cases(path, ["a"]) == {}
    assert lines_of_cases(tmp_path / "missing", ["a"]) == {}
    assert lines_of_cases(path, []) == {}


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_BYTES", 10)
    path = tmp_path / "suite"
    path.write_text('{"case_id": "a"}')
    assert lines_of_cases(path, ["a"]) == {}
