"""What is written of a case when a secret stands in it: the same, without the secret.

Judges see the case as it is; only what they leave behind passes through here. Everything that follows
from a trajectory (index, events) is made from what is written, so that a pack agrees with itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from agent_eval.contracts import Case, CaseResult, RunConfig, Verdict
from agent_eval.errors import InvalidInput
from agent_eval.storage.json_writer import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.cases import Place, RawCase

REDACTED_CASES = "redacted_cases"
"""Key of `RunConfig.execution_config`: in how many cases something was replaced; absent for none."""

_IDENTIFIERS = frozenset({"judge_id", "case_id", "outcome", "failure"})
_OF_THE_RUN = frozenset({"schema_version", "run_id", "dataset_id", "judges"})
_REMEDY = (
    "Take it out of there; where the value is an ordinary word, unset the variable or give it a name "
    "that does not look secret."
)


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """A case as it is written: as JSON, on one line, and as a contract."""

    raw: dict[str, Any]
    line: bytes
    case: Case
    changed: bool = False


def written_case(found: RawCase, case: Case, redactor: Redactor) -> WrittenCase:
    """The case without secrets.

    Raises:
        InvalidInput: A secret stands in the case's id, or where the contract has no place for text.
    """
    line = found.encoded()
    if not redactor.finds(line):
        return WrittenCase(found.raw, line, case)
    if redactor.finds(case.case_id.encode()):
        raise _cannot_be_replaced("the case_id", found.place)
    raw = redactor.redact_value(found.raw)
    try:
        return WrittenCase(raw, dumps(raw), Case.model_validate(raw), changed=True)
    except ValidationError as error:
        field = ".".join(str(step) for step in error.errors(include_url=False, include_input=False)[0]["loc"])
        raise _cannot_be_replaced(f"the field {field}", found.place) from None


def written_result(result: CaseResult, line: bytes, redactor: Redactor) -> CaseResult:
    """The result without secrets in what judges said; itself where there are none.

    Args:
        result: The verdicts on one case.
        line: `json_writer.dumps` of it.
        redactor: Knows the secrets.
    """
    if not redactor.finds(line):
        return result
    verdicts = [_verdict(verdict, redactor) for verdict in result.verdicts]
    trials = [
        trial.model_copy(update={"verdicts": [_verdict(verdict, redactor) for verdict in trial.verdicts]})
        for trial in result.trials
    ]
    return result.model_copy(update={"verdicts": verdicts, "trials": trials})


def _verdict(verdict: Verdict, redactor: Redactor) -> Verdict:
    said = {**verdict.__dict__, **(verdict.model_extra or {})}
    kept = {name: value for name, value in said.items() if name in _IDENTIFIERS}
    rest = {name: value for name, value in said.items() if name not in _IDENTIFIERS}
    return Verdict.model_validate({**redactor.redact_value(rest, numbers=False), **kept})


def written_config(config: RunConfig, redactor: Redactor) -> RunConfig:
    """The configuration without secrets.

    Raises:
        InvalidInput: A secret stands in the name of the run or of the dataset.
    """
    stated = config.to_json()
    if not redactor.finds(dumps(stated)):
        return config
    for name in ("run_id", "dataset_id"):
        if redactor.finds(stated[name].encode()):
            raise _cannot_be_replaced(f"the {name}")
    kept = {name: value for name, value in stated.items() if name in _OF_THE_RUN}
    rest = {name: value for name, value in stated.items() if name not in _OF_THE_RUN}
    return RunConfig.model_validate({**redactor.redact_value(rest, numbers=False), **kept})


def _cannot_be_replaced(what: str, place: Place | None = None) -> InvalidInput:
    details: dict[str, Any] = {} if place is None else {"line": place.line, "position": place.position}
    where = "" if place is None else f" (cases[{place.position}])"
    return InvalidInput(
        f"{what}{where} contains the value of an environment variable whose name says that it is secret",
        remedy=_REMEDY,
        **details,
    )
