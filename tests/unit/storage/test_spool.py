"""Temporary storage: byte strings by number, numbers by key."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_eval.storage.spool import KeyIndex, Spool
from tests.extent import examples

KEYS = st.one_of(st.integers(0, 3), st.sampled_from([-(2**63), 2**63 - 1, 1 << 24, -1]))


@settings(max_examples=examples(200), deadline=None)
@given(entries=st.lists(st.tuples(KEYS, st.integers(0, 9)), max_size=30), asked=KEYS)
def test_an_index_finds_what_was_added(entries: list[tuple[int, int]], asked: int) -> None:
    with KeyIndex() as index:
        for key, number in entries:
            index.add(key, number)
        expected = sorted({number for key, number in entries if key == asked})
        assert index.numbers(asked) == expected
        assert index.last(asked) == (expected[-1] if expected else None)


@settings(max_examples=examples(200), deadline=None)
@given(keys=st.lists(KEYS, max_size=30))
def test_the_first_number_of_a_key_stays(keys: list[int]) -> None:
    first: dict[int, int] = {}
    with KeyIndex() as index:
        for number, key in enumerate(keys):
            assert index.setdefault(key, number) == first.setdefault(key, number)
        assert {key: index.numbers(key) for key in first} == {key: [number] for key, number in first.items()}


def test_an_index_that_was_cleared_is_empty() -> None:
    index = KeyIndex()
    index.add(7, 1)
    index.clear()
    assert (index.numbers(7), index.last(7)) == ([], None)


def test_what_was_stored_is_read_back_by_number_and_more_can_follow() -> None:
    with Spool() as stored:
        for data in (b"first", b"", b"third"):
            stored.append(data)
        assert stored[2] == b"third"
        assert stored.append(b"fourth") == 3
        assert list(stored) == [b"first", b"", b"third", b"fourth"]
