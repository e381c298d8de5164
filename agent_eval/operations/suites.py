"""`schema migrate`: write a suite in the current schema version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.atomic import write_file
from agent_eval.storage.json import dumps
from agent_eval.suites.migrate import migrate
from agent_eval.suites.reader import read_payload
from agent_eval.suites.validate import ValidationReport, validate_suite


@dataclass(frozen=True)
class Migration:
    """A migrated suite, and the validation of the result. Returned by `migrate_suite`.

    Example:
        >>> _ = Path("old.json").write_text('{"dataset_id": "orders", "cases": [{"case_id": "refund"}]}')
        >>> migration = migrate_suite(Path("old.json"), Path("new.jsonl"))
        >>> migration.validation.passed, len(Path("new.jsonl").read_text().splitlines())
        (True, 2)
    """

    source: Path
    target: Path
    validation: ValidationReport

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints, as JSON values."""
        return {
            "input": str(self.source),
            "output": str(self.target),
            "schema_version": SCHEMA_VERSION,
            "validation": self.validation.to_json(),
        }


def migrate_suite(source: Path, target: Path) -> Migration:
    """Write a suite in the current schema version, as JSON or JSON Lines by the target's ending.

    Raises:
        InvalidInput: The source is not a suite that can be migrated.
        UsageError: The target's name ends in neither `.json` nor `.jsonl`.
        StorageError: The target cannot be written.
    """
    suffix = target.suffix.lower()
    if suffix not in (".json", ".jsonl"):
        raise UsageError(
            f"{target}: a suite is written as .json or .jsonl",
            remedy="Give --output such a name.",
            file=str(target),
        )
    try:
        migrated = migrate(read_payload(source))
    except InvalidInput as error:
        error.details.setdefault("file", str(source))
        raise
    write_file(target, _as_lines(migrated) if suffix == ".jsonl" else dumps(migrated, indent=True))
    return Migration(source, target, validate_suite(target))


def _as_lines(payload: dict[str, Any]) -> bytes:
    header = {name: value for name, value in payload.items() if name != "cases"}
    return b"".join(dumps(line) + b"\n" for line in (header, *payload["cases"]))
