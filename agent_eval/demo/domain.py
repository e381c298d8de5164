"""What the demonstration's agents know: for each domain, which message of a user leads to which answer.

A domain is a file in `agent_eval/bundled/domains`. Its steps are tried in order; the first one that fits a
message answers it:

    {"says": ["vacation", "time off"], "when": {"probation": "no"}, "after": "POLICY_QUESTION",
     "workflow": "TIME_OFF_REQUEST", "params": {"leave-type": "vacation"}, "rules": ["leave-balance"],
     "integrations": ["employee-information"], "reply": "You have {leave_balance_days} days left."}

A step fits where the message has one of the texts of `says`, in any letter case, where the user's variables
have the values of `when`, and where the workflow `after` has run in an earlier turn.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
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
        return Answer(
            reply,
            workflows,
            dict(self.params),
            step.rules,
            step.integrations,
            is_error=step.fails,
        )


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
