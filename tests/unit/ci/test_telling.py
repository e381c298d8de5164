from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agent_eval.ci.baseline import age_in_words
from agent_eval.ci.settings import Settings, gather, settings_from
from agent_eval.ci.telling import exit_code
from agent_eval.errors import ExitCode

NOW = datetime(2026, 1, 14, 10, tzinfo=UTC)


def settings(**flags: str) -> Settings:
    return settings_from(gather({"suite": "s", **flags}, {}, None))


@pytest.mark.parametrize(
    ("outcome", "gate", "never"),
    [
        ("passed", 0, 0),
        ("failed", 1, 0),
        ("inconclusive", 3, 0),
        ("no-baseline", 0, 0),
        ("error", 4, 4),
    ],
)
def test_exit_code(outcome: str, gate: int, never: int) -> None:
    assert exit_code(outcome, settings()) == gate
    assert exit_code(outcome, settings(**{"fail-on": "never"})) == never
    assert isinstance(exit_code(outcome, settings()), ExitCode)


@pytest.mark.parametrize(
    ("created_at", "said"),
    [
        ("2026-01-12T09:00:00Z", "2 days"),
        ("2026-01-13T10:00:00Z", "1 day"),
        ("2026-01-14T08:59:00+00:00", "1 hour"),
        ("2026-01-14T09:10:00", "50 minutes"),
        ("2026-01-14T09:59:30Z", "less than a minute"),
        ("2027-01-14T09:59:30Z", "less than a minute"),
        ("yesterday", None),
        (None, None),
    ],
)
def test_age_in_words(created_at: str | None, said: str | None) -> None:
    assert age_in_words(created_at, NOW) == said
