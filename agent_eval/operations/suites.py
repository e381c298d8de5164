"""Find what judges refuse in a suite; write suites in another schema version, or generated ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_eval.contracts import SCHEMA_VERSION, Case
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.judges.base import Judge, quoted
from agent_eval.judges.catalog import DEFAULT_JUDGES, judges_of_metadata, load_judges, validate_case
from agent_eval.storage.atomic import write_file
from agent_eval.storage.json import dumps
from agent_eval.suites.migrate import migrate_to
from agent_eval.suites.reader import read_payload
from agent_eval.suites.validate import Check, ValidationReport, validate_suite
from agent_eval.text.escape import shell_word

if TYPE_CHECKING:
    from agent_eval.benchmarks.generate import SuiteRequest

GOOD_AGENT = "python:agent_eval.benchmarks.agents:good_agent"


@dataclass(frozen=True)
class Migration:
    """A migrated suite, and the validation of the result. Returned by `migrate_suite`."""

    source: Path
    target: Path
    version: str
    validation: ValidationReport

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints, as JSON values."""
        return {
            "input": str(self.source),
            "output": str(self.target),
            "schema_version": self.version,
            "validation": self.validation.to_json(),
        }


def refused_by_judges(case: Case) -> Iterator[Check]:
    """Find what judges refuse in a case, as a check of `validate_suite`.

    What those of a run that names none refuse is an error. What others that read the case's metadata would
    refuse is a warning, since it may be there for something else.
    """
    judges, of_metadata = _judges()
    others = [judge for member, judge in of_metadata if case.metadata.get(member) is not None]
    faults = set()
    for judge in (*judges, *others):
        try:
            validate_case([judge], case)
        except UsageError:
            continue  # it has no model here
        except InvalidInput as error:
            words = error.message.removeprefix(f"case {quoted(case.case_id)}: ")
            if words in faults:
                continue  # two judges read this
            faults.add(words)
            if is_warning := judge not in judges:
                words += f", which a run with the judge {judge.judge_id} refuses"
            yield not is_warning, (str(error.details.get("field") or ""), words, error.remedy)


@cache
def _judges() -> tuple[list[Judge], list[tuple[str, Judge]]]:
    return load_judges(DEFAULT_JUDGES), judges_of_metadata()


def migrate_suite(source: Path, target: Path, version: str = SCHEMA_VERSION) -> Migration:
    """Write a suite in a schema version, as JSON or JSON Lines by the target's ending.

    Raises:
        InvalidInput: The source is not a suite that can be migrated, or has what the version cannot hold.
        UsageError: The target's name ends in neither `.json` nor `.jsonl`.
    """
    refuse_ending(target, "--output")
    try:
        migrated = migrate_to(read_payload(source), version)
    except InvalidInput as error:
        error.details.setdefault("file", str(source))
        raise
    write_suite(target, migrated)
    return Migration(source, target, version, validate_suite(target))


def refuse_ending(target: Path, option: str) -> None:
    """Refuse to write a suite, which `option` names, into a file of another kind than JSON or JSON Lines."""
    if target.suffix.lower() not in (".json", ".jsonl"):
        raise UsageError(
            f"{target}: a suite is written as .json or .jsonl",
            remedy=f"Give {option} such a name.",
            file=str(target),
        )


def write_suite(target: Path, payload: Mapping[str, Any]) -> None:
    """Write a suite; `.jsonl` has a line for the header and one for each case."""
    if target.suffix.lower() == ".json":
        write_file(target, dumps(payload, indent=True))
        return
    header = {name: value for name, value in payload.items() if name != "cases"}
    write_file(target, b"".join(dumps(line) + b"\n" for line in (header, *payload["cases"])))


def write_benchmark(request: SuiteRequest, out: Path) -> dict[str, Any]:
    """Generate a suite and write it; return what the command prints.

    Overwrites the file `out`; a `.jsonl` has a line for the header and one for each case.

    Raises:
        UsageError: The file would be neither `.json` nor `.jsonl`.
    """
    from agent_eval.benchmarks.generate import generate_suite

    refuse_ending(out, "--out")
    suite = generate_suite(request)
    about = suite["metadata"]["benchmark"]
    write_suite(out, suite)
    agent = [] if any("trace" in case for case in suite["cases"]) else ["--agent", GOOD_AGENT]
    command = ["agent-eval", "run", str(out), *agent, "--out", f"runs/{out.stem}"]
    return {
        "output": str(out),
        "dataset_id": suite["dataset_id"],
        "cases": len(suite["cases"]),
        "scenarios": about["scenarios"],
        "traps": sum(about["traps"].values()),
        "next": " ".join(map(shell_word, command)),
    }
