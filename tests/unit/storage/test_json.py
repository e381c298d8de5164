"""Strict JSON: what passes is what a slow, plain reader lets pass; what does not names its place."""

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_eval.errors import ExitCode, InvalidInput, StorageError
from agent_eval.storage.archive import ZipArchive
from agent_eval.storage.files import read_bytes, sha256_file
from agent_eval.storage.json import (
    DEFAULT_LIMITS,
    Limits,
    dumps,
    elements_of,
    parse,
    parse_and_encode,
    read_json,
)


class Refused(Exception):
    """The oracle refuses a text."""


def check_values(value: Any, room: int) -> None:
    """Refuse lone surrogates and nesting deeper than `room`."""
    if isinstance(value, str):
        value.encode("utf-8")
    elif isinstance(value, (dict, list)):
        if room == 0:
            raise Refused("depth")
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            check_values(item, room - 1)


def oracle(data: bytes, max_depth: int = 64) -> Any:
    """A strict reader on the standard library's hooks: slow, plain, nothing in common with ours."""

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in members}) != len(members):
            raise Refused("duplicate key")
        return dict(members)

    def integer(text: str) -> int:
        if len(text) > 30 or not -(2**63) <= int(text) < 2**64:
            raise Refused("integer")
        return int(text)

    def number(text: str) -> float:
        if not math.isfinite(float(text)):
            raise Refused("infinite")
        return float(text)

    def constant(text: str) -> None:
        raise Refused(text)

    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=pairs, parse_int=integer, parse_float=number,
            parse_constant=constant,
        )  # fmt: skip
        check_values(value, max_depth)
    except ValueError as error:
        raise Refused(str(error)) from error
    return value


KEYS = st.sampled_from(['"a"', '"b"', '"\\u0061"', '":"', '"\\u003a"', '"\\u003A"', '"a:b"', '""', '"\\""'])
STRINGS = st.one_of(
    st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.text(max_size=8).map(json.dumps),
    st.sampled_from(
        ['"[{"', '"]}"', '"\\\\"', '"12345678901234567890123"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\u00"']
    ),
)
NUMBERS = st.one_of(
    st.integers(-(2**66), 2**66).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        (
            *("0", "-0", "1e5", "1E-5", "1e999", "-1e999", "01", "1.", "-", "1e-9999", "NaN", "Infinity"),
            *("9" * 19, "-" + "9" * 19, "9" * 20, "9" * 400, "1" + "0" * 25 + ".5", "-Infinity"),
            *("18446744073709551615", "-9223372036854775808", "-9223372036854775809"),
            "0.12345678901234567890123",
        )
    ),
)
SPACE = st.sampled_from(["", " ", "\n", "\t\r\n"])


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(KEYS, SPACE, inner).map(lambda parts: f"{parts[0]}{parts[1]}:{parts[2]}")
    return st.one_of(
        st.lists(inner, max_size=4).map(lambda items: "[" + ",".join(items) + "]"),
        st.tuples(SPACE, st.lists(members, max_size=4)).map(
            lambda parts: "{" + parts[0] + ",".join(parts[1]) + "}"
        ),
    )


