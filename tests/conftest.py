"""Fixtures that every test may use."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

# A busy machine is slow now and then; that says nothing about the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What programs keep for their user (which packs were made here) is kept for the tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare text with a golden file: `golden("comment/passed.md", text)`.

    The file lies in `golden/` beside the test. `UPDATE_GOLDEN=1` writes it instead.
    """
    directory = request.path.parent / "golden"

    def check(name: str, text: str) -> None:
        path = directory / name
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            return
        expected = path.read_bytes().decode() if path.is_file() else ""
        if text != expected:
            diff = difflib.unified_diff(
                expected.splitlines(keepends=True), text.splitlines(keepends=True), f"golden/{name}", "now"
            )
            pytest.fail(f"{''.join(diff)}\n\nUPDATE_GOLDEN=1 accepts what is there now.", pytrace=False)

    return check
