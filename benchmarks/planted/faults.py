"""Plant known faults in recorded traces, so that judges can be measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from benchmarks.planted import faults_of_acts, faults_of_answers, faults_of_flow
from benchmarks.planted.fault import Fault, Subject

FAULTS: tuple[Fault, ...] = (
    *faults_of_flow.FAULTS,
    *faults_of_acts.FAULTS,
    *faults_of_answers.FAULTS,
)
"""Every fault; together they are of every kind of failure."""

PLANTED = "planted_fault"
"""Key of a case's metadata that names the fault in its trace."""


class Planter:
    """Plants faults in turn: the one that was planted least so far, of the kind that was.

    Example:
        >>> len({fault.kind for fault in FAULTS})
        14
    """

    def __init__(self) -> None:
        self._of_kind: Counter[str] = Counter()
        self._of_fault: Counter[str] = Counter()

    def plant(self, subject: Subject) -> Fault:
        """Plant the next fault that applies, and name it in the recording's metadata."""
        fault = min(_applicable(subject), key=self._planted)
        self._of_kind[fault.kind.value] += 1
        self._of_fault[fault.name] += 1
        fault.plant(subject)
        subject.metadata[PLANTED] = fault.to_json()
        return fault

    def _planted(self, fault: Fault) -> tuple[int, int]:
        return self._of_fault[fault.name], self._of_kind[fault.kind.value]


def _applicable(subject: Subject) -> Iterator[Fault]:
    return (fault for fault in FAULTS if fault.applies(subject))
