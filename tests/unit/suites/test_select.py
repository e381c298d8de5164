"""Running a part of a suite."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.errors import ExitCode, NothingMeasured
from agent_eval.suites.reader import SuiteSource, open_suite
from agent_eval.suites.select import select_cases, wanted_ids


def write_suite(path: Path, ids: list[str]) -> Path:
    cases = [{"case_id": case_id, "note": "kept"} for case_id in ids]
    if path.suffix == ".jsonl":
        lines = [{"dataset_id": "d"}, *cases]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        path.write_text(json.dumps({"dataset_id": "d", "cases": cases}, ensure_ascii=False))
    return path


@pytest.mark.parametrize("name", ["suite.json", "suite.jsonl", "suite.yaml"])
def test_selected_cases_keep_suite_order_file_and_unknown_fields(tmp_path: Path, name: str) -> None:
    source = open_suite(write_suite(tmp_path / name, ["a", "b/ü 💥", "c"]))
    part = select_cases(source, ["c", "a", "c"])
    assert [raw for raw, _ in part.cases()] == [
        {"case_id": "a", "note": "kept"},
        {"case_id": "c", "note": "kept"},
    ]
    assert (part.path, part.digest, part.case_count) == (source.path, source.digest, 2)
    assert part.header.dataset_id == "d"


@pytest.mark.parametrize(
    ("wanted", "missing", "remedy"),
    [
        (["other", "refund-lat"], "refund-lat", "Did you mean 'refund-late'?"),
        (["zzzzzz"], "zzzzzz", "Take the case_id from the suite."),
    ],
)
def test_an_unknown_case_is_refused_with_the_nearest_name(
    tmp_path: Path, wanted: list[str], missing: str, remedy: str
) -> None:
    source = open_suite(write_suite(tmp_path / "suite.json", ["refund-late", "other"]))
    with pytest.raises(NothingMeasured, match=missing) as refused:
        select_cases(source, wanted)
    assert refused.value.exit_code == ExitCode.WRONG_REQUEST
    assert (refused.value.remedy, refused.value.details["missing"]) == (remedy, [missing])


TAGS = {"Refund in time": ["refund", "critical"], "refund too late": ["refund"], "Cancel": [], "Other": None}


@pytest.fixture
def source(tmp_path: Path) -> SuiteSource:
    cases = [{"case_id": name, "metadata": {"tags": tags}} for name, tags in TAGS.items()]
    path = tmp_path / "suite.json"
    path.write_text(json.dumps({"dataset_id": "shop", "cases": cases}))
    return open_suite(path)


@pytest.mark.parametrize(
    ("cases", "texts", "tags", "ids"),
    [
        ((), (), (), []),
        (("Cancel",), (), (), ["Cancel"]),
        ((), ("REFUND",), (), ["Refund in time", "refund too late"]),
        ((), ("late", "canc"), (), ["refund too late", "Cancel"]),
        ((), (), ("refund",), ["Refund in time", "refund too late"]),
        ((), (), ("critical", "unknown"), ["Refund in time"]),
        ((), ("late",), ("refund",), ["refund too late"]),
        (("Cancel", "refund too late"), ("refund",), (), ["refund too late"]),
    ],
)
def test_cases_have_one_of_the_texts_and_one_of_the_tags(
    source: SuiteSource, cases: tuple[str, ...], texts: tuple[str, ...], tags: tuple[str, ...], ids: list[str]
) -> None:
    assert list(wanted_ids(source, cases, texts, tags)) == ids


@pytest.mark.parametrize(
    ("texts", "tags", "message", "remedy"),
    [
        (("Canzel",), (), "no case with a name with 'Canzel'", "Did you mean 'Cancel'?"),
        ((), ("critcal",), "no case with the tag 'critcal'",
         "Did you mean 'critical'? Its tags are critical, refund."),
        (("late",), ("critical",), "a name with 'late' and the tag 'critical'", "Its tags are"),
        ((), ("Refund",), "the tag 'Refund'", "Did you mean 'refund'?"),
    ],
)  # fmt: skip
def test_a_filter_that_leaves_nothing_is_refused(
    source: SuiteSource, texts: tuple[str, ...], tags: tuple[str, ...], message: str, remedy: str
) -> None:
    with pytest.raises(NothingMeasured) as refused:
        wanted_ids(source, (), texts, tags)
    assert message in refused.value.message
    assert remedy in str(refused.value.remedy)
