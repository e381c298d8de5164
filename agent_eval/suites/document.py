"""Suite files before their cases are checked: the raw header, and raw cases in shards.

`WholeDocument` here and `reader.JsonLinesDocument` are the kinds of `Document`. `parse_header` and
`parse_case` turn raw values into contracts; `header_problems` and `case_problems` list all their problems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from typing_extensions import override

from agent_eval.contracts import (
    READABLE_SCHEMA_VERSIONS,
    SCHEMA_VERSION,
    SHARD_CASES,
    Case,
    CaseResult,
    CaseTurn,
    Conversation,
    Event,
    ExpectedToolCall,
    Policy,
    RecordedTrial,
    SuiteHeader,
    ToolContract,
)
from agent_eval.contracts.base import EARLIER
from agent_eval.contracts.suite import METADATA_KEYS
from agent_eval.storage.json import dumps
from agent_eval.suites.migrate import CASE_NAMES, TOOL_CONTRACT_NAMES
from agent_eval.suites.problems import Problem, json_path, problems_of, short_json
from agent_eval.text.spelling import nearest

Finding = tuple[str, str, str]
"""A problem: the place of a key below the case or the header, a message, and a remedy."""

_RULES = (
    *("conversation", "expected_output", "final_output_tool", "json_schema", "regex_patterns"),
    *("tool_contracts", "turns"),
)
"""Fields of a case that say what is asked and expected."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a case in its suite: `position` among the cases from 0, `line` of a `.jsonl` file from 1."""

    position: int | None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class RawCase:
    """A case as read from the suite, with its unknown fields and its place.

    `raw` is an object once `parse_case` has accepted it. `line_bytes` are its bytes in the form of
    `storage.json.dumps`, if reading produced them anyway. `result` has the verdicts that judges gave during
    a run of the agent; None if the case has not been judged. `artifacts` are files that belong to the case,
    by names that a pack can have.
    """

    place: Place
    raw: Any
    line_bytes: bytes | None = None
    result: CaseResult | None = None
    artifacts: Mapping[str, bytes] | None = None

    def encoded(self) -> bytes:
        """Encode the case as one line of JSON: sorted keys, no white space, with unknown fields."""
        return dumps(self.raw) if self.line_bytes is None else self.line_bytes


@dataclass(frozen=True, slots=True)
class Shard:
    """Up to `SHARD_CASES` consecutive cases of a suite.

    `first` is the position of the first case, from 0. `offset` (in bytes) and `line` (from 1) are its place
    in a `.jsonl` file; both are 0 for other files.
    """

    index: int
    first: int
    count: int
    offset: int = 0
    line: int = 0


def whole_shards(count: int, starts: Sequence[tuple[int, int]] = ()) -> list[Shard]:
    """Divide `count` cases into shards, which begin at these offsets and lines of a `.jsonl` file."""
    places = starts or [(0, 0)] * ceil(count / SHARD_CASES)
    return [
        Shard(index, index * SHARD_CASES, min(SHARD_CASES, count - index * SHARD_CASES), *place)
        for index, place in enumerate(places)
    ]


