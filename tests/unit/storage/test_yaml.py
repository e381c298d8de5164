"""YAML that says the same as JSON, and nothing else."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import InvalidInput
from agent_eval.storage.json import Limits
from agent_eval.storage.yaml import parse_yaml, read_yaml

LAUGHS = b"a: &a [1]\n" + b"".join(
    b"%c: &%c [%s]\n" % (name, name, b", ".join([b"*%c" % (name - 1)] * 9)) for name in b"bcdefgh"
)
"""Less than a kilobyte that says four million values and more."""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("- x\n- [1, 2.5, .5, 1e3]", ["x", [1, 2.5, 0.5, 1000.0]]),
        ("{a: null, b: ~, c: , d: Null}", {"a": None, "b": None, "c": None, "d": None}),
        ("[true, True, FALSE, yes, no, on, off]", [True, True, False, "yes", "no", "on", "off"]),
        ("[012, 0o17, 0x1F, -3, +4, 1_000, 12:30:45]", [12, 15, 31, -3, 4, "1_000", "12:30:45"]),
        ("day: 2026-01-01\nat: 2026-01-01T00:00:00Z", {"day": "2026-01-01", "at": "2026-01-01T00:00:00Z"}),
        ("['1', \"true\", !!str 1, ! 2]", ["1", "true", "1", "2"]),
        ("text: |\n  one\n  two\nfold: >\n  a\n  b\n", {"text": "one\ntwo\n", "fold": "a b\n"}),
        ("1: a\ntrue: b\nnull: c", {"1": "a", "true": "b", "null": "c"}),
        ("'<<': kept", {"<<": "kept"}),
        ("!!map {a: !!seq [1]}", {"a": [1]}),
        ("---\na: 1\n...\n", {"a": 1}),
        ("a: &x {k: [1]}\nb: *x\nc: &x 2\nd: *x", {"a": {"k": [1]}, "b": {"k": [1]}, "c": 2, "d": 2}),
        ("&n name: *n", {"name": "name"}),
        ("[18446744073709551615, -9223372036854775808]", [2**64 - 1, -(2**63)]),
        ('"\\U0001F600 ü"', "😀 ü"),
    ],
)
def test_plain_values(text: str, value: Any) -> None:
    assert parse_yaml(text.encode(), source="x.yaml") == value


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b"", "x.yaml: empty"),
        (b"# only a comment\n", "x.yaml: empty"),
        (b"a: *x", "line 1, column 4: no anchor 'x' before it"),
        (b"a: &x [*x]", "line 1, column 8: no anchor 'x' before it"),
        (LAUGHS, "line 7, column 36: aliases repeat more than is read"),
        (b"a: &x " + b"x" * 10_000_000 + b"\nb: [*x, *x]", "aliases repeat more than is read"),
        (b"a: &x " + b"[" * 60 + b"]" * 60 + b"\nb: [[[[*x]]]]", "nested deeper than 64 levels"),
        (b"a: 1\nb: 2\na: 3", "line 3, column 1: duplicate key 'a'"),
        (b"{1: a, '1': b}", "duplicate key '1'"),
        (b"<<: {a: 1}", "line 1, column 1: merge keys are not supported"),
        (b"a: .nan", "line 1, column 4: .nan is not JSON"),
        (b"a: -.Inf", "-.Inf is not JSON"),
        (b"a: 1e999", "number too large for a 64-bit float"),
        (b"a: " + b"9" * 5000, "integer outside 64 bit"),
        (b"a: 18446744073709551616", "integer outside 64 bit"),
        (b"[" * 200_000, "line 1, column 65: nested deeper than 64 levels"),
        (b"- " * 200_000, "nested deeper than 64 levels"),
        (b"a: !!python/object/apply:os.system [ls]", "tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
        (b"a: !!binary aGk=", "tag 'tag:yaml.org,2002:binary' is not supported"),
        (b"!!int 3: x", "tag 'tag:yaml.org,2002:int' is not supported"),
        (b"a: 1\n---\nb: 2", "line 2, column 1: more than one document"),
        (b"? [1]\n: 2", "a key must be text"),
        (b"a: ok\nb: \xff", "line 2: not UTF-8"),
        (b"a: ok\nb: \x00", "line 2: control characters are not allowed"),
        (b"a: [1", "line 2, column 1: did not find expected"),
        (b"a:\n\t- b", "line 2, column 1: found character that cannot start any token"),
    ],
)
def test_refusal_names_place_and_remedy(text: bytes, what: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_yaml(text, source="x.yaml")
    assert what in caught.value.message
    assert caught.value.details["file"] == "x.yaml"
    assert caught.value.remedy


def test_limits_hold() -> None:
    limits = Limits(max_bytes=10, max_depth=1)
    with pytest.raises(InvalidInput, match="11 bytes, more than the 10"):
        parse_yaml(b"a: 12345678", source="x", limits=limits)
    with pytest.raises(InvalidInput, match="nested deeper than 1 levels"):
        parse_yaml(b"a: [1]", source="x", limits=limits)


@pytest.mark.parametrize("opened", ["[", "- ", "a:\n"])
def test_the_deepest_limit_is_read_to_its_end(opened: str) -> None:
    limits = Limits(max_depth=200)
    levels = [" " * level + opened if opened == "a:\n" else opened for level in range(200)]
    text = "".join(levels) + " " * 200 + "1" + "]" * (200 if opened == "[" else 0)
    value = parse_yaml(text.encode(), source="x", limits=limits)
    for _ in range(200):
        value = value["a"] if isinstance(value, dict) else value[0]
    assert value == 1


def test_files_are_read_and_missing_ones_named(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("a: [1, b]\n")
    assert read_yaml(tmp_path / "x.yaml") == {"a": [1, "b"]}
    with pytest.raises(InvalidInput, match=r"missing\.yaml: no such file"):
        read_yaml(tmp_path / "missing.yaml")


# Numbers of YAML 1.2 that the writer, of YAML 1.1, takes for words and does not quote.
NUMBERS = re.compile(r"0o[0-7]+|[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
WORDS = st.text(
    st.characters(
        codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="\ufeff\ufffe\uffff"
    )
).filter(lambda text: not NUMBERS.fullmatch(text))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
)


@given(JSON)
def test_reads_back_what_a_yaml_writer_wrote(value: Any) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    assert parse_yaml(text.encode(), source="x") == value
