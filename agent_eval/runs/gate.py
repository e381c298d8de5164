"""`gate`: decide on a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agent_eval.comparison.gate import decide
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
    if not rules.any_set:
        raise UsageError(
            "the gate has no threshold to check",
            remedy="Give at least one, such as --max-regressed-cases 0, or a --config file.",
        )
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
    """
    stated: dict[str, Any] = {}
    if config is not None:
        stated = read_settings(config)
        _check_names(stated, config)
    stated.update({name: value for name, value in limits.items() if value is not None})
    try:
        return Thresholds.model_validate(stated, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        raise InvalidInput(
            f"{config or 'thresholds'}: {field} is {first['input']!r}: {first['msg']}",
            remedy="Rates are shares from 0 to 1, counts are whole numbers from 0.",
            file=str(config) if config else None,
            field=field,
        ) from None


def _check_names(stated: Mapping[str, Any], config: Path) -> None:
    known = list(Thresholds.model_fields)
    for name in stated:
        if name not in known:
            nearest = get_close_matches(name, known, n=1)
            hint = f"Did you mean {nearest[0]}?" if nearest else f"Known names: {', '.join(known)}."
            raise InvalidInput(
                f"{config}: {name!r} is not a threshold", remedy=hint, file=str(config), field=name
            )
