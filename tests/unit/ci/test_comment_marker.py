from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_eval.ci.comment import Marker

markers = st.builds(
    Marker,
    comment_id=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    sha=st.none() | st.from_regex(r"[0-9a-f]{40}", fullmatch=True),
    run_id=st.integers(0, 10**18 - 1),
    attempt=st.integers(0, 10**9 - 1),
)


@given(markers, st.text())
def test_marker__is_read_back_from_the_start_of_a_body(marker: Marker, rest: str) -> None:
    assert marker.read(f"{marker}\n{rest}") == marker
    assert marker.read(f" {marker}") is None


@given(markers, markers)
def test_marker__of_another_evaluation_is_not_read(one: Marker, other: Marker) -> None:
    expected = other if one.comment_id == other.comment_id else None
    assert one.read(str(other)) == expected
