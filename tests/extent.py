"""How far a run of tests goes: quick for the developer who waits, full for a push, all crosses at night."""

import os
import zlib
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, NoReturn

import pytest

NIGHTLY = os.environ.get("NIGHTLY") == "true"
"""Whether each combination of a matrix runs too: `make test-nightly`."""

FULL = NIGHTLY or os.environ.get("CI") == "true"
"""Whether a push is tested, which leaves out further combinations alone: `CI=true`."""


ONE_IN = int(os.environ.get("ONE_IN", "1"))
"""Of so many tests of whole commands one is run: `make test` of a developer takes few of them."""

WHOLE_COMMANDS = ("tests/blackbox/", "tests/e2e/", "tests/real/", "tests/security/")
"""Where they lie."""


def is_in_sample(nodeid: str) -> bool:
    """Whether a test is run where only one of several whole commands is; the same ones each time."""
    return not nodeid.startswith(WHOLE_COMMANDS) or zlib.crc32(nodeid.encode()) % ONE_IN == 0


def unavailable(reason: str) -> NoReturn:
    """Skip the test for want of something that CI installs; a full run fails instead."""
    if FULL:
        pytest.fail(f"a full run must not go without: {reason}", pytrace=False)
    pytest.skip(reason)


def amount(quick: int, push: int, night: int) -> int:
    """How much of a thing that is tried at random a run tries, of the three extents."""
    return night if NIGHTLY else push if FULL else quick


def examples(number: int) -> int:
    """How many random examples a test tries that a full run tries this number of."""
    return number if FULL else max(number // 4, 5)


OTHERS = pytest.mark.cross(reason="further combinations")
"""What runs at night: another combination of what a push tests already."""

WHOLE_JOB = pytest.mark.slow(reason="further whole jobs")
"""A scenario that takes seconds, beside quicker ones of its file that every developer runs."""


def crossed(**axes: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test with every combination of values, all but a sample of them for the night.

    The sample has each value of two axes, and each pair of values of any two of more axes. It is the same in
    each run.

    Example:
        @crossed(trick=["rewrite", "delete"], layout=["compact", "files"])
        def test_no_verdict_changes(trick: str, layout: str) -> None: ...
    """
    chosen = covering([len(values) for values in axes.values()])
    rows = []
    for places in product(*(range(len(values)) for values in axes.values())):
        values = [of_axis[place] for of_axis, place in zip(axes.values(), places, strict=True)]
        rows.append(pytest.param(*values, marks=[] if places in chosen else OTHERS))
    return pytest.mark.parametrize(list(axes), rows)


def covering(sizes: Sequence[int]) -> set[tuple[int, ...]]:
    """Rows of positions in which each position of two axes occurs, or each pair of positions of more axes."""
    together = min(2, len(sizes) - 1)
    parts = {row: set(combinations(enumerate(row), together)) for row in product(*map(range, sizes))}
    missing = set().union(*parts.values())
    chosen = set()
    while missing:
        best = max(parts, key=lambda row: len(parts[row] & missing))
        missing -= parts[best]
        chosen.add(best)
    return chosen
