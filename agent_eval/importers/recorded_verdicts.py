"""What a benchmark or an evaluation framework said of a run: its verdicts go with the trial they are of.

The judge `recorded` passes where all of them did, so that a suite can be compared by the verdicts that it
came with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RECORDED_VERDICTS = "recorded_verdicts"
"""Key of the metadata of cases and trials: verdicts by name, with `passed`, `score`, `explanation`."""

_PASSED = {"C": (True, 1.0), "P": (None, 0.5), "I": (False, 0.0), "N": (False, 0.0)}
"""Letters of Inspect: correct, partially correct, incorrect, no answer."""


def recorded(value: Any, explanation: Any = None) -> dict[str, Any] | None:
    """Return a recorded verdict; None for a value that is none.

    A boolean, a letter and the numbers 0 and 1 say whether the run passed; another number is only a score.

    Example:
        >>> recorded(True), recorded("I"), recorded(0.25)
        ({'passed': True, 'score': 1.0}, {'passed': False, 'score': 0.0}, {'passed': None, 'score': 0.25})
    """
    passed, score = _read(value)
    if passed is None and score is None:
        return None
    verdict: dict[str, Any] = {"passed": passed, "score": score}
    if isinstance(explanation, str) and explanation:
        verdict["explanation"] = explanation
    return verdict


def _read(value: Any) -> tuple[bool | None, float | None]:
    if isinstance(value, bool):
        return value, float(value)
    if isinstance(value, int | float):
        return (bool(value) if value in (0, 1) else None), float(value)
    return _PASSED.get(value, (None, None)) if isinstance(value, str) else (None, None)


def as_metadata(verdicts: Mapping[str, dict[str, Any] | None]) -> dict[str, Any]:
    """Return the metadata of a case or a trial that holds these verdicts; empty without any."""
    known = {name: verdict for name, verdict in verdicts.items() if verdict is not None}
    return {RECORDED_VERDICTS: known} if known else {}
