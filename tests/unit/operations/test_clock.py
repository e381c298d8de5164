"""The recorded time and the run's name, free and pinned."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from agent_eval.errors import ExitCode, UsageError
from agent_eval.operations import clock


def test_time__free_clock_is_now_with_an_offset() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    stated = datetime.fromisoformat(clock.timestamp({}))
    assert before <= stated <= datetime.now(UTC)
    assert stated.tzinfo is not None


def test_time__is_pinned_by_a_variable() -> None:
    pinned = {"AGENT_EVAL_CLOCK": "2026-03-01T12:00:00.5+02:00"}
    assert clock.timestamp(pinned) == "2026-03-01T12:00:00+02:00"


@pytest.mark.parametrize("value", ["yesterday", "2026-03-01T00:00:00", "86400", "0001-01-01T00:00:00+05:00"])
def test_time__an_unreadable_pin_is_refused_by_name(value: str) -> None:
    with pytest.raises(UsageError, match="AGENT_EVAL_CLOCK") as refused:
        clock.timestamp({"AGENT_EVAL_CLOCK": value})
    assert refused.value.exit_code == ExitCode.WRONG_REQUEST
    assert refused.value.remedy


def test_run_id__two_free_runs_differ() -> None:
    assert clock.run_id({}) != clock.run_id({})
    assert re.fullmatch(r"run-\d{8}-\d{6}-[0-9a-f]{6}", clock.run_id({}))


@pytest.mark.parametrize(
    ("variable", "value", "run_id"),
    [
        ("AGENT_EVAL_RUN_ID", " nightly ", "nightly"),
        ("AGENT_EVAL_CLOCK", "2026-03-01T01:02:03+02:00", "run-20260228-230203"),
    ],
)
def test_run_id__pinned_by_its_variable_or_by_a_stopped_clock_in_utc(
    variable: str, value: str, run_id: str
) -> None:
    assert clock.run_id({variable: value}) == run_id
