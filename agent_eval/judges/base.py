"""The judge protocol, and a base class that keeps a judge short.

A plug-in is used as `--judge my_module:NoApologies`, which runs in a child process (`hosted`), or by name
through the entry point group `agent_eval.judges` of an installed package.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict, Unpack, override

from agent_eval.contracts import Case, Event, Outcome, Trace, Verdict
from agent_eval.contracts.event import STOPPED_SHORT, UNREAD
from agent_eval.contracts.trace import is_blank
from agent_eval.errors import FailureKind, UsageError, words_of
from agent_eval.text.escape import cut

if TYPE_CHECKING:
    from agent_eval.models.base import Model


@runtime_checkable
class Judge(Protocol):
    """Scores one case. A judge keeps no state between cases and reads only its arguments.

    `judge_id` identifies the judge in verdicts and file names; `hard` says whether a failed or error
    verdict is a hard fail. A class need not derive from this one: any object with these three members
    is a judge. Most judges derive from `BaseJudge`.
    """

    judge_id: str
    hard: bool

    @abstractmethod
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """Judge the trace and return a verdict that carries this judge's id and the case's id."""
        ...


class StrictModel(BaseModel):
    """What people or programs outside wrote: unknown keys are refused, and nothing is coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class JudgeConfig(StrictModel):
    """Configuration keys that every judge accepts. Judges with keys of their own derive from it."""

    hard: bool = True
    """Whether a failed or error verdict is a hard fail."""
    weight: float = Field(default=1.0, ge=0, le=1_000_000)
    """Weight of the verdict in the case's score, relative to the other judges' weights; 0 leaves it out.
    The weight never changes an outcome."""
    category: str | None = Field(default=None, min_length=1, max_length=100)
    """Free label for the subject of the verdict, such as `safety`; shown to readers of the evidence."""


class EvaluationsConfig(JudgeConfig):
    """Configuration of a judge of weighted evaluations."""

    pass_threshold: float = Field(default=100.0, gt=0, le=100)
    """Percent of the weights, over strict evaluations and criteria together, that suffice to pass."""


class SoftJudgeConfig(JudgeConfig):
    """Configuration of a judge whose failure is a warning sign rather than a wrong result."""

    hard: bool = False
    """Whether a failed or error verdict is a hard fail."""


def _refuse_blank(text: str) -> str:
    if is_blank(text):
        raise ValueError("it has no visible character, so it says nothing")
    return text


VisibleText = Annotated[str, AfterValidator(_refuse_blank)]
"""A text of a configuration in which something can be seen: a blank one is in every text."""


ConfigT = TypeVar("ConfigT", bound=JudgeConfig)


