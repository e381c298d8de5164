"""Read a suite in the format of the AUI evaluator as cases: conversations, with strict and LLM evaluations.

`reader.open_document` tells these suites apart by their fields, so every command that takes a suite takes
them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.contracts import SCHEMA_VERSION
from agent_eval.contracts.aui import AuiSuite, LlmEvaluation
from agent_eval.errors import UsageError
from agent_eval.suites.aui_faults import faults, faults_of_key, key_reference, warnings
from agent_eval.suites.document import WholeDocument
from agent_eval.suites.problems import Problem

JUDGES = ("strict", "llm")
"""Judges of a suite of conversations that name no others."""

STRICT, LLM, TAGS = "strict", "llm", "tags"
"""Members of a case's metadata: evaluations by what a conversation records, by a model, and tags."""


@dataclass(frozen=True, slots=True)
class SuiteAgent:
    """The agent that a suite of conversations is for.

    `key` is the API key, or `${NAME}` for the environment variable that has it. `model` is the one that the
    agent should use; None for its own.
    """

    agent_id: str
    key: str = field(repr=False)
    model: str | None = None

    @property
    def key_variable(self) -> str | None:
        """The environment variable that has the key; None if the suite has the key itself."""
        return key_reference(self.key)

    def resolved_key(self, environ: Mapping[str, str]) -> str:
        """Return the key itself.

        Raises:
            UsageError: The variable that the suite names is not set.
        """
        name = self.key_variable
        if name is None:
            return self.key
        if not environ.get(name, "").strip():
            raise UsageError(
                f"the suite's apiKey is ${{{name}}}, and the environment variable {name} is not set",
                remedy="Set it to the agent's network API key.",
                field="apiKey",
            )
        return environ[name].strip()


class AuiDocument(WholeDocument):
    """A suite of conversations as cases.

    Attributes:
        suite: The suite as it is written; None if it has faults. It stays in this process, since it may have
            a key.
        test_count: How many tests the file has, faulty ones included.
    """

    def __init__(self, path: Path, digest: str, payload: dict[str, Any]) -> None:
        problems = faults(payload)
        suite = None if problems else AuiSuite.model_validate(payload)
        super().__init__(path, digest, _as_suite(suite))
        self.problems, self.suite = problems, suite
        tests = payload.get("tests")
        self.test_count = len(tests) if isinstance(tests, list) else 0
        self._key: Any = payload.get("apiKey")
        self.format, self.default_judges = "aui", JUDGES
        self.warnings = [] if suite is None else list(warnings(payload))

    @property
    def agent(self) -> SuiteAgent | None:
        """The agent that the suite is for; None if the suite has faults."""
        suite = self.suite
        return None if suite is None else SuiteAgent(suite.agentId, suite.apiKey, suite.model or None)

    @property
    def judge_model(self) -> str | None:
        """The model that judges, where the suite names one."""
        return (self.suite.judgeModel or None) if self.suite is not None else None

    def key_problems(self, allowed: Collection[str]) -> list[Problem]:
        """List what is wrong with the name of a variable in `apiKey`.

        `allowed` are the environment variables that the operator lets suites name.
        """
        return list(faults_of_key(self._key, allowed))


def _as_suite(suite: AuiSuite | None) -> dict[str, Any]:
    """Write a suite as one of cases; an empty one in place of one with faults."""
    if suite is None:
        return {"dataset_id": "unknown", "cases": []}
    cases = []
    for test in suite.tests:
        turns: list[dict[str, Any]] = []
        for turn in test.turns:
            about = {"timeout": turn.timeout, "expectation": turn.expectation}
            turns.append({"auto": True} if turn.is_auto else {"input": turn.user})
            turns[-1] |= {name: value for name, value in about.items() if value}
        turns += [{"auto": True} for _ in range(test.padding)]
        conversation = {"guidelines": test.guidelines, "user_info": test.userInfo, "max_turns": len(turns)}
        if test.systemPrompt:
            conversation["system_prompt"] = test.systemPrompt
        judged: dict[str, list[dict[str, Any]]] = {STRICT: [], LLM: []}
        for evaluation in test.evaluations:
            kind = LLM if isinstance(evaluation, LlmEvaluation) else STRICT
            judged[kind].append(evaluation.model_dump(mode="json", exclude_unset=True))
        metadata = {**{kind: items for kind, items in judged.items() if items}, TAGS: list(test.tags)}
        of_test = {"case_id": test.name, "turns": turns, "conversation": conversation, "metadata": metadata}
        cases.append(of_test)
    stated = {"model": suite.model, "judge_model": suite.judgeModel}
    return {
        "dataset_id": suite.name,
        "metadata": {
            "schema_version": SCHEMA_VERSION,
            "format": "aui",
            "agent_id": suite.agentId,
            **{name: value for name, value in stated.items() if value},
        },
        "cases": cases,
    }
