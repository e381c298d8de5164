"""`gate`: decide on a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.comparison.gate import decide, parse_thresholds
from agent_eval.contracts import Comparison, GateDecision, GateStatus, Thresholds
from agent_eval.errors import ExitCode, InvalidInput, UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.runs import clock
from agent_eval.runs.artifacts import read_comparison
from agent_eval.runs.run import read_settings
from agent_eval.storage.json_writer import dumps

DECISION_NAME = "gate_decision.json"
"""The decision's file name, beside the comparison it was made on."""

_EXIT_CODES = {
    GateStatus.PASSED: ExitCode.OK,
    GateStatus.FAILED: ExitCode.NO,
    GateStatus.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    GateStatus.NO_BASELINE: ExitCode.OK,
}


@dataclass(frozen=True)
class GateResult:
    """A decision, the file it was written to, and the comparison it was made on."""

    decision: GateDecision
    path: Path
    comparison: Comparison

    @property
    def exit_code(self) -> ExitCode:
        """What the process should say."""
        return _EXIT_CODES[self.decision.gate_status]


def decide_on(
    comparison: Path,
    limits: Mapping[str, float | int | None],
    *,
    config: Path | None = None,
    out: Path | None = None,
    environ: Mapping[str, str],
) -> GateResult:
    """Decide on a comparison and write the decision.

    Args:
        comparison: The file that `compare` wrote. Where it lies in a pack, the pack must verify and be
            the comparison's candidate.
        limits: Threshold name to value; None where the rule is not set.
        config: File with thresholds under the same names; `limits` override it.
        out: Where to write; `gate_decision.json` beside the comparison when None.
        environ: The environment variables; they may pin the clock.

    Raises:
        InvalidInput: Comparison or configuration cannot be read, or a threshold is out of range.
        InvalidPack: The pack that holds the comparison does not verify, or is another run's.
        UsageError: No threshold at all: nothing checked is not a pass.
    """
    rules = read_thresholds(limits, config)
    read = read_comparison(comparison)
    decision = decide(
        read.comparison, rules, generated_at=clock.timestamp(environ), comparison_sha256=read.sha256
    )
    path = out if out is not None else comparison.with_name(DECISION_NAME)
    write_output(path, dumps(decision.to_json(), indent=True))
    return GateResult(decision, path, read.comparison)


def read_thresholds(limits: Mapping[str, float | int | None], config: Path | None) -> Thresholds:
    """The six rules from a file and from flags, flags first.

    Raises:
        InvalidInput: The file has an unknown name or a value out of range.
        UsageError: A flag is out of range.
    """
    stated = _from_file(config) if config is not None else {}
    return parse_thresholds(
        {**stated, **{name: limit for name, limit in limits.items() if limit is not None}}
    )


def _from_file(config: Path) -> dict[str, Any]:
    stated = read_settings(config)
    for name, value in stated.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise InvalidInput(
                f"{config}: {name} must be a number, not {value!r}",
                remedy="Write it without quotes.",
                file=str(config),
                field=name,
            )
    try:
        parse_thresholds(stated)
    except UsageError as error:
        raise InvalidInput(
            f"{config}: {error.message}",
            remedy=error.remedy,
            file=str(config),
            field=error.details.get("field"),
        ) from None
    return stated