class BaseJudge(Judge, Generic[ConfigT]):
    """A judge with a typed configuration and short ways to build its verdicts.

    Subclasses set `judge_id` and implement `evaluate`. A subclass with configuration keys of its own
    sets `Config` to a model derived from `JudgeConfig`.
    """

    judge_id: str = ""
    reads: ClassVar[frozenset[str] | None] = None
    """Fields of a case that it judges by, `metadata.` before those of the metadata; None: it may be any."""
    needs_all: ClassVar[bool] = True
    """Whether it judges what the agent did or said: then it cannot pass where some of that was not read."""
    reads_answer: ClassVar[bool] = False
    """Whether it judges the agent's answer: then it cannot pass one that was cut off, refused or blocked."""
    Config: type[ConfigT] = JudgeConfig  # type: ignore[assignment]  # for subclasses that bind no type

    def __init__(self, config: ConfigT | None = None) -> None:
        if not (isinstance(self.Config, type) and issubclass(self.Config, JudgeConfig)):
            raise TypeError("its Config does not derive from agent_eval.judges.JudgeConfig")
        self.config: ConfigT = self.Config() if config is None else config
        self.hard: bool = self.config.hard

    def check_case(self, case: Case) -> None:
        """Refuse a case that this judge could never judge. Called for every case before anything runs.

        The default accepts every case. One that cannot be judged raises InvalidInput with `case_id` and
        `field`.
        """

    def passed(self, case: Case, reason: str, **support: Unpack[Support]) -> Verdict:
        """Build the verdict of a case that meets this judge's expectations; its score is 1 by default."""
        support.setdefault("score", 1.0)
        return build_verdict(self, case, Outcome.PASSED, reason, **support)

    def failed(self, case: Case, reason: str, failure: FailureKind, **support: Unpack[Support]) -> Verdict:
        """Build the verdict of a case that is wrong; `reason` is one sentence a reviewer can act on.

        Its score is 0 by default.
        """
        support.setdefault("score", 0.0)
        return build_verdict(self, case, Outcome.FAILED, reason, failure, **support)

    def error(
        self,
        case: Case,
        reason: str,
        failure: FailureKind = FailureKind.JUDGE_ERROR,
        **support: Unpack[Support],
    ) -> Verdict:
        """Build the verdict of a case that could not be judged. Never a pass."""
        return build_verdict(self, case, Outcome.ERROR, reason, failure, **support)

    def inconclusive(self, case: Case, reason: str, **support: Unpack[Support]) -> Verdict:
        """Build the verdict of a case about which the judge cannot decide. Never a pass."""
        return build_verdict(self, case, Outcome.INCONCLUSIVE, reason, **support)

    def skipped(self, case: Case, reason: str, **support: Unpack[Support]) -> Verdict:
        """Build the verdict of a case that gives this judge nothing to judge."""
        return build_verdict(self, case, Outcome.SKIPPED, reason, **support)

    def nothing_done(self, case: Case, trace: Trace) -> Verdict | None:
        """Build the error verdict of a trace in which the agent did nothing; None if it did something.

        An agent that does nothing breaks no rule, so a judge that looks for broken rules asks first.
        """
        if trace.has_act:
            return None
        return self.error(case, NOTHING_DONE if trace.events else NO_EVENTS, FailureKind.MISSING_OUTPUT)

    def no_output(self, case: Case, trace: Trace, words: str, **support: Unpack[Support]) -> Verdict:
        """Build the verdict of a trace whose final output is null or blank: never a pass.

        An error that says why there is none, if the trace does; inconclusive if the agent gave one that is
        not recorded. `words` say what is missing: `there is no final output to compare`.
        """
        event = trace.final_event
        if event is not None and event.content_recorded is False:
            words = f"{words}: the agent gave one, but it is not recorded{at_events([event.idx])}"
            support["refs"] = [event.idx]
            return self.inconclusive(case, words, **support)
        if event is not None and event.stop is not None:
            finish, reason = event.stop
            failure, why = STOPPED_SHORT[finish]
            words = f"{words}: {why} for {quoted(reason)}{at_events([event.idx])}"
            support["refs"] = [event.idx]
            return self.error(case, words, failure, **support)
        return self.error(case, words, FailureKind.MISSING_OUTPUT, **support)


def config_of(judge: Judge) -> JudgeConfig:
    """Return what every judge is configured with; the defaults where it has no configuration."""
    config = getattr(judge, "config", None)
    return config if isinstance(config, JudgeConfig) else JudgeConfig()


class Support(TypedDict, total=False):
    """What supports a verdict.

    `score` is from 0 to 1, None for none. `refs` are indices of events that show it, `evidence` any JSON.
    """

    score: float | None
    refs: Iterable[int]
    evidence: Mapping[str, Any] | None


def build_verdict(
    judge: Judge,
    case: Case,
    outcome: Outcome,
    reason: str,
    failure: FailureKind | None = None,
    **support: Unpack[Support],
) -> Verdict:
    """Build a verdict of a judge, with what it is configured with."""
    config, refs = config_of(judge), support.get("refs")
    return Verdict(
        judge_id=judge.judge_id,
        case_id=case.case_id,
        outcome=outcome,
        passed=outcome is Outcome.PASSED,
        score=support.get("score"),
        reason=clipped(reason),
        hard=judge.hard,
        failure=failure,
        evidence_refs=sorted(set(refs))[:EVIDENCE_LIMIT] if refs else [],
        evidence=dict(support.get("evidence") or {}),
        weight=config.weight,
        category=config.category,
    )


