"""The recorded time and the run's name, free and pinned."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.errors import ExitCode, UsageError
from agent_eval.operations import clock


def test_time__free_clock_is_now_with_an_offset() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    stated = datetime.fromisoformat(clock.timestamp({}))
    assert before <= stated <= datetime.now(UTC)
    assert stated.tzinfo is not None


@pytest.mark.parametrize(
    ("environ", "time"),
    [
        ({"AGENT_EVAL_CLOCK": "2026-03-01T12:00:00.5+02:00"}, "2026-03-01T12:00:00+02:00"),
        ({"SOURCE_DATE_EPOCH": "86400"}, "1970-01-02T00:00:00+00:00"),
        (
            {"AGENT_EVAL_CLOCK": "2026-03-01T00:00:00+00:00", "SOURCE_DATE_EPOCH": "0"},
            "2026-03-01T00:00:00+00:00",
        ),
    ],
)
def test_time__pinned_by_the_tools_own_variable_before_that_of_reproducible_builds(
    environ: dict[str, str], time: str
) -> None:
    assert clock.timestamp(environ) == time


@given(st.integers(min_value=0, max_value=253_402_300_799))
def test_time__every_second_until_the_year_9999_can_be_pinned(seconds: int) -> None:
    stated = datetime.fromisoformat(clock.timestamp({"SOURCE_DATE_EPOCH": str(seconds)}))
    assert stated - datetime(1970, 1, 1, tzinfo=UTC) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("AGENT_EVAL_CLOCK", "yesterday"),
        ("AGENT_EVAL_CLOCK", "2026-03-01T00:00:00"),
        ("SOURCE_DATE_EPOCH", "soon"),
        ("SOURCE_DATE_EPOCH", "9" * 30),
        ("SOURCE_DATE_EPOCH", "1e3"),
    ],
)
def test_time__an_unreadable_pin_is_refused_by_name(variable: str, value: str) -> None:
    with pytest.raises(UsageError, match=variable) as refused:
        clock.timestamp({variable: value})
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
