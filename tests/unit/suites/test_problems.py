"""What is wrong with a suite, in words: also for rules and values that nobody has thought of yet."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from agent_eval.suites.problems import Problem, json_path, problems_of, short_json


class Limited(BaseModel):
    """A contract with a rule of which suites have none."""

    count: int = Field(gt=0)
    inner: dict[str, int] = Field(default_factory=dict)


def problems(value: Any) -> list[tuple[str, str, str]]:
    with pytest.raises(ValidationError) as caught:
        Limited.model_validate(value)
    return problems_of(caught.value, value)


def test_a_rule_without_words_of_its_own_is_told_in_those_of_the_validation() -> None:
    assert problems({"count": -1}) == [
        ("count", "count: Input should be greater than 0, not -1", "Correct count.")
    ]


def test_every_field_has_its_path() -> None:
    found = problems({"inner": {"a key": []}})
    assert [field for field, _, _ in found] == ["count", 'inner["a key"]']
    assert found[0] == ("count", "count is missing", "Add count.")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ("x" * 500, '"' + "x" * 58 + "…"),
        (2**70, "int"),
        (object(), "object"),
    ],
)
def test_values_are_shown_short_whatever_they_are(value: Any, text: str) -> None:
    assert short_json(value)[: len(text)] == text
    assert len(short_json(value)) <= 100


@pytest.mark.parametrize(
    ("location", "path"),
    [([], ""), (["trace", 3, "idx"], "trace[3].idx"), ([0], "[0]"), (["a b", "c"], '["a b"].c')],
)
def test_paths_read_like_those_of_javascript(location: list[str | int], path: str) -> None:
    assert json_path(location) == path


def test_a_problem_says_where_it_stands() -> None:
    assert Problem("m", "r").place == "$"
    assert Problem("m", "r", field="dataset_id").place == "$.dataset_id"
    assert Problem("m", "r", field='["a b"]', position=2).place == '$.cases[2]["a b"]'