def not_judged(
    judge: Judge,
    case: Case,
    reason: str,
    evidence: Mapping[str, Any] | None = None,
    *,
    outcome: Outcome = Outcome.ERROR,
) -> Verdict:
    """Build the verdict of a judge that did not do its work, or of one that was not asked."""
    failure = FailureKind.JUDGE_ERROR if outcome is Outcome.ERROR else None
    return build_verdict(judge, case, outcome, reason, failure, evidence=evidence)


def verdict_of(judge: Judge, case: Case, trace: Trace) -> Verdict:
    """Judge a case. Whatever is not the judge's own verdict on it becomes an error verdict.

    So does a pass on an answer that was cut off, refused or blocked; a pass where an import did not read all
    that was recorded is inconclusive.
    """
    try:
        verdict: object = judge.evaluate(case, trace)
    # A plug-in may raise anything, RecursionError included.
    except Exception as problem:
        return not_judged(judge, case, f"the judge raised {words_of(problem)}")
    if not isinstance(verdict, Verdict):
        return not_judged(judge, case, f"the judge returned {type(verdict).__name__} instead of a Verdict")
    if verdict.judge_id != judge.judge_id or verdict.case_id != case.case_id:
        words = f"the judge answered for {quoted(verdict.judge_id)} on case {quoted(verdict.case_id)}"
        return not_judged(judge, case, words)
    if not verdict.passed:
        return verdict
    if (stopped := trace.stopped) is not None and getattr(judge, "reads_answer", False):
        failure, words = stop_in_words(stopped)
        words = f"{words}; but for that: {verdict.reason}"
        changes = {"outcome": Outcome.ERROR, "failure": failure, "evidence_refs": [stopped.idx]}
    elif getattr(judge, "needs_all", True) and (unread := [e for e in trace.events if e.type == UNREAD]):
        words = f"{unread[0].output}; without it: {verdict.reason}"
        refs = [event.idx for event in unread][:EVIDENCE_LIMIT]
        changes = {"outcome": Outcome.INCONCLUSIVE, "evidence_refs": refs}
    else:
        return verdict
    return verdict.model_copy(update={**changes, "passed": False, "score": None, "reason": clipped(words)})


class AdvisoryJudge(Judge):
    """A judge whose verdicts are shown and count nowhere, such as one that a change adds.

    It refuses no case, and no field of a case is judged by it. `judge` is None where it could not be loaded,
    which `problem` explains; `judge_id` is then its name.
    """

    hard = False
    reads: frozenset[str] = frozenset()

    def __init__(self, judge_id: str, judge: Judge | None, problem: str = "") -> None:
        self.judge_id, self._judge, self._problem = judge_id, judge, problem

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """Return the judge's own verdict."""
        if self._judge is None:
            return not_judged(self, case, self._problem)
        return verdict_of(self._judge, case, trace)

    def finding(self, case: Case, trace: Trace) -> dict[str, str]:
        """Return what the evidence keeps of its verdict."""
        verdict = self.evaluate(case, trace)
        reason = clipped(verdict.reason)
        return {"judge_id": self.judge_id, "outcome": verdict.outcome.value, "reason": reason}


def ended_without_verdict(judge_id: str, case_id: str) -> str:
    """Say in one sentence that a judge gave no verdict on a case."""
    judge, case = (clipped(" ".join(name.split()).replace("`", "'"), 80) for name in (judge_id, case_id))
    return f"Judge `{judge}` ended without a verdict in `{case}`."


class JudgeModel(Protocol):
    """The model of a run. Provider, address and key are the operator's; no suite and no pack names them."""

    @property
    def votes(self) -> int:
        """How many votes are taken on a criterion, where the judge's configuration says nothing."""
        ...

    def __call__(self) -> Model:
        """Open the model; the same one each time. UsageError where none is named, or it has no key."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return what the evidence records of it, without opening it."""
        ...

    def earned(self) -> frozenset[str]:
        """Return the digests of advisory criteria about which people found exactly this judge to be right."""
        ...


