"""The wall clock and run ids, both of which can be pinned so that the same inputs give the same bytes.

`AGENT_EVAL_CLOCK` (ISO 8601 with an offset) or else `SOURCE_DATE_EPOCH` (whole seconds since 1970, UTC;
https://reproducible-builds.org/specs/source-date-epoch/) stops the clock; `AGENT_EVAL_RUN_ID` names runs
that are not named on the command line.
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
EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
CLOCK_VARIABLES = (CLOCK_VARIABLE, EPOCH_VARIABLE)
RUN_ID_VARIABLE = "AGENT_EVAL_RUN_ID"


def now(environ: Mapping[str, str]) -> datetime:
    """The time to record, with its offset, in whole seconds.

    Raises:
        UsageError: A variable that pins the clock cannot be read.
    """
    pinned = _pinned(environ)
    return (pinned if pinned is not None else datetime.now(UTC)).replace(microsecond=0)


def timestamp(environ: Mapping[str, str]) -> str:
    """`now` as ISO 8601 with its offset, such as `2026-11-21T08:00:00+00:00`."""
    return now(environ).isoformat()


def run_id(environ: Mapping[str, str]) -> str:
    """A name for a run that was given none: pinned, or made of the time and six random digits.

    With a stopped clock the name is made of the time alone, and so is pinned too.
    """
    named = environ.get(RUN_ID_VARIABLE, "").strip()
    if named:
        return named
    name = f"run-{now(environ).astimezone(UTC):%Y%m%d-%H%M%S}"
    return name if _pinned(environ) is not None else f"{name}-{secrets.token_hex(3)}"


def _pinned(environ: Mapping[str, str]) -> datetime | None:
    stated = environ.get(CLOCK_VARIABLE, "").strip()
    if stated:
        try:
            moment = datetime.fromisoformat(stated)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise UsageError(
                f"{CLOCK_VARIABLE} is not a time with an offset: {stated!r}",
                remedy="Write it as 2026-11-21T08:00:00+00:00, or unset it.",
                field=CLOCK_VARIABLE,
            )
        return moment
    epoch = environ.get(EPOCH_VARIABLE, "").strip()
    if not epoch:
        return None
    try:
        return datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{EPOCH_VARIABLE} is not a number of seconds since 1970: {epoch[:40]!r}",
            remedy="Set it to a whole number, or unset it.",
            field=EPOCH_VARIABLE,
        ) from None


def clocks(environ: Mapping[str, str]) -> Clocks:
    """The clocks that time what an agent does; where the clock is pinned, both stand still.

    Raises:
        UsageError: A variable that pins the clock cannot be read.
    """
    from agent_eval.agents.base import Clocks  # only where an agent is run

    pinned = _pinned(environ)
    if pinned is None:
        return Clocks()
    moment = pinned
    return Clocks(wall=lambda: moment, monotonic=lambda: 0.0)
