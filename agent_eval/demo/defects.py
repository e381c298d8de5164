"""Defects of the demonstration's agents: each makes every answer worse in one known way.

They show that suites catch what they should. `caught_by` names the strict checks that can see a defect; no
other strict check may fail because of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from agent_eval.contracts.conversation import FORWARDING
from agent_eval.demo.domain import BUNDLED, Answer

INVENTED = "invented"
"""Value of a parameter that the user never gave."""


@dataclass(frozen=True)
class Context:
    """What a defect may look at beside the answer.

    Attributes:
        is_lost: Whether the agent did not understand the message.
        workflows, params, rules: What the suites of the agent forbid in some test.
    """

    is_lost: bool = False
    workflows: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


@dataclass(frozen=True)
class Defect:
    """One way to be worse, by its name in `--defect`.

    `caught_by` are the strict checks that can see it; none where only a model or a human can.
    """

    name: str
    does: str
    caught_by: frozenset[str]
    apply: Callable[[Answer, Context], Answer]


def _workflows(answer: Answer, to_a_human: bool) -> list[str]:
    return [name for name in answer.workflows if name.startswith(FORWARDING) == to_a_human]


_ROWS: Mapping[str, tuple[str, str, Callable[[Answer, Context], Answer]]] = {
    "never-escalates": (
        "hands nothing over to a human",
        "escalated",
        lambda answer, _: replace(answer, workflows=_workflows(answer, to_a_human=False)),
    ),
    "escalates-when-lost": (
        "hands over to a human what it does not understand",
        "not_escalated",
        lambda answer, of: replace(answer, workflows=[*answer.workflows, *([FORWARDING] * of.is_lost)]),
    ),
    "runs-no-workflows": (
        "says things, and does nothing",
        "tool_used",
        lambda answer, _: replace(answer, workflows=_workflows(answer, to_a_human=True)),
    ),
    "runs-forbidden-workflows": (
        "runs workflows that the case forbids",
        "tool_not_used",
        lambda answer, of: replace(answer, workflows=list(dict.fromkeys((*of.workflows, *answer.workflows)))),
    ),
    "forgets-parameters": (
        "keeps nothing of what the user says",
        "param_exists param_equals",
        lambda answer, _: replace(answer, params={}),
    ),
    "misreads-parameters": (
        "understands something else",
        "param_equals",
        lambda answer, _: replace(answer, params=dict.fromkeys(answer.params, "something-else")),
    ),
    "invents-parameters": (
        "knows things that the user did not say",
        "param_not_exists",
        lambda answer, of: replace(answer, params={**dict.fromkeys(of.params, INVENTED), **answer.params}),
    ),
    "skips-rules": ("applies no rule", "rule_triggered", lambda answer, _: replace(answer, rules=[])),
    "applies-forbidden-rules": (
        "applies rules that do not hold",
        "rule_not_triggered",
        lambda answer, of: replace(answer, rules=[*answer.rules, *of.rules]),
    ),
    "integrations-down": (
        "gets HTTP 500 from every integration",
        "integration_called",
        lambda answer, _: replace(answer, status=500),
    ),
    "hides-errors": (
        "says that all is done where something failed",
        "escalated_due_to_error",
        lambda answer, _: replace(answer, text="All done!", is_error=False) if answer.is_error else answer,
    ),
    "errors-when-lost": (
        "answers with an error what it does not understand",
        "not_escalated_due_to_error",
        lambda answer, of: replace(answer, is_error=answer.is_error or of.is_lost),
    ),
    "rude": (
        "is impolite, and does everything right",
        "",
        lambda answer, _: replace(
            answer, text=f"{answer.text} That is not my problem, so stop bothering me."
        ),
    ),
}
"""What each defect does, the checks that see it, and how it changes an answer."""

DEFECTS: Mapping[str, Defect] = {
    name: Defect(name, does, frozenset(caught_by.split()), apply)
    for name, (does, caught_by, apply) in _ROWS.items()
}

_NAMES = {"tool_not_used": "toolName", "param_not_exists": "paramName", "rule_not_triggered": "ruleCode"}


@cache
def forbidden_to(agent_id: str) -> Context:
    """Collect what the bundled suites of an agent forbid in some test."""
    names: dict[str, set[str]] = {kind: set() for kind in _NAMES}
    for path in BUNDLED.rglob("*.json"):
        suite = json.loads(path.read_text(encoding="utf-8"))
        for test in suite.get("tests", ()) if suite.get("agentId") == agent_id else ():
            for evaluation in test["evaluations"]:
                kind = evaluation.get("strict")
                if kind in names:
                    names[kind].add(evaluation[_NAMES[kind]])
    workflows, params, rules = (tuple(sorted(each)) for each in names.values())
    return Context(workflows=workflows, params=params, rules=rules)
