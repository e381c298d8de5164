from __future__ import annotations

from itertools import combinations, permutations

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.judges.matching.tool_calls import pair_in_any_order, pair_in_order, pair_in_place

matrices = st.integers(0, 5).flatmap(
    lambda columns: st.lists(st.lists(st.booleans(), min_size=columns, max_size=columns), max_size=5).map(
        lambda rows: (rows, columns)
    )
)


def best(rows: list[list[bool]], columns: int, *, ordered: bool) -> int:
    """The largest number of pairs, by trying every choice."""
    arrange = combinations if ordered else permutations
    for size in range(min(len(rows), columns), 0, -1):
        for chosen in combinations(range(len(rows)), size):
            for partners in arrange(range(columns), size):
                if all(rows[i][j] for i, j in zip(chosen, partners, strict=True)):
                    return size
    return 0


@given(matrices)
def test_any_order_finds_as_many_pairs_as_there_can_be(matrix: tuple[list[list[bool]], int]) -> None:
    rows, columns = matrix
    pairs = pair_in_any_order(len(rows), columns, lambda i, j: rows[i][j])
    assert len(pairs) == best(rows, columns, ordered=False)
    assert len(set(pairs.values())) == len(pairs)
    assert all(rows[i][j] for i, j in pairs.items())


@given(matrices)
def test_in_order_finds_as_many_pairs_as_order_allows(matrix: tuple[list[list[bool]], int]) -> None:
    rows, columns = matrix
    pairs = pair_in_order(len(rows), columns, lambda i, j: rows[i][j])
    assert len(pairs) == best(rows, columns, ordered=True)
    assert list(pairs.values()) == sorted(set(pairs.values()))
    assert list(pairs) == sorted(pairs)
    assert all(rows[i][j] for i, j in pairs.items())


def test_in_place_pairs_equal_positions_only() -> None:
    assert pair_in_place(3, 2, lambda i, j: i == j) == {0: 0, 1: 1}


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=4))
def test_pairs_in_order_are_as_many_as_possible(fit: list[list[bool]]) -> None:
    pairs = pair_in_order(len(fit), 3, lambda i, j: fit[i][j])
    assert all(fit[i][j] for i, j in pairs.items())
    assert list(pairs) == sorted(pairs)
    assert list(pairs.values()) == sorted(set(pairs.values()))

    def most(i: int, j: int) -> int:
        if i == len(fit) or j == 3:
            return 0
        return max(most(i + 1, j), most(i, j + 1), (1 + most(i + 1, j + 1)) if fit[i][j] else 0)

    assert len(pairs) == most(0, 0)
