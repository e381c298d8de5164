"""Render the results of a suite of conversations as markdown: a summary, and a page for each test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from agent_eval.contracts.conversation_result import (
    ConversationResult,
    EvaluationResult,
    GroupScore,
    SuiteResult,
    TurnResult,
)
from agent_eval.reports.blocks import document, folded, table
from agent_eval.text.escape import code_span, fence, plain, prose
from agent_eval.text.numbers import count

_LONGEST = 20_000
"""Characters of a message that a page shows."""

_MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "❔", "error": "⚠️"}
_RIGHT, _LEFT = "--:", ":--"


def summary_markdown(result: SuiteResult, files: Mapping[str, str] | None = None) -> str:
    """Render the summary of a suite: score, pass rate, tests, and breakdowns.

    Every text in the result may be hostile. `files` has the names of the pages of tests, by test.
    """
    return document(
        [
            f"# {plain(result.suite)}",
            *_scores(result),
            "## Tests",
            _tests(result, files or {}),
            *_groups("By Category", "Category", result.by_category, "evaluations"),
            *_groups("By AUI Logic", "AUI logic", result.by_aui_logic, "evaluations"),
            *_groups("By Tag", "Tag", result.by_tag, "tests"),
            *_facts(result),
        ]
    )


def format_suite_result(result: SuiteResult) -> str:
    """Write the result of `agent_eval.run_suite` as markdown; every text in it may be hostile."""
    return summary_markdown(result)


def conversation_markdown(conversations: Sequence[ConversationResult], *, debug: bool = False) -> str:
    """Render the page of one test: for each of its conversations the evaluations and all turns.

    Each loop is a conversation. With `debug`, the agent's raw responses are shown.
    """
    first = conversations[0]
    blocks = [f"# {plain(first.name, limit=300)}"]
    if first.tags:
        blocks.append("Tags: " + ", ".join(code_span(tag) for tag in first.tags))
    for conversation in conversations:
        if len(conversations) > 1:
            blocks.append(f"## Loop {conversation.loop} of {len(conversations)}")
        blocks += _conversation(conversation, debug=debug)
    return document(blocks)


def percent_text(score: float | None) -> str:
    """Write a score as it is shown.

    Example:
        >>> percent_text(87.5), percent_text(100.0), percent_text(None)
        ('87.5 %', '100 %', 'none')
    """
    return "none" if score is None else f"{score:.1f}".removesuffix(".0") + " %"


def _scores(result: SuiteResult) -> Iterator[str]:
    rate = percent_text(None if result.pass_rate is None else result.pass_rate * 100)
    passed = f"{result.passed_tests} of {count(len(result.tests), 'conversation')} passed ({rate})"
    yield f"**Score: {percent_text(result.score)}** · {passed}"
    if result.error_tests:
        number = count(result.error_tests, "conversation")
        yield (
            f"{number} ended in an error of the agent, which counts in the pass rate that the gate decides "
            "by, and not in the score."
        )
    if result.not_evaluated:
        yield f"{count(result.not_evaluated, 'conversation')} could not be evaluated."
    if result.judge.get("provider") == "scripted":
        yield "The judge is `scripted`: its verdicts are from a file, and no model gave them."


def _tests(result: SuiteResult, files: Mapping[str, str]) -> str:
    looped = result.loops > 1
    rows = []
    for test in result.tests:
        name = plain(test.name, limit=100)
        if test.name in files:
            name = f"[{name}](<{files[test.name]}>)"
        passed = sum(each.passed for each in test.evaluations)
        score = "error" if test.is_error else percent_text(test.score)
        rows.append(
            [
                _MARKS["passed" if test.passed else _mark(test)],
                name,
                *([str(test.loop)] if looped else []),
                score,
                f"{passed}/{len(test.evaluations)}",
                str(len(test.turns)),
                plain(test.end) if test.end else "",
            ]
        )
    header = ["", "Test", *(["Loop"] if looped else []), "Score", "Evaluations", "Turns", "End"]
    align = [_LEFT, _LEFT, *([_RIGHT] if looped else []), _RIGHT, _RIGHT, _RIGHT, _LEFT]
    return table(header, align, rows)


def _mark(test: ConversationResult) -> str:
    return test.outcome if test.outcome in ("error", "inconclusive") else "failed"


def _groups(title: str, name: str, groups: Sequence[GroupScore], of: str) -> Iterator[str]:
    if not groups:
        return
    rows = [
        [plain(group.name, limit=100), f"{group.passed}/{group.total}", percent_text(group.score)]
        for group in groups
    ]
    yield f"## {title}"
    yield table([name, f"Passed {of}", "Score"], [_LEFT, _RIGHT, _RIGHT], rows)


def _facts(result: SuiteResult) -> Iterator[str]:
    agent = " ".join(
        str(value) for value in (result.agent.get("agent"), result.agent.get("agent_id")) if value
    )
    judge = " ".join(
        str(value) for value in (result.judge.get("provider"), result.judge.get("model")) if value
    )
    facts = {
        "Agent": agent,
        "Judge": judge,
        "Run": result.run_id,
        "Started": result.started_at,
        "Judging": _judging(result.judging),
    }
    yield "\n".join(f"- {name}: {code_span(value)}" for name, value in facts.items() if value)


def _judging(judging: Mapping[str, float]) -> str:
    calls, reused = judging.get("calls"), judging.get("reused")
    cost = judging.get("cost_usd")
    parts = [
        count(int(calls), "call") if calls is not None else "",
        f"{int(reused)} reused" if reused else "",
        f"{cost:.4f} USD" if cost is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _conversation(test: ConversationResult, *, debug: bool) -> Iterator[str]:
    score = "error, left out of the suite's score" if test.is_error else percent_text(test.score)
    word = "passed" if test.passed else test.outcome
    end = f" · ended by {plain(test.end)}" if test.end else ""
    yield f"**{_MARKS['passed' if test.passed else _mark(test)]} {word}** · score {score}{end}"
    if test.problem:
        yield prose(test.problem, limit=1000)
    if test.evaluations:
        yield "### Evaluations"
        yield "\n".join(_evaluation(each) for each in test.evaluations)
    yield "### Conversation"
    for turn in test.turns:
        yield from _turn(turn, debug=debug)


def _evaluation(evaluation: EvaluationResult) -> str:
    about = [
        f"strict: {evaluation.strict}" if evaluation.strict else "LLM",
        f"weight {evaluation.weight:g}",
        *([evaluation.category] if evaluation.category else []),
        *evaluation.aui_logic,
        *(["advisory"] if evaluation.advisory else []),
    ]
    where = f" (turn {', '.join(map(str, evaluation.turns))})" if evaluation.turns else ""
    reason = prose(evaluation.reason, limit=2000)
    return (
        f"- {_MARKS[evaluation.outcome]} **{plain(evaluation.criterion, limit=500)}** "
        f"({plain('; '.join(about), limit=300)})  \n  {reason}{where}"
    )


def _turn(turn: TurnResult, *, debug: bool) -> Iterator[str]:
    source = " (simulated)" if turn.simulated else ""
    yield f"**Turn {turn.number}**"
    if turn.user:
        yield f"User{source}:\n\n{fence(turn.user, limit=_LONGEST)}"
    if turn.expectation:
        yield f"Expected: {prose(turn.expectation)}"
    yield f"Agent:\n\n{fence(turn.agent, limit=_LONGEST)}" if turn.agent else "Agent: no message"
    if turn.workflows:
        yield "Workflows: " + ", ".join(code_span(name) for name in turn.workflows)
    if debug:
        for raw in turn.raw:
            text = json.dumps(raw, indent=2, ensure_ascii=False, sort_keys=True)
            yield folded("Raw response", [fence(text, limit=_LONGEST, language="json")])
