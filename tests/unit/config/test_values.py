"""What the text of an option means, and what is refused, in which words."""

from __future__ import annotations

from typing import Any

import pytest

from agent_eval.config.options import Kind, Option
from agent_eval.config.project_file import ProjectFile
from agent_eval.config.table import ROWS
from agent_eval.config.values import WrongValue, parse, texts_of
from tests.unit.config.samples import sample


def option(kind: Kind, **more: Any) -> Option:
    return Option("name", kind, "Help.", goes_to="name", commands=("run",), **more)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("share", "0", 0.0),
        ("share", "1", 1.0),
        ("share", "5e-1", 0.5),
        ("amount", "1e9", 1e9),
        ("amount", "5e-324", 5e-324),
        ("count", "0", 0),
        ("count", "9" * 18, 10**18 - 1),
        ("integer", "1", 1),
        ("seed", str(-(2**63)), -(2**63)),
        ("seed", str(2**63 - 1), 2**63 - 1),
        ("parallel", "256", 256),
        ("switch", "Yes", True),
        ("switch", "OFF", False),
        ("url", "HTTP://host", "HTTP://host"),
        ("lines", "a\n\n b,c ", ("a", "b,c")),
        ("list", "a, b\nc,,", ("a", "b", "c")),
        ("variables", "A,B\nC", ("A", "B", "C")),
        ("headers", "X-Key = KEY\nY=OTHER", (("X-Key", "KEY"), ("Y", "OTHER"))),
    ],
)
def test_a_text_means_a_value(kind: Kind, text: str, value: Any) -> None:
    assert parse(option(kind), text) == value


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("text", "bell\x07", "can be printed"),
        ("share", "90%", "from 0 to 1"),
        ("share", "1.0001", "from 0 to 1"),
        ("share", "-0.1", "from 0 to 1"),
        ("share", "nan", "from 0 to 1"),
        ("amount", "0", "above 0"),
        ("amount", "inf", "above 0"),
        ("amount", "nan", "above 0"),
        ("amount", "1.1e9", "above 0"),
        ("count", "-1", "a whole number from 0"),
        ("count", "1.5", "a whole number from 0"),
        ("count", "1_000", "a whole number from 0"),
        ("count", "9" * 19, "a whole number from 0"),
        ("integer", "0", "a whole number from 1"),
        ("integer", "٣", "a whole number from 1"),
        ("seed", "--1", "64 bits"),
        ("seed", str(2**63), "64 bits"),
        ("seed", str(-(2**63) - 1), "64 bits"),
        ("seed", "9" * 400, "64 bits"),
        ("parallel", "0", "from 1 to 256"),
        ("parallel", "257", "from 1 to 256"),
        ("parallel", "many", "auto or"),
        ("switch", "perhaps", "true or false"),
        ("url", "openai:model", "such as https://host/path"),
        ("list", "one,t\x07wo", "can be printed"),
        ("variables", "GOOD,BAD=1", "name of an environment variable"),
        ("variables", "TWO WORDS", "name of an environment variable"),
        ("headers", "Authorization", "NAME=VARIABLE"),
        ("headers", "=VARIABLE", "NAME=VARIABLE"),
        ("headers", "X=Bearer abc", "NAME=VARIABLE"),
    ],
)
def test_what_is_no_value_is_refused_in_words(kind: Kind, text: str, wanted: str) -> None:
    with pytest.raises(WrongValue) as caught:
        parse(option(kind), text)
    assert wanted in caught.value.wanted


@pytest.mark.parametrize(
    ("kind", "text", "may_be_shown"),
    [
        ("share", "90%", True),
        ("url", "ftp://host", True),
        ("url", "ftp://user:hunter2@host", False),
        ("secret", "hunter2\x07", False),
        ("variables", "KEY=hunter2", False),
        ("headers", "Authorization: hunter2", False),
    ],
)
def test_what_may_be_a_secret_is_not_repeated(kind: Kind, text: str, may_be_shown: bool) -> None:
    with pytest.raises(WrongValue) as caught:
        parse(option(kind), text)
    assert caught.value.may_be_shown is may_be_shown
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "is_within"), [("0.001", True), ("604800", True), ("604801", False), ("0", False)]
)
def test_bounds_of_a_row_are_kept_and_named(text: str, is_within: bool) -> None:
    timed = option("amount", unit="seconds", bounds=(0.001, 604800.0))
    if is_within:
        assert parse(timed, text) == float(text)
        return
    with pytest.raises(WrongValue, match=r"from 0\.001 to 604800"):
        parse(timed, text)


def test_whole_numbers_name_both_bounds() -> None:
    with pytest.raises(WrongValue, match="a whole number from 1 to 1000"):
        parse(option("integer", bounds=(1, 1000)), "1001")


def test_a_choice_is_one_of_its_words() -> None:
    colours = option("choice", choices=("red", "blue"))
    assert parse(colours, "blue") == "blue"
    with pytest.raises(WrongValue, match="red or blue"):
        parse(colours, "green")


@pytest.mark.parametrize(
    "kind", ["text", "path", "share", "amount", "count", "seed", "parallel", "list", "headers"]
)
def test_texts_of_a_value_are_read_as_that_value(kind: Kind) -> None:
    chosen = option(kind)
    _, value = sample(chosen)
    assert parse(chosen, "\n".join(texts_of(chosen, value))) == value


@pytest.mark.parametrize(
    ("fields", "example"), [({}, "0.95"), ({"default": "0.05"}, "0.05"), ({"default": "0"}, "0.05")]
)
def test_the_example_of_a_share_suits_the_option(fields: dict[str, Any], example: str) -> None:
    with pytest.raises(WrongValue) as caught:
        parse(option("share", **fields), "5")
    assert caught.value.wanted == f"a number from 0 to 1, such as {example}"


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        ("openai:small", {"provider": "openai", "llm-model": "small"}),
        (
            "openai:small@http://localhost:8000/v1",
            {"provider": "openai", "llm-model": "small", "llm-base-url": "http://localhost:8000/v1"},
        ),
        ("anthropic", {"provider": "anthropic"}),
        ("scripted:script.json", {"provider": "scripted", "llm-script": "script.json"}),
        ("small", {"llm-model": "small"}),
    ],
)
def test_a_model_that_judges_is_named_with_its_provider_or_either_alone(
    model: str, meant: dict[str, str]
) -> None:
    assert ProjectFile.stated((), (), model, ROWS) == meant
    assert ProjectFile.stated([f"judge_model.model={model}"], (), None, ROWS) == meant
