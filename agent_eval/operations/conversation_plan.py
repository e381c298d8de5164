"""`plan`: what a run of a suite of conversations would do, and about what it would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent_eval.contracts.aui import AuiTest, LlmEvaluation
from agent_eval.errors import InvalidInput
from agent_eval.models.catalog import DEFAULT_PROVIDER, MODELS
from agent_eval.suites.aui import AuiDocument
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.reader import open_suite
from agent_eval.suites.select import wanted_ids

TOKENS_OF_TURN = 150
"""Tokens of a message of the user and its answer, for estimates."""

TOKENS_OF_PROMPT = 700
TOKENS_OF_JUDGEMENT = 300
TOKENS_OF_MESSAGE = 60
"""Tokens that a model reads besides the conversation, and writes as a judge and as a user, for estimates."""


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """One test of a plan.

    Attributes:
        fixed: Messages that are sent as they are.
        simulated: `auto` turns that the test has itself.
        padding: `auto` turns that fill it up.
        strict: Strict evaluations by kind.
    """

    name: str
    fixed: int
    simulated: int
    padding: int
    strict: dict[str, int]
    criteria: int
    tags: Sequence[str]

    @property
    def turns(self) -> int:
        """Most turns of the conversation."""
        return self.fixed + self.simulated + self.padding

    def to_json(self) -> dict[str, Any]:
        """Return the test as plain data."""
        return {**asdict(self), "turns": self.turns, "tags": list(self.tags)}


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    `cost_usd` is what the model's calls would cost at most; None if its price is unknown.
    """

    suite: str
    agent: str
    model: str
    loops: int
    tests: list[PlannedTest]
    left_out: int
    cost_usd: float | None = None

    @property
    def strict(self) -> dict[str, int]:
        """Strict evaluations of all tests, by kind."""
        total: Counter[str] = Counter()
        for test in self.tests:
            total.update(test.strict)
        return dict(sorted(total.items()))

    @property
    def criteria(self) -> int:
        """Criteria of all tests that a model judges."""
        return sum(test.criteria for test in self.tests)

    @property
    def agent_calls(self) -> int:
        """Most messages to the agent: conversations may end early."""
        return self.loops * sum(test.turns for test in self.tests)

    @property
    def model_calls(self) -> tuple[int, int]:
        """Calls of the model as a judge, and most calls as a user."""
        simulated = sum(test.simulated + test.padding for test in self.tests)
        return self.loops * self.criteria, self.loops * simulated

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        judging, simulating = self.model_calls
        return {
            "suite": self.suite,
            "agent": self.agent,
            "model": self.model,
            "loops": self.loops,
            "tests": [test.to_json() for test in self.tests],
            "left_out": self.left_out,
            "evaluations": {"strict": self.strict, "llm": self.criteria},
            "agent_calls_at_most": self.agent_calls,
            "model_calls": {"judge": judging, "simulate_at_most": simulating},
            "estimated_cost_usd_at_most": self.cost_usd,
        }


def plan_suite(
    suite: Path,
    *,
    tests: Sequence[str] = (),
    tags: Sequence[str] = (),
    loops: int = 1,
    provider: str = DEFAULT_PROVIDER,
    llm_model: str | None = None,
    key_variables: Collection[str] = (KEY_VARIABLE,),
) -> Plan:
    """Plan a run of a suite of conversations.

    More than six parameters: they are the options of the command, of which only the first is required.

    Args:
        tests: Texts of which the names of the only tests have one; all when empty.
        tags: Tags of which the only tests have one; all when empty.
        llm_model: None for the suite's model, else the provider's default.
        key_variables: Environment variables that the suite may name for its key.

    Raises:
        InvalidInput: The suite has faults, or is one of cases.
        NothingMeasured: No test has such a name and such a tag.
    """
    source = open_suite(suite)
    document = source.document
    if not isinstance(document, AuiDocument) or document.suite is None:
        raise InvalidInput(
            f"{suite} is a suite of cases, and plan is for suites of conversations",
            remedy="Run it with `agent-eval run`.",
            file=str(suite),
        )
    for problem in document.key_problems(key_variables):
        raise problem.to_error(str(suite))
    wanted = set(wanted_ids(source, (), tests, tags))
    chosen = [test for test in document.suite.tests if not wanted or test.name in wanted]
    planned = [_planned(test) for test in chosen]
    model = llm_model or document.judge_model or default_model(provider)
    price = _price(planned, model)
    return Plan(
        suite=document.suite.name,
        agent=f"aui:{document.suite.agentId}",
        model=model,
        loops=loops,
        tests=planned,
        left_out=len(document.suite.tests) - len(chosen),
        cost_usd=None if price is None else round(loops * price, 4),
    )


def default_model(provider: str) -> str:
    """Return the model that a provider is asked for where none is named."""
    return str(getattr(MODELS[provider].load(), "default_model", provider))


def _planned(test: AuiTest) -> PlannedTest:
    simulated = sum(turn.is_auto for turn in test.turns)
    strict = Counter(str(each.strict) for each in test.evaluations if not isinstance(each, LlmEvaluation))
    return PlannedTest(
        name=test.name,
        fixed=len(test.turns) - simulated,
        simulated=simulated,
        padding=test.padding,
        strict=dict(sorted(strict.items())),
        criteria=len(test.evaluations) - strict.total(),
        tags=test.tags,
    )


def _price(tests: Sequence[PlannedTest], model: str) -> float | None:
    """Estimate what the calls of one loop cost, if every conversation has all its turns."""
    from agent_eval.models.usage import price_of

    read = written = 0
    for test in tests:
        conversation = test.turns * TOKENS_OF_TURN
        simulated = test.simulated + test.padding
        read += test.criteria * (TOKENS_OF_PROMPT + conversation)
        read += simulated * (TOKENS_OF_PROMPT + conversation // 2)
        written += test.criteria * TOKENS_OF_JUDGEMENT + simulated * TOKENS_OF_MESSAGE
    if not read:
        return 0.0
    price = price_of(model, {"input_tokens": read, "output_tokens": written})
    return None if price is None else float(price)
