from __future__ import annotations

from agent_eval.judges.matching.arguments import longest_repeat, message_fingerprint


def test_messages_are_the_same_whatever_the_order_of_their_keys() -> None:
    assert message_fingerprint({"a": 1, "b": [2, 3]}) == message_fingerprint({"b": [2, 3], "a": 1})
    assert message_fingerprint({"a": [1]}) != message_fingerprint({"a": [2]})
    assert message_fingerprint([1, 2]) != message_fingerprint([2, 1])


def test_the_longest_repeat_is_found_first_and_at_its_place() -> None:
    assert longest_repeat([], 3) == (0, 0, 0)
    assert longest_repeat(["a"], 3) == (1, 1, 0)
    assert longest_repeat(["a", "b", "b", "c", "c"], 3) == (2, 1, 1)
    assert longest_repeat(["x", "a", "b", "a", "b"], 3) == (2, 2, 1)
