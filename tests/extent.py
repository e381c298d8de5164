"""How far a run of the tests goes: quick for the developer who waits for it, full with `CI=true`."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

FULL = os.environ.get("CI") == "true"
"""Whether nothing may be left out: `CI=true`, which `make test-all` sets too."""


def unavailable(reason: str) -> NoReturn:
    """Skip the test for want of something that CI installs; a full run fails instead."""
    if FULL:
        pytest.fail(f"a full run must not go without: {reason}", pytrace=False)
    pytest.skip(reason)
