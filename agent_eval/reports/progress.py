"""What is said of a run of an agent while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_eval.text.plurals import count

if TYPE_CHECKING:
    from agent_eval.engine.progress import Standing

_BAR = 24


def progress_text(standing: Standing) -> str:
    """One line: how many are done and how they fared, what it cost, how long the rest may take."""
    share = 100 * standing.done // standing.total if standing.total else 100
    done = f"{standing.done:,} of {standing.total:,} {standing.unit} ({share} %)"
    return ", ".join([done, *_fared(standing), *_cost(standing, " and more"), *_left(standing)])


def progress_bar(standing: Standing, columns: int) -> str:
    """The same with a bar before it, for a terminal's width: a narrow one gets fewer words, then no bar."""
    filled = _BAR * standing.done // standing.total if standing.total else _BAR
    bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] "
    short = ", ".join(
        [f"{standing.done:,}/{standing.total:,}", *_fared(standing), *_cost(standing, "+"), *_left(standing)]
    )
    lines = (bar + progress_text(standing), bar + short, short)
    return next((line for line in lines if len(line) < columns), short)[: max(columns - 1, 1)]


def _fared(standing: Standing) -> list[str]:
    parts = [f"{standing.passed:,} passed", f"{standing.failed:,} failed", count(standing.errors, "error")]
    return [*parts, count(standing.retries, "retry", "retries")] if standing.retries else parts


def _cost(standing: Standing, more: str) -> list[str]:
    if not standing.cost_usd:
        return []
    return [f"${standing.cost_usd:,.4f}{more if standing.unknown_cost else ''}"]


def _left(standing: Standing) -> list[str]:
    left = standing.seconds_left
    return [] if left is None or standing.done >= standing.total else [f"{_duration(left)} left"]


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