TEXTS = st.recursive(st.one_of(STRINGS, NUMBERS, st.sampled_from(["null", "true", "false"])), containers)
DEPTHS = st.integers(60, 70).flatmap(
    lambda depth: st.sampled_from(["[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth])
)


def with_array(parts: tuple[str, ...]) -> str:
    """An object with a member of any name, an array as `a`, and another member, in either order."""
    space, name, value, *items = parts
    members = [f"{space}{name}{space}:{space}{value}{space}", f'"a":{space}[{space}{",".join(items)}{space}]']
    return "{" + ",".join(members if space else members[::-1]) + "}"


ARRAYS = st.lists(TEXTS | DEPTHS, max_size=3).flatmap(
    lambda items: st.tuples(SPACE, KEYS, TEXTS, *map(st.just, items)).map(with_array)
)


@st.composite
def damaged(draw: st.DrawFn, texts: st.SearchStrategy[str] = TEXTS) -> bytes:
    """A text with a byte changed, added or cut off."""
    data = draw(texts).encode("utf-8", "surrogatepass")
    position = draw(st.integers(0, len(data)))
    added = draw(st.sampled_from([b"", b","]) | st.binary(min_size=1, max_size=2))
    rest = data[position:] if added else draw(st.sampled_from([data[position + 1 :], b""]))
    return data[:position] + added + rest


def agrees_with_the_oracle(data: bytes) -> None:
    try:
        expected = oracle(data)
    except Refused:
        with pytest.raises(InvalidInput) as caught:
            parse(data, source="x.json")
        details = caught.value.details
        assert details["remedy"]
        assert 1 <= details["line"] <= data.count(b"\n") + 1
        assert details["column"] >= 1
    else:
        value, encoded = parse_and_encode(data, source="x.json")
        assert value == expected == parse(data, source="x.json")
        assert json.dumps(value, sort_keys=True) == json.dumps(orjson.loads(encoded), sort_keys=True)
        assert encoded == dumps(value)


@given(st.tuples(SPACE, TEXTS | DEPTHS, SPACE).map("".join))
def test_accepts_and_refuses_what_the_oracle_does(text: str) -> None:
    agrees_with_the_oracle(text.encode("utf-8", "surrogatepass"))


@given(damaged())
def test_accepts_and_refuses_damaged_texts_as_the_oracle_does(data: bytes) -> None:
    agrees_with_the_oracle(data)


@given((TEXTS | ARRAYS).map(lambda text: text.encode("utf-8", "surrogatepass")) | damaged(ARRAYS))
@example(b'{"a":[1;2]}')
@example(b'{"a":[1,]}')
@example(b'{"a":[,1]}')
@example(b'{"a":[1],"a":[]}')
def test_an_array_read_element_by_element_is_that_of_the_whole_text(data: bytes) -> None:
    parts = elements_of(data, "a")
    try:
        value = oracle(data)
    except Refused:
        for rest, places in [parts] if parts else []:
            with pytest.raises(InvalidInput):
                (
                    parse(rest, source="x"),
                    [parse(data[at], source="x", limits=Limits(max_depth=62)) for at in places],
                )
        return
    if parts is None:
        assert not (isinstance(value, dict) and isinstance(value.get("a"), list))
    else:
        rest, places = parts
        elements = [parse(data[at], source="x", limits=Limits(max_depth=62)) for at in places]
        assert {**parse(rest, source="x"), "a": elements} == value


@given(TEXTS | DEPTHS)
def test_long_texts_are_held_to_the_same_rules(text: str) -> None:
    agrees_with_the_oracle(f'["{"x" * 4096}",{text}]'.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    ("data", "what", "line", "column"),
    [
        (b"", "empty", 1, 1),
        (b" \n ", "empty", 1, 1),
        (b'{"a": 1,\n "b": [1, 2', "the text ends before the JSON value does", 2, 12),
        (b'{"a": "no end', "the text ends inside a string", 1, 14),
        (b'{"a": 1,\n "a": 2}', 'duplicate key "a"', 2, 2),
        (b'{"a": {"b": 1, "\\u0062": "\\u003a"}}', 'duplicate key "b"', 1, 16),
        (b'{"rate": NaN}', "NaN is not JSON", 1, 10),
        (b"[1,\n-Infinity]", "-Infinity is not JSON", 2, 1),
        (b"[1e999]", "number too large for a 64-bit float", 1, 2),
        (b'{"n": ' + b"9" * 5000 + b"}", "integer outside 64 bit", 1, 7),
        (b"[-9223372036854775809]", "integer outside 64 bit", 1, 2),
        (b"[" * 200_000, "nested deeper than 64 levels", 1, 65),
        (b'{"a":' * 200_000, "nested deeper than 64 levels", 1, 321),
        (b'["\\ud800"]', "lone surrogate in a string", 1, 2),
        (b'["ok",\n"\xff"]', "not UTF-8", 2, 2),
        (b"\xef\xbb\xbf{}", "starts with a byte order mark", 1, 1),
        (b"{} {}", "more text after the end of the JSON value", 1, 4),
        (b'["tab\there"]', "control character in a string", 1, 6),
        (b'["\\x1b rest"]', "invalid escape in a string", 1, 3),
        (b'["\\u12', "the text ends inside a string", 1, 7),
        (b"[1 2]", "expected ',' or ']'", 1, 4),
        (b'{"a" 1}', "expected ':'", 1, 6),
        (b"{a: 1}", "expected a key in double quotes", 1, 2),
        (b"[nil]", "expected a value", 1, 2),
        (b'{"a": 1 "b"}', "expected ',' or '}'", 1, 9),
        (b"[1, ]", "expected a value", 1, 5),
        (b'{"a": 1,\n}', "expected a key in double quotes", 2, 1),
        (b'{"a": {}, "b": [{}', "the text ends before the JSON value does", 1, 19),
        (b'["\\u00e9', "the text ends inside a string", 1, 9),
        (b'[0, "' + b"9" * 30, "the text ends inside a string", 1, 36),
    ],
)
def test_refusal_names_file_place_and_remedy(data: bytes, what: str, line: int, column: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(data, source="suite.json")
    error = caught.value
    assert error.message == f"suite.json: line {line}, column {column}: {what}"
    assert (error.details["file"], error.details["line"], error.details["column"]) == (
        "suite.json", line, column,
    )  # fmt: skip
    assert error.remedy
    assert error.exit_code is ExitCode.WRONG_REQUEST


def test_lines_count_from_where_the_text_stands_in_its_file() -> None:
    with pytest.raises(InvalidInput, match=r"suite\.jsonl: line 7, column 2: "):
        parse(b"[NaN]", source="suite.jsonl", first_line=7)


def test_long_keys_are_cut_in_the_message() -> None:
    key = b'"' + b"k" * 500 + b'"'
    with pytest.raises(InvalidInput) as caught:
        parse(b"{" + key + b":1," + key + b":2}", source="x.json")
    assert len(caught.value.message) < 200


def test_depth_limit_is_exact_and_configurable() -> None:
    three = Limits(max_depth=3)
    assert parse(b"[[[1]]]", source="x", limits=three) == [[[1]]]
    with pytest.raises(InvalidInput, match="nested deeper than 3 levels"):
        parse(b"[[[[1]]]]", source="x", limits=three)
    with pytest.raises(InvalidInput, match="nested deeper than 3 levels"):
        parse(b'[[[["' + b"x" * 5000 + b'"]]]]', source="x", limits=three)
    with pytest.raises(ValueError, match="max_depth"):
        Limits(max_depth=1000)


def test_size_limit_is_exact() -> None:
    assert parse(b"[1]", source="x", limits=Limits(max_bytes=3)) == [1]
    with pytest.raises(InvalidInput, match="4 bytes, more than the 3"):
        parse(b"[12]", source="x", limits=Limits(max_bytes=3))


DIGITS = ("a" + "1" * 30, "ref:" + "2" * 25 + "x" + "3" * 25, "-" * 3 + "4" * 20)


@pytest.mark.parametrize(
    "value",
    [
        {"a": "[" * 100, "b": "{" * 5000},
        {"sha256": "a" + "7" * 40 + "b", "more": ["e-" + "0" * 25, "n -" + "1" * 19]},
        *({"pad": "x" * 5000, "id": [text, text]} for text in DIGITS),
    ],
    ids=["brackets", "digests", *DIGITS],
)
def test_brackets_and_digits_within_a_text_are_neither_nesting_nor_numbers(value: Any) -> None:
    for data in (dumps(value), json.dumps(value).encode()):  # the latter is not as it would be written
        assert parse(data, source="x") == value


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.json", "no such file"), ("folder", "is a directory"), ("empty.json", "empty"),
        ("empty.json/below", "Not a directory"), ("n" * 300, "File name too long"),
        ("nul\0byte", "null byte"), ("loop", "symbolic links"),
    ],
)  # fmt: skip
def test_unreadable_files_are_named_with_a_remedy(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.json").write_bytes(b"")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InvalidInput, match=message) as caught:
        read_json(tmp_path / name)
    assert str(tmp_path / name) in caught.value.message
    assert caught.value.remedy


def test_files_without_read_permission_are_refused(unprivileged: Path) -> None:
    path = unprivileged / "x.json"
    path.write_bytes(b"{}")
    path.chmod(0)
    with pytest.raises(InvalidInput, match="not readable"):
        read_json(path)


def test_a_disk_that_fails_is_no_fault_of_the_input() -> None:
    # Nothing is mapped at address 0, so the kernel answers as a broken disk would.
    with pytest.raises(StorageError, match="put/output error") as caught:
        read_bytes(Path("/proc/self/mem"), max_bytes=100)
    assert caught.value.exit_code is ExitCode.NOT_EVALUABLE


@contextmanager
def piped(data: bytes) -> Iterator[Path]:
    reading, writing = os.pipe()
    try:
        os.write(writing, data)
        os.close(writing)
        yield Path(f"/dev/fd/{reading}")
    finally:
        os.close(reading)


def test_size_limit_holds_for_files_and_pipes(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"[1234]")
    with pytest.raises(InvalidInput, match="at least 6 bytes, more than the 5"):
        read_bytes(path, max_bytes=5)
    with piped(b"x" * 6) as pipe, pytest.raises(InvalidInput, match="at least 6 bytes"):
        read_bytes(pipe, max_bytes=5)
    with piped(b"[1]") as pipe:
        assert read_json(pipe, limits=DEFAULT_LIMITS) == [1], "to its end"


@pytest.mark.parametrize("read", [read_json, sha256_file, lambda path: ZipArchive(path, source="x")])
def test_pipes_by_name_and_devices_are_refused_without_waiting_for_them(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, said in ((tmp_path / "pipe", "is a pipe"), (Path("/dev/zero"), "not a regular file")):
        with pytest.raises(InvalidInput, match=said) as caught:
            read(path)
        assert caught.value.remedy


def test_what_is_refused_is_not_left_open(tmp_path: Path) -> None:
    lowest = os.dup(0)
    os.close(lowest)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InvalidInput):
            read_json(path)
    again = os.dup(0)
    os.close(again)
    assert again == lowest


# JSON as it is written: the same bytes for the same value.

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def test_keys_are_sorted_on_one_line_or_indented_for_people() -> None:
    assert dumps({"b": 1, "a": ["ü", None]}) == '{"a":["ü",null],"b":1}'.encode()
    assert dumps({"b": 1, "a": []}, indent=True) == b'{\n  "a": [],\n  "b": 1\n}\n'
    with pytest.raises(TypeError):
        dumps({"a": object()})


@given(VALUES, st.booleans())
def test_what_is_written_reads_back_the_same(value: Any, indent: bool) -> None:
    assert parse(dumps(value, indent=indent), source="x") == value
