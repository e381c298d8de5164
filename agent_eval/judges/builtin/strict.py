"""The `strict` judge: what was used, known, triggered and called in a conversation, by what its turns record.

A hit in any turn decides. Without a hit, a turn that does not record the fact leaves the question open: the
evaluation is an error then, and never a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from typing_extensions import override

from agent_eval.contracts import Case, Trace, Verdict
from agent_eval.contracts.aui import EVALUATION_MODELS, is_missing
from agent_eval.contracts.conversation import FORWARDING
from agent_eval.contracts.turn_facts import TurnFacts, facts_by_turn
from agent_eval.errors import FailureKind
from agent_eval.judges.base import EVIDENCE_LIMIT, BaseJudge, EvaluationsConfig, clipped, listed, quoted
from agent_eval.judges.reading import (
    NOT_OF_THE_AGENT,
    UnreadableText,
    attempt_failure,
    listed_objects,
    read_model,
    read_text,
    refusal,
)
from agent_eval.text.numbers import count

Outcome = Literal["passed", "failed", "error"]

Evaluation = Mapping[str, Any]
"""What a case states of one strict evaluation, by the field names of AUI suites (`EVALUATION_MODELS`)."""


class _Kind(NamedTuple):
    """What an evaluation looks for: the fact of `TurnFacts`, and words for a hit and for none."""

    fact: str
    hit: str
    miss: str


_KINDS: Mapping[str, _Kind] = {
    "escalated": _Kind("tools", "the agent escalated", "the agent did not escalate"),
    "tool_used": _Kind("tools", "{name} was used{when}", "{name} was not used{when}"),
    "param_equals": _Kind("params", "{name} is {wanted}", "{name} is {known} instead of {wanted}"),
    "param_exists": _Kind("params", "{name} is known", "{name} is not known"),
    "escalated_due_to_error": _Kind(
        "errors", "the agent answered with an error", "the agent did not answer with an error"
    ),
    "rule_triggered": _Kind("rules", "rule {name} was triggered", "rule {name} was not triggered"),
    "integration_called": _Kind(
        "integrations", "{name} was called successfully", "{name} was not called{successfully}"
    ),
}

_NEGATED: Mapping[str, str] = {
    "not_escalated": "escalated",
    "tool_not_used": "tool_used",
    "param_not_exists": "param_exists",
    "not_escalated_due_to_error": "escalated_due_to_error",
    "rule_not_triggered": "rule_triggered",
}
"""Kinds that negate another one."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What one turn shows of what an evaluation looks for."""

    turn: int
    event: int | None
    value: Any


@dataclass(frozen=True, slots=True)
class StrictResult:
    """Result of a strict evaluation.

    Attributes:
        outcome: `error` if the trace does not record what the evaluation looks at.
        hits: The turns that decided.
        near: What resembles the name that was looked for, and does not count.
        warnings: What is odd about the evaluation itself.
    """

    outcome: Outcome
    reason: str
    hits: Sequence[Hit] = ()
    near: Sequence[Hit] = ()
    warnings: Sequence[str] = ()