class Document(ABC):
    """A suite file of any format. It keeps no file open.

    Attributes:
        digest: Lower-case hexadecimal sha256 of the file's bytes.
        raw_header: Everything but the cases, as read.
        header_line: Line of the header; None for files that are not `.jsonl`.
        shards: All cases in suite order.
        problems: Problems of the file's structure, other than those of header and cases.
        is_evidence: Whether the cases are those of a run, not of a suite's file: their keys were checked when
            they ran, or written by a version that did not check them.
        format: `cases`; or `aui` for a suite of conversations, which is read as cases.
        warnings: What is odd about a suite in another format.
        default_judges: The judges of a run that names none; empty for those of any suite.
    """

    path: Path
    digest: str
    raw_header: Any
    header_line: int | None
    shards: list[Shard]
    problems: list[Problem]
    is_evidence: bool = False
    format: str = "cases"
    warnings: Sequence[Problem] = ()
    default_judges: tuple[str, ...] = ()

    @property
    def case_count(self) -> int:
        """Number of cases."""
        return sum(shard.count for shard in self.shards)

    @abstractmethod
    def read(self, shard: Shard) -> Iterator[RawCase]:
        """Yield the cases of a shard.

        Raises:
            InvalidInput: A line is not strict JSON.
            NotEvaluable: The file changed or vanished since it was opened.
        """

    def case_at(self, position: int) -> RawCase:
        """Read one case. Raises as `read`."""
        shard = self.shards[position // SHARD_CASES]
        return next(islice(self.read(shard), position - shard.first, None))

    def read_all(self) -> Iterator[RawCase]:
        """Yield every case. Raises as `read`."""
        for shard in self.shards:
            yield from self.read(shard)


class WholeDocument(Document):
    """A suite in memory, from a `.json` or `.yaml` file, which can only be read as a whole."""

    def __init__(self, path: Path, digest: str, payload: Any) -> None:
        self.path = path
        self.digest = digest
        self.raw_header = payload
        self.header_line = None
        self.problems = []
        self._cases: list[Any] = []
        if isinstance(payload, dict):
            self.raw_header = {name: value for name, value in payload.items() if name != "cases"}
            cases = payload.get("cases")
            if isinstance(cases, list):
                self._cases = cases
            elif "cases" in payload:
                message = f"cases must be an array, not {short_json(cases)}"
                self.problems.append(Problem(message, "Write it as [{...}, ...].", "cases"))
            else:
                self.problems.append(Problem("cases is missing", 'Add "cases": [{...}, ...].', "cases"))
        self.shards = whole_shards(len(self._cases))

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        for position in range(shard.first, shard.first + shard.count):
            yield self.case_at(position)

    @override
    def case_at(self, position: int) -> RawCase:
        return RawCase(Place(position), self._cases[position])


def parse_header(raw: Any, file: str, line: int | None) -> SuiteHeader:
    """Validate a suite's header.

    Raises:
        InvalidInput: Malformed header; names file, line and field.
    """
    problems = header_problems(raw, line)
    if problems:
        raise problems[0].to_error(file, more=len(problems) - 1)
    return SuiteHeader.model_validate(raw)


def header_problems(raw: Any, line: int | None) -> list[Problem]:
    """List the problems of a suite's header."""
    if not isinstance(raw, dict):
        message = f"the suite must be an object, not {short_json(raw)}"
        return [Problem(message, 'Write {"dataset_id": "...", "cases": [...]}.', line=line)]
    try:
        header = SuiteHeader.model_validate(raw)
    except ValidationError as error:
        return placed(problems_of(error, raw), Place(None, line))
    findings = [*_findings(raw, _HEADER, ()), *_findings(header.metadata, _HEADER_METADATA, ("metadata",))]
    in_metadata, readable = header.metadata.get("schema_version"), ", ".join(READABLE_SCHEMA_VERSIONS)
    versions = {"schema_version": header.schema_version, "metadata.schema_version": in_metadata}
    for name, version in versions.items():
        if version is not None and version not in READABLE_SCHEMA_VERSIONS:
            message = f"{name} {short_json(version)} is not a version this program reads ({readable})"
            findings.append((name, message, f"State one of {readable}, or use a newer agent-eval."))
    if None not in versions.values() and in_metadata != header.schema_version:
        message = f"schema_version {short_json(header.schema_version)} contradicts metadata.schema_version"
        remedy = "State the version once, in metadata.schema_version."
        findings.append(("schema_version", f"{message} {short_json(in_metadata)}", remedy))
    return placed(findings, Place(None, line))


def parse_case(raw_case: RawCase, file: str, *, check_keys: bool = True, is_current: bool = True) -> Case:
    """Validate a case. Without `check_keys`, keys that look like ours and are not are accepted.

    Unless the case `is_current`, a field that is new in the current version is the author's own.

    Raises:
        InvalidInput: Malformed case; names file, line or position, case id and field.
    """
    case, problems = case_problems(raw_case, is_current=is_current)
    if case is not None and check_keys:
        problems = misspelt_keys(raw_case, case)
    if case is None or problems:
        raise problems[0].to_error(file, more=len(problems) - 1)
    return case


def case_problems(raw_case: RawCase, *, is_current: bool = True) -> tuple[Case | None, list[Problem]]:
    """Validate a case and list its problems, apart from misspelt keys; the case is None if there are any."""
    try:
        return Case.model_validate(raw_case.raw, context=None if is_current else EARLIER), []
    except ValidationError as error:
        return None, placed(problems_of(error, raw_case.raw), raw_case.place, raw_case_id(raw_case.raw))


def misspelt_keys(raw_case: RawCase, case: Case) -> list[Problem]:
    """List the keys of a valid case that look like ours and are not, at every level that we define."""
    return placed(_misspelt_in_case(raw_case.raw, case), raw_case.place, case.case_id)


def placed(findings: Iterable[Finding], place: Place, case_id: str | None = None) -> list[Problem]:
    """Say of findings where they are: in a case, or at the place of the header."""
    return [
        Problem(message, remedy, field, case_id, place.position, place.line)
        for field, message, remedy in findings
    ]


UNNUMBERED_VERSION = "0.1.0"
"""The version whose traces need not number their events."""


def numbered(raw_case: RawCase) -> RawCase:
    """Give the events of a trace their numbers, where it numbers none, as suites of 0.1 need not."""
    trace = raw_case.raw.get("trace") if isinstance(raw_case.raw, dict) else None
    if not isinstance(trace, list) or not all(isinstance(each, dict) and "idx" not in each for each in trace):
        return raw_case
    events = [{"idx": index, **event} for index, event in enumerate(trace)]
    return replace(raw_case, raw={**raw_case.raw, "trace": events}, line_bytes=None)


def states_current_version(version: str | None) -> bool:
    """Tell whether a suite of this stated version may have the fields of the current one; None may."""
    return version is None or version == SCHEMA_VERSION


def raw_case_id(raw: Any) -> str | None:
    """Return the id of a raw case; None if it has no valid one."""
    case_id = raw.get("case_id") if isinstance(raw, dict) else None
    return case_id if isinstance(case_id, str) and case_id else None


def duplicate_problem(case_id: str, first: Place, second: Place) -> Problem:
    """Build the problem of two cases with the same id, naming both places."""
    places = f"cases[{first.position}] and cases[{second.position}]"
    if first.line is not None and second.line is not None:
        places = f"lines {first.line} and {second.line}"
    return Problem(
        f"case_id {short_json(case_id)} occurs twice: {places}",
        "Give every case an id of its own.",
        "case_id",
        case_id,
        second.position,
        second.line,
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Level:
    """The keys of one kind of object.

    `names` are ours, `old_names` those that earlier versions gave to some of them. With `is_closed` no other
    key may be there. `not_ours` look like ours but are not. `elsewhere` are keys that belong somewhere else,
    with the place in words.
    """

    names: frozenset[str]
    old_names: Mapping[str, str] = field(default_factory=dict)
    is_closed: bool = False
    not_ours: frozenset[str] = frozenset()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    cutoff: float = 0.8


_HEADER = _Level(frozenset(SuiteHeader.model_fields) | {"cases"})
_HEADER_METADATA = _Level(frozenset({"schema_version"}), cutoff=0.85)
_CASE = _Level(
    frozenset(Case.model_fields),
    CASE_NAMES,
    elsewhere={
        **dict.fromkeys(METADATA_KEYS, "metadata"),
        **dict.fromkeys(Policy.model_fields, "policy"),
        **dict.fromkeys(ToolContract.model_fields, "tool_contracts, below the name of a tool"),
    },
)
_METADATA = _Level(
    METADATA_KEYS,
    elsewhere={
        **dict.fromkeys(_RULES, "the case itself, beside metadata"),
        **dict.fromkeys(Policy.model_fields, "policy"),
    },
    # Metadata is the author's, so only a close likeness is taken for one of our keys.
    cutoff=0.85,
)
_POLICY = _Level(frozenset(Policy.model_fields), is_closed=True)
_CONTRACT = _Level(frozenset(ToolContract.model_fields), TOOL_CONTRACT_NAMES, is_closed=True)
# Recorders list the tools that a model was offered beside its messages.
_EVENT = _Level(frozenset(Event.model_fields), not_ours=frozenset({"tools"}))
_TRIAL = _Level(frozenset(RecordedTrial.model_fields))
_TURN = _Level(
    frozenset(CaseTurn.model_fields),
    elsewhere={
        **dict.fromkeys(("calls", "expected_calls", "tool_calls"), "expected_tool_calls"),
        "expected": "expected_output",
        "user": "input",
    },
)
_CONVERSATION = _Level(frozenset(Conversation.model_fields), is_closed=True)
_EXPECTED_CALL = _Level(frozenset(ExpectedToolCall.model_fields), is_closed=True)


def _misspelt_in_case(raw: Mapping[str, Any], case: Case) -> Iterator[Finding]:
    yield from _findings(raw, _CASE, ())
    yield from _findings(raw.get("policy") or {}, _POLICY, ("policy",))
    for tool, contract in (raw.get("tool_contracts") or {}).items():
        yield from _findings(contract, _CONTRACT, ("tool_contracts", tool))
    if case.conversation is not None:
        yield from _findings(raw["conversation"], _CONVERSATION, ("conversation",))
    for number, turn in enumerate(raw["turns"] if case.turns else ()):
        yield from _findings(turn, _TURN, ("turns", number))
        for position, call in enumerate(turn.get("expected_tool_calls") or ()):
            yield from _findings(call, _EXPECTED_CALL, ("turns", number, "expected_tool_calls", position))
    trials: list[Case | RecordedTrial] = [case, *case.trials]
    for number, trial in enumerate(trials, start=-1):
        fields, place = (raw, ()) if trial is case else (raw["trials"][number], ("trials", number))
        if trial is not case:
            yield from _findings(fields, _TRIAL, place)
        yield from _findings(fields.get("metadata") or {}, _METADATA, (*place, "metadata"))
        for index, event in enumerate(trial.trace):
            if event.__pydantic_extra__:  # of the many events nearly all have known keys only
                yield from _findings(fields["trace"][index], _EVENT, (*place, "trace", index))


def _findings(raw: Mapping[str, Any], level: _Level, place: tuple[str | int, ...]) -> Iterator[Finding]:
    for key in raw:
        if key in level.names:
            continue
        current = level.old_names.get(key)
        if current is None:
            problem = _problem_of(key, level)
        elif current in raw and raw[current] != raw[key]:
            problem = f"is the old name of {current}, which has another value here", f"Keep {current} alone."
        else:
            continue
        if problem is not None:
            path = json_path((*place, key))
            yield path, f"{path} {problem[0]}", problem[1]


@lru_cache(maxsize=1024)
def _problem_of(key: str, level: _Level) -> tuple[str, str] | None:
    """Return what is wrong with an unknown key, with a remedy; None where it may be the author's own."""
    if key in level.elsewhere:
        return "is ignored there", f"Write it in {level.elsewhere[key]}, or give it another name."
    if key in level.not_ours:
        return None
    near = nearest(key, level.names | level.old_names.keys(), level.cutoff)
    if near is not None:
        meant = level.old_names.get(near, near)
        return "is not a key of the schema", f"Did you mean {meant}? Otherwise give it a name of its own."
    if level.is_closed:
        known = ", ".join(sorted(level.names))
        return "is not a key of the schema", f"Known keys there are {known}. Keep others under metadata."
    return None
