"""What a gate's policy means where it says nothing, and points in time that say something."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from agent_eval.contracts import TrialCount
from agent_eval.contracts.base import instant, is_over
from agent_eval.contracts.policy import GatePolicy


@pytest.mark.parametrize(
    ("stated", "margin", "is_release"),
    [
        ({}, 0.05, False),
        ({"preset": "release"}, 0.02, True),
        ({"preset": "release", "margin": 0.1}, 0.1, True),
    ],
)
def test_a_preset_fills_in_what_is_left_out(stated: dict[str, Any], margin: float, is_release: bool) -> None:
    policy = GatePolicy.model_validate(stated)
    assert (policy.effective_margin, policy.is_release) == (margin, is_release)


NOW = datetime(2026, 1, 14, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expires_at", "over"),
    [
        (None, False),
        ("2026-01-14T10:00:01+00:00", False),
        ("2026-01-14T10:00:00Z", True),
        ("2026-01-14T11:00:00+02:00", True),
        ("2026-12-01T00:00:00", True),  # of no offset, so of no point in time
        ("soon", True),
    ],
)
def test_what_has_run_out_or_cannot_be_read_excuses_nothing(expires_at: str | None, over: bool) -> None:
    assert is_over(expires_at, NOW) is over


@pytest.mark.parametrize(
    ("text", "moment"),
    [*dict.fromkeys(
         ("20260114T100000Z", "2026-W03-3T10:00:00+00:00", "2026-01-14 10:00Z", "2026-01-14T10:00:00Z"),
         NOW).items(),
     *dict.fromkeys(("2026-01-14T10:00:00", "1768384800", "2026-01-14", "10:00:00Z", "")).items()],
)  # fmt: skip
def test_a_point_in_time_is_one_of_iso_8601_with_its_offset(text: str, moment: datetime | None) -> None:
    if moment is not None:
        assert instant(text) == moment
        return
    with pytest.raises(ValueError, match=r"has no offset|write a time of ISO 8601"):
        instant(text)


def test_trials_that_were_not_judged_neither_passed_nor_failed() -> None:
    assert TrialCount(passed=1, failed=1, judged=3).judged == 3
    with pytest.raises(ValidationError, match="more trials passed and failed"):
        TrialCount(passed=2, failed=2, judged=3)