def check(evaluation: Evaluation, turns: Sequence[TurnFacts]) -> StrictResult:
    """Evaluate a conversation."""
    if not turns:
        return StrictResult("error", "the trace has no turns")
    kind_id = _NEGATED.get(evaluation["strict"], evaluation["strict"])
    kind, is_negation = _KINDS[kind_id], kind_id != evaluation["strict"]
    name = next((evaluation[field] for field in _NAMES if field in evaluation), None)
    before = evaluation.get("beforeTurn")
    warnings = []
    turns = [turn for turn in turns if before is None or turn.number < before]
    notes = [turn.number for turn in turns if getattr(turn, kind.fact).note]
    if notes and kind.fact == "tools":
        warnings.append(f"no workflows are named in turn {listed(map(str, notes), limit=5)}")
    values = [
        Hit(turn.number, turn.event, value) for turn in turns for value in getattr(turn, kind.fact).values
    ]
    words = {"name": quoted(name), "when": "" if before is None else f" before turn {before}"}
    if kind.fact == "params":
        hits, near = _known_params(evaluation, values, words, warnings)
    elif kind.fact == "integrations":
        hits, near = _called_integrations(evaluation, values, words)
    elif kind_id == "escalated":
        hits = [hit for hit in values if isinstance(hit.value, str) and hit.value.startswith(FORWARDING)]
        near = [hit for hit in values if FORWARDING.casefold() in str(hit.value).casefold()]
    else:
        hits = [hit for hit in values if hit.value == (True if kind.fact == "errors" else name)]
        near = [hit for hit in values if _resembles(hit.value, name)]
    if kind.fact == "rules":
        evaluated = [Hit(turn.number, turn.event, code) for turn in turns for code in turn.evaluated]
        near += [hit for hit in evaluated if hit.value == name or _resembles(hit.value, name)]
    if hits:
        outcome: Outcome = "failed" if is_negation else "passed"
        numbers = list(dict.fromkeys(str(hit.turn) for hit in hits))
        places = f"{'turn' if len(numbers) == 1 else 'turns'} {listed(numbers)}"
        return StrictResult(outcome, f"{kind.hit.format(**words)} in {places}", hits, (), warnings)
    for turn in turns:
        if missing := getattr(turn, kind.fact).missing:
            reason = f"whether {kind.hit.format(**words)} cannot be told: turn {turn.number}: {missing}"
            return StrictResult("error", reason, (), near, warnings)
    names = dict.fromkeys(f"{quoted(hit.value)} in turn {hit.turn}" for hit in near)
    reason = kind.miss.format(**words) + (f"; similar: {listed(names, limit=3)}" if names else "")
    return StrictResult("passed" if is_negation else "failed", reason, (), near, warnings)


_NAMES = ("toolName", "paramName", "ruleCode", "integrationCode")
"""Fields that say what is looked for."""

_Hits = tuple[list[Hit], list[Hit]]
"""Hits, and what resembles them."""


def _known_params(
    evaluation: Evaluation, objects: Sequence[Hit], words: dict[str, str], warnings: list[str]
) -> _Hits:
    name, wanted = evaluation["paramName"], evaluation.get("paramValue")
    like = [Hit(hit.turn, hit.event, key) for hit in objects for key in hit.value if _resembles(key, name)]
    named = [Hit(hit.turn, hit.event, hit.value[name]) for hit in objects if name in hit.value]
    known = [hit for hit in named if not is_missing(hit.value)]
    if evaluation["strict"] != "param_equals":
        odd = [hit.value for hit in known if str(hit.value).strip().casefold() in _LIKE_MISSING]
        warnings += [f"{quoted(value)} counts as a value" for value in odd]
        return known, like
    last = known[-1:]
    words["wanted"], words["known"] = quoted(wanted), quoted(last[0].value) if last else "not known"
    return [hit for hit in last if same_value(wanted, hit.value)], [*last, *like]


def _called_integrations(evaluation: Evaluation, calls: Sequence[Hit], words: dict[str, str]) -> _Hits:
    code = evaluation["integrationCode"]
    called = [hit for hit in calls if hit.value.code == code]
    problems = [f": {hit.value.problem}" for hit in called if hit.value.problem]
    words["successfully"] = (" successfully" if called else "") + "".join(problems[-1:])
    like = [Hit(hit.turn, hit.event, hit.value.code) for hit in calls if _resembles(hit.value.code, code)]
    return [Hit(hit.turn, hit.event, code) for hit in called if not hit.value.problem], like


_LIKE_MISSING = frozenset({"undefined", "null", "none", "n/a", "nan"})


def same_value(wanted: Any, value: Any) -> bool:
    """Compare a parameter's value with the wanted one, as text and as JSON.

    A text equals another value if it is that value's JSON; two texts are compared as they are.

    Example:
        >>> same_value("5", 5), same_value(5, 5.0), same_value(True, 1), same_value("a", ["a"])
        (True, True, False, False)
    """
    if isinstance(wanted, str) and isinstance(value, str):
        return wanted == value
    return bool(_canonical(_parsed(wanted)) == _canonical(_parsed(value)))


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value == value.strip():
        with suppress(UnreadableText):
            return read_text(value, "the value")
    return value


def _canonical(value: Any) -> Any:
    """Make values comparable: numbers by value, and true and false apart from 1 and 0."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return [_canonical(item) for item in value] if isinstance(value, list) else value


def _resembles(name: Any, wanted: str | None) -> bool:
    """Tell whether a name is another one than the wanted, but looks like it."""
    if wanted is None or name == wanted:
        return False
    here, there = ("".join(filter(str.isalnum, text.casefold())) for text in (str(name), wanted))
    return bool(here) and (here == there or here.startswith(there) or there.startswith(here))


FIELD = "strict"
"""Member of a case's metadata that lists its strict evaluations."""


