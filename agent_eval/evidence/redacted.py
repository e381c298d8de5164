"""A pack without the secrets that its run did not know, for what is made of it: exports, reports, prose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from typing_extensions import override

from agent_eval.contracts import CaseIndexRow, CaseResultRow, RunConfig
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.row_cache import Rows, RowsById, RowTable
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor

_IDENTIFIERS = ("case_id", "run_id", "dataset_id", "started_at", "judges", "suite_digest")
"""Fields by which commands find a case or a run again."""

Row = TypeVar("Row")


class RedactedPack(Pack):
    """Verified pack that is read without secrets. What it seals, and ids in it, remain as they are.

    The run of a pack replaces the secrets that it knows. A pack of another machine, or of an earlier version,
    may hold those of this one. Do not judge or verify what is read here: judges need what was recorded.

    Args:
        pack: The pack.
        redactor: Knows the secrets.

    Example:
        >>> from pathlib import Path
        >>> from agent_eval.config.spec import Output, RunSpec
        >>> from agent_eval.evidence.reader import open_pack
        >>> from agent_eval.operations.run import run_suite
        >>> case = {"case_id": "login", "expected_output": "Your password is hunter2-hunter2."}
        >>> size = Path("suite.json").write_bytes(dumps({"dataset_id": "shop", "cases": [case]}))
        >>> run = run_suite(RunSpec(suite=Path("suite.json"), output=Output(pack=Path("pack"))), environ={})
        >>> pack = RedactedPack(open_pack(run.pack), Redactor({"hunter2-hunter2": "PASSWORD"}))
        >>> pack.trajectory("login").expected_output
        'Your password is [redacted:PASSWORD].'
    """

    def __init__(self, pack: Pack, redactor: Redactor) -> None:
        vars(self).update(vars(pack))
        self._redactor = redactor
        self._shown_index = _RedactedRows(self._index, redactor)
        self._shown_results = _RedactedRows(self._results, redactor)
        self.config = RunConfig.model_validate(_without_secrets(pack.config.to_json(), redactor))

    @override
    def index(self) -> Rows[CaseIndexRow]:
        return Rows(self._shown_index)

    @override
    def results(self) -> Rows[CaseResultRow]:
        return Rows(self._shown_results)

    @override
    def results_by_id(self) -> Mapping[str, CaseResultRow]:
        return RowsById(self._positions, self._shown_results)

    @override
    def artifacts(self, case_id: str) -> dict[str, bytes]:
        return {name: self._redactor.redact(data) for name, data in super().artifacts(case_id).items()}

    @override
    def _raw_trajectory(self, case_id: str) -> tuple[dict[str, Any], str]:
        raw, path = super()._raw_trajectory(case_id)
        return _without_secrets(raw, self._redactor, numbers=True), path


class _RedactedRows(Generic[Row]):
    """Rows of a table without secrets; each is built on access."""

    def __init__(self, table: RowTable[Row], redactor: Redactor) -> None:
        self._table, self._redactor = table, redactor

    def __len__(self) -> int:
        return len(self._table)

    def row(self, position: int) -> Row:
        """Build the row at a position from 0."""
        row: Row = _without_secrets(self._table.row(position), self._redactor)
        return row


def _without_secrets(value: Any, redactor: Redactor, *, numbers: bool = False) -> Any:
    if not redactor.may_find_in_json(dumps(value)):
        return value
    identifiers = {name: value[name] for name in _IDENTIFIERS if name in value}
    return {**redactor.redact_value(value, numbers=numbers), **identifiers}
