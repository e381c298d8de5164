"""Render the results of a suite of conversations as markdown: a summary, and a page for each test."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, partial

import jinja2

from agent_eval.contracts.conversation_result import ConversationResult, EvaluationResult, SuiteResult
from agent_eval.reports.layout import Markdown, templates
from agent_eval.text.escape import code_span, fence, plain, prose
from agent_eval.text.numbers import count

_LONGEST = 20_000
"""Characters of a message that a page shows."""

_MARKS = {"passed": "✅", "failed": "❌", "inconclusive": "❔", "error": "⚠️"}


def summary_markdown(result: SuiteResult, files: Mapping[str, str] | None = None) -> str:
    """Render the summary of a suite: score, pass rate, tests, and breakdowns.

    Every text in the result may be hostile. `files` has the names of the pages of tests, by test.
    """
    judging = result.judging
    used = [
        count(int(judging["calls"]), "call") if "calls" in judging else "",
        f"{int(judging['reused'])} reused" if judging.get("reused") else "",
        f"{judging['cost_usd']:.4f} USD" if "cost_usd" in judging else "",
    ]
    agent = (result.agent.get("agent"), result.agent.get("agent_id"))
    judge = (result.judge.get("provider"), result.judge.get("model"))
    text = _template("suite.md.j2").render(
        result=result,
        rate=None if result.pass_rate is None else result.pass_rate * 100,
        files=files or {},
        breakdowns=(
            ("By Category", "Category", "evaluations", result.by_category),
            ("By AUI Logic", "AUI logic", "evaluations", result.by_aui_logic),
            ("By Tag", "Tag", "tests", result.by_tag),
        ),
        facts=(
            ("Agent", " ".join(str(value) for value in agent if value)),
            ("Judge", " ".join(str(value) for value in judge if value)),
            ("Run", result.run_id),
            ("Started", result.started_at),
            ("Judging", ", ".join(filter(None, used))),
        ),
    )
    return f"{text.rstrip()}\n"


def format_suite_result(result: SuiteResult) -> str:
    """Write the result of `agent_eval.run_suite` as markdown; every text in it may be hostile."""
    return summary_markdown(result)


def conversation_markdown(conversations: Sequence[ConversationResult], *, debug: bool = False) -> str:
    """Render the page of one test: for each of its conversations the evaluations and all turns.

    Each loop is a conversation. With `debug`, the agent's raw responses are shown.
    """
    text = _template("conversation.md.j2").render(
        first=conversations[0], conversations=conversations, debug=debug
    )
    return f"{text.rstrip()}\n"


def percent_text(score: float | None) -> str:
    """Write a score as it is shown.

    Example:
        >>> percent_text(87.5), percent_text(100.0), percent_text(None)
        ('87.5 %', '100 %', 'none')
    """
    return "none" if score is None else f"{score:.1f}".removesuffix(".0") + " %"


@cache
def _template(name: str) -> jinja2.Template:
    def score(value: float | None) -> Markdown:
        return Markdown(percent_text(value))

    def mark(of: ConversationResult | EvaluationResult) -> Markdown:
        return Markdown(_MARKS["passed" if of.passed else of.outcome if of.outcome in _MARKS else "failed"])

    def about(evaluation: EvaluationResult) -> str:
        """What kind of criterion it is, what it weighs, and what it is grouped by."""
        kind = f"strict: {evaluation.strict}" if evaluation.strict else "LLM"
        group = [evaluation.category] if evaluation.category else []
        advisory = ["advisory"] if evaluation.advisory else []
        return "; ".join([kind, f"weight {evaluation.weight:g}", *group, *evaluation.aui_logic, *advisory])

    def text(value: str, limit: int = 120) -> Markdown:
        return Markdown(plain(value, limit=limit))

    # Whatever no filter has made markdown is escaped as a name.
    environment = templates().overlay(
        finalize=lambda value: value if isinstance(value, Markdown | int) or value == "" else text(value)
    )
    environment.filters = environment.filters | {
        "score": score,
        "mark": mark,
        "about": about,
        "text": text,
        "prose": lambda value, limit=400: Markdown(prose(value, limit=limit)),
        "codes": lambda values: Markdown(", ".join(map(code_span, values))),
        "fence": lambda value, language="text": Markdown(fence(value, limit=_LONGEST, language=language)),
        "json": partial(json.dumps, indent=2, ensure_ascii=False, sort_keys=True),
        "counted": lambda number, what: Markdown(count(number, what)),
    }
    return environment.get_template(name)
