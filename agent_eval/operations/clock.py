"""The wall clock and run ids. Environment variables pin both, so that the same inputs give the same bytes.

`AGENT_EVAL_CLOCK` (ISO 8601 with an offset) stops the clock; `AGENT_EVAL_RUN_ID` is the id of a run without
one on the command line.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agent_eval.errors import UsageError

if TYPE_CHECKING:
    from agent_eval.agents.base import Clocks

CLOCK_VARIABLE = "AGENT_EVAL_CLOCK"
RUN_ID_VARIABLE = "AGENT_EVAL_RUN_ID"


def now(environ: Mapping[str, str]) -> datetime:
    """Return the time to record, with its offset, in whole seconds.

    Raises:
        UsageError: A variable that pins the clock is invalid.
    """
    pinned = _pinned(environ)
    return (pinned if pinned is not None else datetime.now(UTC)).replace(microsecond=0)


def timestamp(environ: Mapping[str, str]) -> str:
    """Return `now` as ISO 8601 with its offset, such as `2026-11-21T08:00:00+00:00`."""
    return now(environ).isoformat()


def run_id(environ: Mapping[str, str]) -> str:
    """Make the id of a run without one: the pinned id, or one from the time and six random digits.

    If the clock is pinned, the id is made from the time alone, so that it is pinned too.
    """
    pinned_id = environ.get(RUN_ID_VARIABLE, "").strip()
    if pinned_id:
        return pinned_id
    name = f"run-{now(environ).astimezone(UTC):%Y%m%d-%H%M%S}"
    return name if _pinned(environ) is not None else f"{name}-{secrets.token_hex(3)}"


def pins(environ: Mapping[str, str]) -> dict[str, str]:
    """Select the variable that pins the clock, for another environment."""
    return {name: environ[name] for name in (CLOCK_VARIABLE,) if name in environ}


def _pinned(environ: Mapping[str, str]) -> datetime | None:
    text = environ.get(CLOCK_VARIABLE, "").strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment.astimezone(UTC)  # the first and the last day of the calendar are not days everywhere
    except (ValueError, OverflowError):
        moment = None
    if moment is None or moment.tzinfo is None:
        raise UsageError(
            f"{CLOCK_VARIABLE} is not a time with an offset: {text!r}",
            remedy="Write it as 2026-11-21T08:00:00+00:00, or unset it.",
            field=CLOCK_VARIABLE,
        )
    return moment


def clocks(environ: Mapping[str, str]) -> Clocks:
    """Make the clocks of a run of an agent; a pinned clock makes both constant.

    Raises:
        UsageError: A variable that pins the clock is invalid.
    """
    from agent_eval.agents.base import Clocks  # only runs of an agent need it

    pinned = _pinned(environ)
    if pinned is None:
        return Clocks()
    moment = pinned
    return Clocks(wall=lambda: moment, monotonic=lambda: 0.0)
