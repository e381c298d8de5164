"""Choosing cases by texts in their names and by their tags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.errors import NothingMeasured
from agent_eval.suites.filters import wanted_ids
from agent_eval.suites.reader import SuiteSource, open_suite

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
        (
            (),
            ("critcal",),
            "no case with the tag 'critcal'",
            "Did you mean 'critical'? Its tags are critical, refund.",
        ),
        (("late",), ("critical",), "a name with 'late' and the tag 'critical'", "Its tags are"),
        ((), ("Refund",), "the tag 'Refund'", "Did you mean 'refund'?"),
    ],
)
def test_a_filter_that_leaves_nothing_is_refused(
    source: SuiteSource, texts: tuple[str, ...], tags: tuple[str, ...], message: str, remedy: str
) -> None:
    with pytest.raises(NothingMeasured) as refused:
        wanted_ids(source, (), texts, tags)
    assert message in refused.value.message
    assert remedy in str(refused.value.remedy)