class StrictJudge(BaseJudge[EvaluationsConfig]):
    """Checks the strict evaluations that a case lists in `metadata.strict`, each by what the turns record.

    It fails if one of them fails, and is an error if one cannot be told from the trace. The score is the
    weighted share of those that pass. A conversation that ended because the agent could not be reached is
    skipped, because it says nothing of the agent.
    """

    judge_id = "strict"
    reads = frozenset({"metadata.strict"})
    Config = EvaluationsConfig

    @override
    def check_case(self, case: Case) -> None:
        _evaluations(case)

    @override
    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        evaluations = _evaluations(case)
        if not evaluations:
            return self.skipped(case, f"the case's metadata has no evaluations in {FIELD}")
        failed_by = attempt_failure(case)
        if failed_by in (*NOT_OF_THE_AGENT, FailureKind.SIMULATOR_ERROR.value):
            return self.skipped(case, f"not evaluated: the attempt failed by {failed_by}")
        turns = facts_by_turn(trace)
        pairs = [(evaluation, check(evaluation, turns)) for evaluation in evaluations]
        total = sum(map(_weight, evaluations))
        passed = sum(_weight(evaluation) for evaluation, result in pairs if result.outcome == "passed")
        evidence = {"evaluations": [_evidence(*pair) for pair in pairs]}
        failed = [pair for pair in pairs if pair[1].outcome == "failed"]
        undecided = [pair for pair in pairs if pair[1].outcome == "error"]
        reasons = (clipped(f"{each['strict']}: {result.reason}", 140) for each, result in failed or undecided)
        reason = listed(reasons, limit=2)
        if failed:
            refs = [hit.event for _, result in failed for hit in result.hits if hit.event is not None]
            kind = FailureKind.CONTRACT_VIOLATION
            return self.failed(case, reason, kind, score=passed / total, refs=refs, evidence=evidence)
        if undecided:
            return self.error(case, reason, FailureKind.MISSING_OUTPUT, evidence=evidence)
        return self.passed(case, f"{count(len(pairs), 'strict evaluation')} passed", evidence=evidence)


def _weight(evaluation: Evaluation) -> float:
    return float(evaluation.get("weight", 1))


def _evaluations(case: Case) -> list[Evaluation]:
    evaluations: list[Evaluation] = []
    for field, stated in listed_objects(case, FIELD, example='[{"strict": "escalated"}, ...]'):
        kind = stated.get("strict")
        model = EVALUATION_MODELS.get(kind) if isinstance(kind, str) else None
        if model is None:
            words, known = f"{field}.strict: there is no kind {quoted(kind)}", ", ".join(EVALUATION_MODELS)
            raise refusal(case.case_id, f"{field}.strict", words, f"Known kinds: {known}.")
        # In a suite of conversations each has its criterion in words; here it may be left out.
        evaluation = read_model(model, {"criterion": kind, **stated}, case=case, field=field)
        evaluations.append({name: value for name, value in evaluation.model_dump().items() if name in stated})
    if evaluations and not any(map(_weight, evaluations)):
        words, remedy = f"every weight in metadata.{FIELD} is 0", "Give one of them a weight, or remove them."
        raise refusal(case.case_id, f"metadata.{FIELD}", words, remedy)
    return evaluations


def _evidence(evaluation: Evaluation, result: StrictResult) -> dict[str, Any]:
    """Describe one evaluation for readers of the evidence, turn by turn."""
    turns: list[dict[str, Any]] = []
    for hit in [*result.hits, *result.near][:EVIDENCE_LIMIT]:
        value, counts = hit.value, len(turns) < len(result.hits)
        if value is not None and not isinstance(value, bool | int | float):
            value = clipped(value if isinstance(value, str) else quoted(value, 200), 200)
        turns.append({"turn": hit.turn, "event": hit.event, "value": value, "counts": counts})
    warnings = {"warnings": list(result.warnings)} if result.warnings else {}
    outcome = {"outcome": result.outcome, "reason": clipped(result.reason)}
    return {**evaluation, **outcome, "turns": turns, **warnings}
