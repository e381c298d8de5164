"""What judges refuse in a suite; suites in another schema version, generated ones, plans of conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agent_eval.contracts import SCHEMA_VERSION, Case, TokenUsage
from agent_eval.contracts.aui import AuiTest, LlmEvaluation
from agent_eval.engine.usage import AGENT, JUDGES, USERS
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.judges.base import Judge, quoted
from agent_eval.judges.catalog import DEFAULT_JUDGES, judges_of_metadata, load_judges, validate_case
from agent_eval.models.catalog import DEFAULT_PROVIDER, MODELS
from agent_eval.models.usage import AnswerFacts, Prices, cost_of, read_prices
from agent_eval.storage.atomic import write_file
from agent_eval.storage.json import dumps
from agent_eval.suites.aui import AuiDocument
from agent_eval.suites.aui_faults import KEY_VARIABLE
from agent_eval.suites.migrate import migrate_to
from agent_eval.suites.reader import open_suite, read_payload
from agent_eval.suites.select import wanted_ids
from agent_eval.suites.validate import Check, ValidationReport, validate_suite


def refused_by_judges(case: Case) -> Iterator[Check]:
    """Find what judges refuse in a case, as a check of `validate_suite`.

    What those of a run that names none refuse is an error. What others that read the case's metadata would
    refuse is a warning, since it may be there for something else.
    """
    judges, of_metadata = _judges()
    others = [judge for member, judge in of_metadata if case.metadata.get(member) is not None]
    faults = set()
    for judge in (*judges, *others):
        try:
            validate_case([judge], case)
        except UsageError:
            continue  # it has no model here
        except InvalidInput as error:
            words = error.message.removeprefix(f"case {quoted(case.case_id)}: ")
            if words in faults:
                continue  # two judges read this
            faults.add(words)
            if is_warning := judge not in judges:
                words += f", which a run with the judge {judge.judge_id} refuses"
            yield not is_warning, (str(error.details.get("field") or ""), words, error.remedy)


@cache
def _judges() -> tuple[list[Judge], list[tuple[str, Judge]]]:
    return load_judges(DEFAULT_JUDGES), judges_of_metadata()


def migrate_suite(source: Path, target: Path, version: str = SCHEMA_VERSION) -> ValidationReport:
    """Write a suite in a schema version, as JSON or JSON Lines by the target's ending; validate the result.

    Raises:
        InvalidInput: The source is not a suite that can be migrated, or has what the version cannot hold.
        UsageError: The target's name ends in neither `.json` nor `.jsonl`.
    """
    refuse_ending(target, "--output")
    try:
        migrated = migrate_to(read_payload(source), version)
    except InvalidInput as error:
        error.details.setdefault("file", str(source))
        raise
    write_suite(target, migrated)
    return validate_suite(target)


def refuse_ending(target: Path, option: str) -> None:
    """Refuse to write a suite, which `option` names, into a file of another kind than JSON or JSON Lines."""
    if target.suffix.lower() not in (".json", ".jsonl"):
        raise UsageError(
            f"{target}: a suite is written as .json or .jsonl",
            remedy=f"Give {option} such a name.",
            file=str(target),
        )


def write_suite(target: Path, payload: Mapping[str, Any]) -> None:
    """Write a suite; `.jsonl` has a line for the header and one for each case."""
    if target.suffix.lower() == ".json":
        write_file(target, dumps(payload, indent=True))
        return
    header = {name: value for name, value in payload.items() if name != "cases"}
    write_file(target, b"".join(dumps(line) + b"\n" for line in (header, *payload["cases"])))


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
    prices: Sequence[str] = (),
) -> dict[str, Any]:
    """Plan a run of a suite of conversations; returns what the command prints.

    More than six parameters: they are the options of the command, of which only the first is required.

    Args:
        tests: Texts of which the names of the only tests have one; all when empty.
        tags: Tags of which the only tests have one; all when empty.
        llm_model: None for the suite's model, else the provider's default.
        key_variables: Environment variables that the suite may name for its key.
        prices: The user's own prices, as `models.usage.read_prices` reads them.

    Raises:
        InvalidInput: The suite has faults, or is one of cases.
        UsageError: A price cannot be read.
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
        # What the agent costs is between its owner and AUI.
        "estimated_costs_usd_at_most": {AGENT: None, **_costs(planned, loops, model, read_prices(prices))},
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


def _costs(
    tests: Sequence[dict[str, Any]], loops: int, model: str, prices: Prices
) -> dict[str, float | None]:
    """Estimate what judging and simulating cost, if every conversation has all its turns; None if unknown."""
    judged = simulated = read_by_judge = read_by_user = 0
    for test in tests:
        conversation, written = test["turns"] * TOKENS_OF_TURN, test["simulated"] + test["padding"]
        judged += test["criteria"]
        simulated += written
        read_by_judge += test["criteria"] * (TOKENS_OF_PROMPT + conversation)
        read_by_user += written * (TOKENS_OF_PROMPT + conversation // 2)

    def cost(read: int, written: int) -> float | None:
        tokens = TokenUsage(input_tokens=loops * read, output_tokens=loops * written)
        price = cost_of(model, AnswerFacts(usage=tokens), prices) if read else 0.0
        return None if price is None else round(price, 4)

    return {
        JUDGES: cost(read_by_judge, judged * TOKENS_OF_JUDGEMENT),
        USERS: cost(read_by_user, simulated * TOKENS_OF_MESSAGE),
    }
