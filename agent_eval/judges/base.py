"""What a judge is, and a base class that makes writing one short.

    class NoApologies(BaseJudge[JudgeConfig]):
        judge_id = "no_apologies"
        Config = JudgeConfig

        def evaluate(self, case: Case, trace: Trace) -> Verdict:
            if "sorry" in str(trace.final_output).lower():
                return self.failed(case, "the final output apologises", FailureKind.POLICY_VIOLATION)
            return self.passed(case, "the final output does not apologise")

It is used as `--judge my_module:NoApologies`, or by name through the entry point group
`agent_eval.judges`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Generic, Protocol, TypeVar, get_args, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_eval.contracts import Case, Outcome, Trace, Verdict
from agent_eval.errors import FailureKind, InvalidInput


@runtime_checkable
class Judge(Protocol):
    """Scores one case. Holds no state between cases and reads only its arguments.

    `judge_id` names it in verdicts and file names; `hard` says whether a failed or error verdict is a
    hard fail.
    """

    judge_id: str
    hard: bool

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """Say what was found, in a verdict with this judge's id and the case's id."""
        ...


class JudgeConfig(BaseModel):
    """What every judge can be told. Judges with more to tell derive from it; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    hard: bool = True
    """Whether a failed or error verdict is a hard fail."""
    weight: float = Field(default=1.0, ge=0, le=1_000_000)
    """What the judge's verdict counts in the case's score, against those of the others; 0: nothing. It
    changes no outcome."""
    category: str | None = Field(default=None, min_length=1, max_length=100)
    """What the verdict is about, such as `safety`: a word of one's own, for who reads the evidence."""


class SoftJudgeConfig(JudgeConfig):
    """For judges whose failure is a warning sign rather than a wrong result."""

    hard: bool = False
    """Whether a failed or error verdict is a hard fail."""


ConfigT = TypeVar("ConfigT", bound=JudgeConfig)


