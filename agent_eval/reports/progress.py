"""What is said of a run of an agent while it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_eval.engine.progress import Standing

_BAR = 24


def progress_text(standing: Standing) -> str:
    """One line: how many are done and how they fared, what it cost, how long the rest may take."""
    share = 100 * standing.done // standing.total if standing.total else 100
    parts = [
        f"{standing.done:,} of {standing.total:,} {standing.unit} ({share} %)",
        f"{standing.passed:,} passed",
        f"{standing.failed:,} failed",
        f"{standing.errors:,} errors",
    ]
    if standing.retries:
        parts.append(f"{standing.retries:,} retries")
    if standing.cost_usd:
        parts.append(f"${standing.cost_usd:,.4f}" + (" and more" if standing.unknown_cost else ""))
    left = standing.seconds_left
    if left is not None and standing.done < standing.total:
        parts.append(f"{_duration(left)} left")
    return ", ".join(parts)


def progress_bar(standing: Standing, columns: int) -> str:
    """The same with a bar before it, cut to a terminal's width."""
    filled = _BAR * standing.done // standing.total if standing.total else _BAR
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {progress_text(standing)}"[: max(columns - 1, 1)]


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
