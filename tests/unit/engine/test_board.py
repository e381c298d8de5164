"""The board on which workers show what they do."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest

from agent_eval.engine.board import Board


@pytest.fixture
def board() -> Iterator[Board]:
    board = Board(3)
    yield board
    board.close()


def test_places_are_taken_once_and_free_again_when_given_back(board: Board) -> None:
    first, second = board.take(2), board.take(1)
    assert sorted(first + second) == [0, 1, 2]
    board.note(first[0], 7)
    board.give_back(first)
    assert sorted(board.take(2)) == sorted(first)
    assert board.at(first[0]) is None


def test_what_is_done_at_a_place_is_seen_with_its_time(board: Board) -> None:
    assert [board.at(place) for place in range(3)] == [None, None, None]
    before = time.monotonic()
    board.note(0, 0)
    board.note(2, 2**40, 30.0)
    trial, attempt = board.at(0), board.at(2)
    assert trial is not None
    assert attempt is not None
    assert (trial.number, trial.until) == (0, math.inf)
    assert attempt.number == 2**40
    assert attempt.until - attempt.began == pytest.approx(30.0)
    assert before <= attempt.began <= time.monotonic()
    board.note(2, None)
    assert board.at(2) is None
    assert board.at(1) is None


def test_an_interruption_is_seen(board: Board) -> None:
    board.note(0, 1)
    assert not board.interrupted
    board.interrupt()
    assert board.interrupted
    assert board.at(0) is not None