class BaseJudge(Generic[ConfigT]):
    """A judge with a typed configuration and short ways to build its verdicts.

    Subclasses set `judge_id` and define `evaluate`; those with more to configure than `JudgeConfig` set
    `Config` to a model derived from it.
    """

    judge_id: str = ""
    Config: type[ConfigT] = JudgeConfig  # type: ignore[assignment]  # for those that bind no type

    def __init__(self, config: ConfigT | None = None) -> None:
        if not (isinstance(self.Config, type) and issubclass(self.Config, JudgeConfig)):
            raise TypeError("its Config does not derive from agent_eval.judges.JudgeConfig")
        self.config: ConfigT = self.Config() if config is None else config
        self.hard: bool = self.config.hard

    def check_case(self, case: Case) -> None:
        """Refuse a case this judge could never judge, before anything runs.

        Raises:
            InvalidInput: With `case_id` and `field`.
        """

    def passed(
        self,
        case: Case,
        reason: str,
        *,
        score: float | None = 1.0,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The case is right in this judge's eyes."""
        return self._verdict(case, Outcome.PASSED, reason, None, score, refs, evidence)

    def failed(
        self,
        case: Case,
        reason: str,
        failure: FailureKind,
        *,
        score: float | None = 0.0,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The case is wrong; `reason` is one sentence a reviewer can act on."""
        return self._verdict(case, Outcome.FAILED, reason, failure, score, refs, evidence)

    def error(
        self,
        case: Case,
        reason: str,
        failure: FailureKind = FailureKind.JUDGE_ERROR,
        *,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The case could not be judged. Never a pass."""
        return self._verdict(case, Outcome.ERROR, reason, failure, None, refs, evidence)

    def inconclusive(
        self,
        case: Case,
        reason: str,
        *,
        score: float | None = None,
        refs: Iterable[int] = (),
        evidence: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """The judge looked and could not tell. Never a pass."""
        return self._verdict(case, Outcome.INCONCLUSIVE, reason, None, score, refs, evidence)

    def skipped(self, case: Case, reason: str) -> Verdict:
        """There is nothing to judge: the judge is not configured for this case."""
        return self._verdict(case, Outcome.SKIPPED, reason, None, None, (), None)

    def _verdict(
        self,
        case: Case,
        outcome: Outcome,
        reason: str,
        failure: FailureKind | None,
        score: float | None,
        refs: Iterable[int],
        evidence: Mapping[str, Any] | None,
    ) -> Verdict:
        return Verdict(
            judge_id=self.judge_id,
            case_id=case.case_id,
            outcome=outcome,
            passed=outcome is Outcome.PASSED,
            score=score,
            reason=clipped(reason),
            hard=self.hard,
            failure=failure,
            evidence_refs=sorted(set(refs))[:EVIDENCE_LIMIT] if refs else [],
            evidence=dict(evidence) if evidence else {},
            weight=self.config.weight,
            category=self.config.category,
        )


REASON_LIMIT = 300
"""Characters in a reason at most."""

EVIDENCE_LIMIT = 20
"""Entries of one kind in a verdict's evidence at most; totals are stated beside them."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,59}")


def clipped(text: str, limit: int = REASON_LIMIT) -> str:
    """The text, or as much of it as fits into `limit` characters with an ellipsis at the end."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quoted(value: Any, limit: int = 60) -> str:
    """The value as JSON text of bounded length; strings stand in quotes."""
    if isinstance(value, str):
        # Cutting before escaping keeps a megabyte of output out of the encoder.
        return json.dumps(clipped(value, limit), ensure_ascii=False)
    return clipped(json.dumps(value, ensure_ascii=False, default=repr), limit)


def named(name: str) -> str:
    """A tool's name as it is when it is a plain word, else quoted."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def listed(words: Iterable[str], *, limit: int = 5) -> str:
    """`a`, `a and b`, `a, b and 3 more`: an enumeration of bounded length of words ready to print."""
    items = list(words)
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def at_events(indices: Sequence[int]) -> str:
    """` (event 3)`, ` (events 3, 5 and 9)`; nothing without indices."""
    if not indices:
        return ""
    return f" ({'event' if len(indices) == 1 else 'events'} {listed(str(index) for index in indices)})"


ModelT = TypeVar("ModelT", bound=BaseModel)


def read_config(name: str, config_class: type[ModelT], raw: Any) -> ModelT:
    """Validate what a judge is configured with; nothing or null means all defaults.

    Raises:
        InvalidInput: Names the judge and the key; for an unknown key, the nearest one.
    """
    if raw is not None and not isinstance(raw, dict):
        raise InvalidInput(
            f"the configuration of judge {quoted(name)} is not an object",
            remedy=f"Write an object with some of: {', '.join(config_class.model_fields)}.",
            field=f"judge_configs.{name}",
        )
    try:
        return config_class.model_validate(raw or {})
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(
            f"judge {quoted(name)}: {_what(first, key)}",
            remedy=_remedy(first, config_class),
            field=f"judge_configs.{name}.{key}" if key else f"judge_configs.{name}",
        ) from None


def _what(problem: Any, key: str) -> str:
    if problem["type"] == "extra_forbidden":
        return f"unknown key {quoted(key)}"
    return f"{key or 'configuration'}: {clipped(problem['msg'], 160)}, not {quoted(problem['input'])}"


def _remedy(problem: Any, config_class: type[BaseModel]) -> str:
    if problem["type"] != "extra_forbidden":
        return "Correct the value; docs/guides/judges.md lists every key with its unit and default."
    known = sorted(set(_field_names(config_class)))
    near = get_close_matches(str(problem["loc"][-1]), known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]}? " if near else ""
    return f"{hint}Known keys: {', '.join(config_class.model_fields)}."


def _field_names(model: type[BaseModel]) -> Iterator[str]:
    """Names of a model's fields and of the models within it."""
    for name, field in model.model_fields.items():
        yield name
        for inner in _models_in(field.annotation):
            yield from _field_names(inner)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def read_expectation(case: Case, member: str, model: type[ModelT]) -> ModelT | None:
    """What a case expects in one member of its metadata; None when it says nothing.

    Raises:
        InvalidInput: Malformed. Names case and field; for an unknown key, the nearest one.
    """
    raw = case.metadata.get(member)
    if raw is None:
        return None
    place = f"metadata.{member}"
    if not isinstance(raw, dict):
        raise InvalidInput(
            f"case {quoted(case.case_id)}: {place} is not an object",
            remedy=f"Write an object with some of: {', '.join(model.model_fields)}.",
            case_id=case.case_id,
            field=place,
        )
    try:
        return model.model_validate(raw)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(
            f"case {quoted(case.case_id)}: {place}: {_what(first, key)}",
            remedy=_remedy(first, model),
            case_id=case.case_id,
            field=f"{place}.{key}" if key else place,
        ) from None
