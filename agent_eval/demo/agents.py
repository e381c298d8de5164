"""What the demonstration's agents know, and the defects that they can have.

A domain is a file in `agent_eval/bundled/domains`. Its steps are tried in order; the first one that fits a
message answers it:

    {"says": ["vacation", "time off"], "when": {"probation": "no"}, "after": "POLICY_QUESTION",
     "workflow": "TIME_OFF_REQUEST", "params": {"leave-type": "vacation"}, "rules": ["leave-balance"],
     "integrations": ["employee-information"], "reply": "You have {leave_balance_days} days left."}

A step fits where the message has one of the texts of `says`, in any letter case, where the user's variables
have the values of `when`, and where the workflow `after` has run in an earlier turn.

A defect makes every answer worse in one known way, which shows that suites catch what they should.
`caught_by` names the strict checks that can see it; no other strict check may fail because of it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agent_eval.contracts.conversation import FORWARDING

BUNDLED = Path(__file__).parents[1] / "bundled"
"""Where the bundled suites of conversations and their domains are."""


class Step(BaseModel):
    """One thing that an agent can do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    says: list[str]
    """Texts of which the message has one; an empty one is in every message."""
    when: dict[str, str] = Field(default_factory=dict)
    """Variables of the user, with their values as text."""
    after: str | None = None
    """Workflow that ran in an earlier turn."""
    workflow: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    rules: list[str] = Field(default_factory=list)
    """Codes of the rules that are triggered."""
    integrations: list[str] = Field(default_factory=list)
    """Codes of the integrations that are called."""
    reply: str
    """The answer, in which `{name}` is the user's variable of this name."""
    escalates: bool = False
    """Whether the conversation is handed over to a human."""
    fails: bool = False
    """Whether the answer is an error."""

    def fits(self, text: str, variables: Mapping[str, Any], done: set[str]) -> bool:
        """Tell whether the step answers a message; `done` are the workflows of earlier turns."""
        plain = text.casefold()
        return (
            any(words.casefold() in plain for words in self.says)
            and all(str(variables.get(name)) == value for name, value in self.when.items())
            and (self.after is None or self.after in done)
        )


class Domain(BaseModel):
    """What the agent of one domain knows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent_id: str
    welcome: str
    unknown: str
    """The answer to what no step fits."""
    steps: list[Step]


@dataclass
class Session:
    """One conversation with an agent of the demonstration; `turns` are filled by who answers with defects."""

    domain: Domain
    done: set[str] = field(default_factory=set)
    params: dict[str, Any] = field(default_factory=dict)
    turns: list[tuple[str, Answer]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, text: str, variables: Mapping[str, Any]) -> Answer:
        """Answer a message of the user; `variables` are those that the message carries."""
        step = next((step for step in self.domain.steps if step.fits(text, variables, self.done)), None)
        if step is None:
            return Answer(self.domain.unknown, params=dict(self.params))
        workflows = [step.workflow] if step.workflow else []
        if step.escalates:
            workflows.append(FORWARDING)
        self.done.update(workflows)
        self.params.update(step.params)
        reply = step.reply
        for name, value in variables.items():
            reply = reply.replace(f"{{{name}}}", str(value))
        done = dict(self.params), step.rules, step.integrations
        return Answer(reply, workflows, *done, is_error=step.fails)


@dataclass(frozen=True)
class Answer:
    """One answer of an agent of the demonstration, and what it did for it."""

    text: str
    workflows: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    integrations: list[str] = field(default_factory=list)
    is_error: bool = False
    status: int = 200
    """HTTP status of every integration that was called."""


@cache
def domains_by_agent() -> dict[str, Domain]:
    """Read every domain; return it by the id of its agent, which its suites name as `agentId`."""
    paths = sorted((BUNDLED / "domains").glob("*.json"))
    domains = [Domain.model_validate(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    return {each.agent_id: each for each in domains}


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
    """One way to be worse.

    `caught_by` are the strict checks that can see it; none where only a model or a human can.
    """

    does: str
    caught_by: frozenset[str]
    apply: Callable[[Answer, Context], Answer]


def _workflows(answer: Answer, to_a_human: bool) -> list[str]:
    return [name for name in answer.workflows if name.startswith(FORWARDING) == to_a_human]


DEFECTS: Mapping[str, Defect] = {
    "never-escalates": Defect(
        "hands nothing over to a human",
        frozenset({"escalated"}),
        lambda answer, _: replace(answer, workflows=_workflows(answer, to_a_human=False)),
    ),
    "escalates-when-lost": Defect(
        "hands over to a human what it does not understand",
        frozenset({"not_escalated"}),
        lambda answer, of: replace(answer, workflows=[*answer.workflows, *([FORWARDING] * of.is_lost)]),
    ),
    "runs-no-workflows": Defect(
        "says things, and does nothing",
        frozenset({"tool_used"}),
        lambda answer, _: replace(answer, workflows=_workflows(answer, to_a_human=True)),
    ),
    "runs-forbidden-workflows": Defect(
        "runs workflows that the case forbids",
        frozenset({"tool_not_used"}),
        lambda answer, of: replace(answer, workflows=list(dict.fromkeys((*of.workflows, *answer.workflows)))),
    ),
    "forgets-parameters": Defect(
        "keeps nothing of what the user says",
        frozenset({"param_exists", "param_equals"}),
        lambda answer, _: replace(answer, params={}),
    ),
    "misreads-parameters": Defect(
        "understands something else",
        frozenset({"param_equals"}),
        lambda answer, _: replace(answer, params=dict.fromkeys(answer.params, "something-else")),
    ),
    "invents-parameters": Defect(
        "knows things that the user did not say",
        frozenset({"param_not_exists"}),
        lambda answer, of: replace(answer, params={**dict.fromkeys(of.params, INVENTED), **answer.params}),
    ),
    "skips-rules": Defect(
        "applies no rule", frozenset({"rule_triggered"}), lambda answer, _: replace(answer, rules=[])
    ),
    "applies-forbidden-rules": Defect(
        "applies rules that do not hold",
        frozenset({"rule_not_triggered"}),
        lambda answer, of: replace(answer, rules=[*answer.rules, *of.rules]),
    ),
    "integrations-down": Defect(
        "gets HTTP 500 from every integration",
        frozenset({"integration_called"}),
        lambda answer, _: replace(answer, status=500),
    ),
    "hides-errors": Defect(
        "says that all is done where something failed",
        frozenset({"escalated_due_to_error"}),
        lambda answer, _: replace(answer, text="All done!", is_error=False) if answer.is_error else answer,
    ),
    "errors-when-lost": Defect(
        "answers with an error what it does not understand",
        frozenset({"not_escalated_due_to_error"}),
        lambda answer, of: replace(answer, is_error=answer.is_error or of.is_lost),
    ),
    "rude": Defect(
        "is impolite, and does everything right",
        frozenset(),
        lambda answer, _: replace(answer, text=f"{answer.text} Not my problem: stop bothering me."),
    ),
}
"""Ways to be worse, by their names in `--defect`."""

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
