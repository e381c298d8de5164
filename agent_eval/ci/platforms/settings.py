"""The settings of a job that its platform reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.config.options import Option


@dataclass(frozen=True, kw_only=True)
class PlatformSettings:
    """The inputs that every platform has, and the values of those that only some have.

    Example:
        >>> settings = PlatformSettings(
        ...     comment_id="default", baseline_artifact="evidence", out=Path("agent-eval-out"), own={}
        ... )
        >>> settings.comment_id
        'default'

    Attributes:
        comment_id: The evaluation whose comment is written.
        baseline_artifact: Name under which the evidence is found again.
        report_run_id: The run whose evidence is reported on; None where the job evaluates.
        out: The output directory of the job.
        own: Values of the rows of every platform, by field; each platform reads its own.
    """

    comment_id: str
    baseline_artifact: str
    report_run_id: int | None = None
    out: Path
    own: Mapping[str, Any] = field(repr=False)

    def values_of(self, rows: tuple[Option, ...]) -> dict[str, Any]:
        """Select the values of one platform's rows, by field."""
        return {row.field: self.own[row.field] for row in rows}
