"""`plan`: what a run of a suite of conversations would do, and about what it would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
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


def plan_suite(
    suite: Path,
    *,
    tests: Sequence[str] = (),
    tags: Sequence[str] = (),
    loops: int = 1,
    provider: str = DEFAULT_PROVIDER,
    llm_model: str | None = None,
    key_variables: Collection[str] = (KEY_VARIABLE,),
) -> dict[str, Any]:
    """Plan a run of a suite of conversations; returns what the command prints.

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
    default = str(getattr(MODELS[provider].load(), "default_model", provider))
    model = llm_model or document.judge_model or default
    strict: Counter[str] = Counter()
    for test in planned:
        strict.update(test["strict"])
    criteria = sum(test["criteria"] for test in planned)
    by_model = sum(test["simulated"] + test["padding"] for test in planned)
    price = _price(planned, model)
    return {
        "suite": document.suite.name,
        "agent": f"aui:{document.suite.agentId}",
        "model": model,
        "loops": loops,
        "tests": planned,
        "left_out": len(document.suite.tests) - len(chosen),
        "evaluations": {"strict": dict(sorted(strict.items())), "llm": criteria},
        # Conversations may end early.
        "agent_calls_at_most": loops * sum(test["turns"] for test in planned),
        "model_calls": {"judge": loops * criteria, "simulate_at_most": loops * by_model},
        "estimated_cost_usd_at_most": None if price is None else round(loops * price, 4),
    }


def _planned(test: AuiTest) -> dict[str, Any]:
    """Count the messages that are sent as they are, the `auto` turns, and those that fill the test up."""
    simulated = sum(turn.is_auto for turn in test.turns)
    strict = Counter(str(each.strict) for each in test.evaluations if not isinstance(each, LlmEvaluation))
    return {
        "name": test.name,
        "fixed": len(test.turns) - simulated,
        "simulated": simulated,
        "padding": test.padding,
        "strict": dict(sorted(strict.items())),
        "criteria": len(test.evaluations) - strict.total(),
        "tags": list(test.tags),
        "turns": len(test.turns) + test.padding,
    }


def _price(tests: Sequence[dict[str, Any]], model: str) -> float | None:
    """Estimate what the calls of one loop cost, if every conversation has all its turns; None if unknown."""
    from agent_eval.models.usage import price_of

    read = written = 0
    for test in tests:
        conversation = test["turns"] * TOKENS_OF_TURN
        simulated = test["simulated"] + test["padding"]
        read += test["criteria"] * (TOKENS_OF_PROMPT + conversation)
        read += simulated * (TOKENS_OF_PROMPT + conversation // 2)
        written += test["criteria"] * TOKENS_OF_JUDGEMENT + simulated * TOKENS_OF_MESSAGE
    if not read:
        return 0.0
    price = price_of(model, {"input_tokens": read, "output_tokens": written})
    return None if price is None else float(price)
