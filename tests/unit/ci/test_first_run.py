"""The first run of each suite, and the evidence that stands in for it."""

from __future__ import annotations

import pytest

from agent_eval.ci import first_run
from agent_eval.ci.first_run import ProgressLines
from agent_eval.engine.progress import RunProgress


def test_progress__is_said_when_it_is_time_to(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    lines = ProgressLines("orders.json", said.append)
    lines(RunProgress(4, done=1, passed=1))
    assert said == []
    monkeypatch.setattr(first_run, "SECONDS_BETWEEN_LINES", 0.0)
    lines(RunProgress(4, done=2, passed=1, errors=1))
    assert said == ["orders.json: 2 of 4 trials (50 %), 1 passed, 0 failed, 1 error"]