class NoModel(JudgeModel):
    """The model of a judge that was given none: asking it is an error."""

    votes = 1

    @override
    def __call__(self) -> Model:
        remedy = "Name its provider with --provider, and set LLM_API_KEY."
        raise UsageError("the llm judge has no model", remedy=remedy)

    @override
    def describe(self) -> dict[str, Any]:
        return {}

    @override
    def earned(self) -> frozenset[str]:
        return frozenset()


@runtime_checkable
class AsksModel(Protocol):
    """A judge that asks a model, and so mostly waits. Its cases are judged in one process."""

    def connect(self, model: JudgeModel) -> None:
        """Give the judge its model."""
        ...


def ask_models(judges: Iterable[Judge]) -> bool:
    """Tell whether one of these judges asks a model."""
    return any(isinstance(judge, AsksModel) for judge in judges)


def stop_in_words(event: Event) -> tuple[FailureKind, str]:
    """Say how the answer of an event that has a `stop` was cut off, refused or blocked; with its failure."""
    assert event.stop is not None
    finish, reason = event.stop
    failure, words = STOPPED_SHORT[finish]
    return failure, f"{words} (event {event.idx}): it stopped for {quoted(reason)}"


NO_EVENTS = "the trace has no events"

NOTHING_DONE = "the agent did nothing: the trace has no use of a tool and no text of an agent or assistant"

REASON_LIMIT = 300
"""Maximum number of characters in a reason."""

EVIDENCE_LIMIT = 20
"""Maximum number of entries of one kind in a verdict's evidence; totals are given beside them."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,59}")


def clipped(text: str, limit: int = REASON_LIMIT) -> str:
    """Shorten a text to `limit` characters, the last of which is then an ellipsis."""
    return cut(text, limit)


def quoted(value: Any, limit: int = 60) -> str:
    """Format a value as JSON text of bounded length, strings in double quotes."""
    if isinstance(value, str):
        # Clipping before escaping keeps a megabyte of output out of the encoder.
        return json.dumps(clipped(value, limit), ensure_ascii=False)
    return clipped(json.dumps(value, ensure_ascii=False, default=repr), limit)


def display_name(name: str) -> str:
    """Format a tool's name for a reason: a plain word unchanged, anything else quoted."""
    return name if _PLAIN_NAME.fullmatch(name) else quoted(name)


def listed(words: Iterable[str], *, limit: int = 5) -> str:
    """Join words into an enumeration of at most `limit` of them.

    Example:
        >>> listed(["a", "b"]), listed(["a", "b", "c", "d"], limit=2)
        ('a and b', 'a, b and 2 more')
    """
    items = list(words)
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def at_events(indices: Sequence[int]) -> str:
    """Format event indices as ` (event 3)` or ` (events 3, 5 and 9)`; empty without indices."""
    if not indices:
        return ""
    return f" ({'event' if len(indices) == 1 else 'events'} {listed(str(index) for index in indices)})"


_RULES = ("expected_output", "tool_contracts", "regex_patterns", "json_schema")
_RULES_IN_METADATA = (
    *("allowed_tools", "canaries", "final_output", "injections"),
    *("lean_payload", "llm", "strict", "trajectory_match"),
)


def fields_not_judged(judges: Iterable[Judge], case: Case) -> list[str]:
    """List the fields of a case that no judge looks at; empty if one of the judges may look at any."""
    expected = [name for name in _RULES if getattr(case, name) not in (None, [], {})]
    if case.policy.required_tools or case.policy.forbidden_tools:
        expected.append("policy")
    expected += case.model_extra or ()
    expected += [f"metadata.{name}" for name in _RULES_IN_METADATA if case.metadata.get(name) is not None]
    for name in ("expected_output", "expected_tool_calls") if case.turns else ():
        if any(getattr(turn, name) is not None for turn in case.turns):
            expected.append(f"turns.{name}")
    for judge in judges if expected else ():
        reads = getattr(judge, "reads", None)
        if reads is None:
            return []
        expected = [name for name in expected if name not in reads]
    return sorted(expected)
