from __future__ import annotations

import pytest

from agent_eval.text.numbers import count, of_all, verb


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0 cases fail"), (1, "1 case fails"), (2, "2 cases fail"), (12_000, "12,000 cases fail")],
)
def test_noun_and_verb_go_with_the_number(number, said):
    assert f"{count(number, 'case')} {verb(number, 'fails', 'fail')}" == said


def test_a_plural_may_be_irregular():
    assert (count(1, "entry", "entries"), count(2, "entry", "entries")) == ("1 entry", "2 entries")


@pytest.mark.parametrize(
    ("number", "total", "said"),
    [(0, 1, "0 of 1 cases"), (1, 1, "1 of 1 cases"), (1, 2_000, "1 of 2,000 cases")],
)
def test_a_share_is_of_several(number, total, said):
    assert of_all(number, total, "case") == said
