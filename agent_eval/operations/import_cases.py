"""Make the lines of a suite of the records that an import has assembled, in several processes if many."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from agent_eval.engine.in_order import map_in_order
from agent_eval.errors import AgentEvalError
from agent_eval.importers.assembly import Assembly, Findings
from agent_eval.importers.cases import CaseIds, make_case
from agent_eval.importers.diagnostics import DeferredDiagnostics, Diagnostic, Diagnostics
from agent_eval.importers.expectations import Expectations
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor, count_markers
from agent_eval.text.numbers import count


@dataclass
class Totals:
    """Numbers of what was imported."""

    cases: int = 0
    events: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    errors: int = 0

    def add(self, case: dict[str, Any]) -> None:
        """Count a case."""
        self.cases += 1
        for trace in (case["trace"], *(trial["trace"] for trial in case.get("trials", ()))):
            self.events += len(trace)
            for event in trace:
                self.tool_calls += event["type"] == "tool_call"
                self.tool_results += event["type"] == "tool_result"
                self.errors += "error" in event

    def add_all(self, other: Totals) -> None:
        """Add the numbers of other cases."""
        for name, number in vars(other).items():
            setattr(self, name, getattr(self, name) + number)

    def to_json(self) -> dict[str, int]:
        """Return the numbers by name."""
        return dict(vars(self))


class _Made(NamedTuple):
    """A case as it is written, and where it comes from: the group of records, and which of its cases."""

    wanted_id: str
    case_id: str
    line: bytes
    secrets: int
    group: list[int]
    position: int


@dataclass(frozen=True)
class CaseLines:
    """The cases of an import, one line of JSON each, without the secrets in them: suites are committed.

    Cases are made in several processes, where none knows which ids the others give. The calling process gives
    them in the order of the input, and makes a case again whose id another has already.

    Example::

        lines = CaseLines(assembly, diagnostics, Redactor(), "prod-", None, processes=2)
        totals = Totals()
        path.write_bytes(b"".join(line + b"\\n" for line in lines.made(totals)))
    """

    assembly: Assembly
    diagnostics: Diagnostics
    redactor: Redactor
    prefix: str
    expectations: Expectations | None
    processes: int

    def made(self, totals: Totals) -> Generator[bytes, None, None]:
        """Yield the cases, and count them in `totals`.

        Raises:
            InvalidInput: The import is strict, and something cannot be taken over.
            StorageError: The temporary directory cannot be used.
        """
        with CaseIds() as ids:
            # Expectations are joined by the final id, which only one process can know.
            known = None if self.expectations is None else ids
            packed = map(pickle.dumps, self.assembly.batches())
            results = map_in_order(
                lambda batch: self._made(batch, known), packed, self.processes if known is None else 1
            )
            with closing(results):
                for findings in results:
                    yield from self._lines(findings, ids if known is None else None, totals)

    def _lines(self, findings: Findings, ids: CaseIds | None, totals: Totals) -> Iterator[bytes]:
        for finding in findings:
            if isinstance(finding, _Made):
                yield self._named(finding, ids)
            elif isinstance(finding, Diagnostic):
                self.diagnostics.add(finding)
            elif isinstance(finding, Totals):
                totals.add_all(finding)
            else:
                raise finding

    def _named(self, made: _Made, ids: CaseIds | None) -> bytes:
        unique = made.wanted_id if ids is None else ids.unique(made.wanted_id)
        if unique != made.wanted_id:
            cases = self._of_group(made.group, DeferredDiagnostics(), lambda _: unique)
            made = next(islice(cases, made.position, None))[0]
        if made.secrets:
            reason = f"{count(made.secrets, 'secret')} replaced by [redacted:NAME]"
            self.diagnostics.changed(made.case_id, "", reason)
        return made.line

    def _made(self, packed: bytes, ids: CaseIds | None) -> Findings:
        """Make the cases of packed groups of records."""
        deferred, totals = DeferredDiagnostics(), Totals()
        unique = str if ids is None else ids.unique
        groups: Iterable[list[int]] = pickle.loads(packed)  # noqa: S301 - packed by this process or its parent
        try:
            for numbers in groups:
                for made, case in self._of_group(numbers, deferred, unique):
                    totals.add(case)
                    deferred.findings.append(made)
        except AgentEvalError as error:
            deferred.findings.append(error)
        return [totals, *deferred.findings]

    def _of_group(
        self, numbers: Sequence[int], diagnostics: Diagnostics, unique: Callable[[str], str]
    ) -> Iterator[tuple[_Made, dict[str, Any]]]:
        for position, (read_by, conversation) in enumerate(self.assembly.read(numbers, diagnostics)):
            own = () if conversation.id is None else (conversation.id,)
            if conversation.id is not None:
                # Before the case gets an id of its own: two ids can become equal.
                conversation.id = self.redactor.redact_text(conversation.id)
            wanted: list[str] = []

            def name(stated: str, wanted: list[str] = wanted) -> str:
                wanted.append(unique(f"{self.prefix}{stated}"))
                return wanted[0]

            case = make_case(conversation, read_by.name, read_by.provider, name=name)
            if self.expectations is not None:
                self.expectations.join(case, (*own, *conversation.aliases))
            line, secrets = self._without_secrets(case)
            yield _Made(wanted[0], case["case_id"], line, secrets, list(numbers), position), case

    def _without_secrets(self, case: dict[str, Any]) -> tuple[bytes, int]:
        line = dumps(case)
        redacted = self.redactor.redact_json(line)
        return redacted, 0 if redacted == line else count_markers(redacted) - count_markers(line)
