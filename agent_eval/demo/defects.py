"""Defects of the demonstration's agents: each makes every answer worse in one known way.

They show that suites catch what they should. `caught_by` names the strict checks that can see a defect; no
other strict check may fail because of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from agent_eval.contracts.conversation import FORWARDING
from agent_eval.demo.domain import BUNDLED, Answer

INVENTED = "invented"
"""Value of a parameter that the user never gave."""


@dataclass(frozen=True)
class Forbidden:
    """What the bundled suites of one agent forbid in some test."""

    workflows: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Context:
    """What a defect may look at beside the answer.

    Attributes:
        is_lost: Whether the agent did not understand the message.
        forbidden: What the suites of the agent forbid.
    """

    is_lost: bool = False
    forbidden: Forbidden = Forbidden()


@dataclass(frozen=True)
class Defect:
    """One way to be worse.

    Attributes:
        name: As in `--defect`.
        caught_by: Strict checks that can see it; none where only a model or a human can.
    """

    name: str
    does: str
    caught_by: frozenset[str]
    apply: Callable[[Answer, Context], Answer]


def _without_forwarding(answer: Answer, _: Context) -> Answer:
    return replace(answer, workflows=[name for name in answer.workflows if not name.startswith(FORWARDING)])


def _forwarding_when_lost(answer: Answer, context: Context) -> Answer:
    return replace(answer, workflows=[*answer.workflows, FORWARDING]) if context.is_lost else answer


def _without_workflows(answer: Answer, _: Context) -> Answer:
    return replace(answer, workflows=[name for name in answer.workflows if name.startswith(FORWARDING)])


def _with_forbidden_workflows(answer: Answer, context: Context) -> Answer:
    more = [name for name in context.forbidden.workflows if name not in answer.workflows]
    return replace(answer, workflows=[*more, *answer.workflows])


def _without_params(answer: Answer, _: Context) -> Answer:
    return replace(answer, params={})


def _with_other_values(answer: Answer, _: Context) -> Answer:
    return replace(answer, params=dict.fromkeys(answer.params, "something-else"))


def _with_invented_params(answer: Answer, context: Context) -> Answer:
    return replace(answer, params={**dict.fromkeys(context.forbidden.params, INVENTED), **answer.params})


def _without_rules(answer: Answer, _: Context) -> Answer:
    return replace(answer, rules=[])


def _with_forbidden_rules(answer: Answer, context: Context) -> Answer:
    return replace(answer, rules=[*answer.rules, *context.forbidden.rules])


def _with_failed_integrations(answer: Answer, _: Context) -> Answer:
    return replace(answer, status=500)


def _without_errors(answer: Answer, _: Context) -> Answer:
    return replace(answer, text="All done!", is_error=False) if answer.is_error else answer


def _errors_when_lost(answer: Answer, context: Context) -> Answer:
    return replace(answer, is_error=True) if context.is_lost else answer


def _rude(answer: Answer, _: Context) -> Answer:
    return replace(answer, text=f"{answer.text} That is not my problem, so stop bothering me.")


_ROWS = (
    Defect("never-escalates", "hands nothing over to a human", frozenset({"escalated"}), _without_forwarding),
    Defect(
        "escalates-when-lost",
        "hands over to a human what it does not understand",
        frozenset({"not_escalated"}),
        _forwarding_when_lost,
    ),
    Defect(
        "runs-no-workflows", "says things, and does nothing", frozenset({"tool_used"}), _without_workflows
    ),
    Defect(
        "runs-forbidden-workflows",
        "runs workflows that the case forbids",
        frozenset({"tool_not_used"}),
        _with_forbidden_workflows,
    ),
    Defect(
        "forgets-parameters",
        "keeps nothing of what the user says",
        frozenset({"param_exists", "param_equals"}),
        _without_params,
    ),
    Defect(
        "misreads-parameters",
        "understands something else",
        frozenset({"param_equals"}),
        _with_other_values,
    ),
    Defect(
        "invents-parameters",
        "knows things that the user did not say",
        frozenset({"param_not_exists"}),
        _with_invented_params,
    ),
    Defect("skips-rules", "applies no rule", frozenset({"rule_triggered"}), _without_rules),
    Defect(
        "applies-forbidden-rules",
        "applies rules that do not hold",
        frozenset({"rule_not_triggered"}),
        _with_forbidden_rules,
    ),
    Defect(
        "integrations-down",
        "gets HTTP 500 from every integration",
        frozenset({"integration_called"}),
        _with_failed_integrations,
    ),
    Defect(
        "hides-errors",
        "says that all is done where something failed",
        frozenset({"escalated_due_to_error"}),
        _without_errors,
    ),
    Defect(
        "errors-when-lost",
        "answers with an error what it does not understand",
        frozenset({"not_escalated_due_to_error"}),
        _errors_when_lost,
    ),
    Defect("rude", "is impolite, and does everything right", frozenset(), _rude),
)

DEFECTS: Mapping[str, Defect] = {defect.name: defect for defect in _ROWS}
"""Every defect by name."""


@cache
def forbidden_to(agent_id: str) -> Forbidden:
    """Collect what the bundled suites of an agent forbid in some test."""
    names_by_kind: dict[str, set[str]] = {kind: set() for kind in _NAMES}
    for suite in map(_read, sorted(BUNDLED.rglob("*.json"))):
        for test in suite.get("tests", ()) if suite.get("agentId") == agent_id else ():
            for evaluation in test["evaluations"]:
                kind = evaluation.get("strict")
                if kind in names_by_kind:
                    names_by_kind[kind].add(str(evaluation[_NAMES[kind]]))
    workflows, params, rules = (tuple(sorted(names)) for names in names_by_kind.values())
    return Forbidden(workflows, params, rules)


_NAMES = {"tool_not_used": "toolName", "param_not_exists": "paramName", "rule_not_triggered": "ruleCode"}


def _read(path: Any) -> dict[str, Any]:
    suite: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return suite
