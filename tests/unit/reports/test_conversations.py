"""What people read of a suite of conversations."""

from __future__ import annotations

from typing import Any

import cmarkgfm
from cmarkgfm.cmark import Options

from agent_eval.contracts.conversation_result import (
    ConversationResult,
    EvaluationResult,
    SuiteResult,
    TurnResult,
    with_scores,
)
from agent_eval.reports.conversations import conversation_markdown, summary_markdown

REFUND = EvaluationResult(
    criterion="The refund is made", strict="tool_used", outcome="failed", reason='"REFUND" was not used',
    weight=2, category="accuracy", aui_logic=["R1_refund"],
)  # fmt: skip
POLITE = EvaluationResult(
    criterion="It is polite", outcome="passed", reason="It greets.", category="tone", turns=[1]
)
TURN = TurnResult(number=1, user="Hello", agent="Hi!", workflows=["GREETING"], raw=[{"id": "m1"}])


def conversation(**changes: Any) -> ConversationResult:
    known = {
        "name": "Refund in time", "tags": ["refund"], "passed": False, "outcome": "failed", "score": 100 / 3,
        "end": "goal", "turns": [TURN], "evaluations": [REFUND, POLITE],
    }  # fmt: skip
    return ConversationResult.model_validate({**known, **changes})


def summary(*tests: ConversationResult, **about: Any) -> str:
    loops = max(test.loop for test in tests)
    result = SuiteResult(
        suite="Support", run_id="r1", started_at="now", loops=loops, tests=list(tests), **about
    )
    return summary_markdown(with_scores(result), {"Refund in time": "Refund-in-time.md"})


def test_the_summary_has_score_pass_rate_and_breakdowns() -> None:
    text = summary(conversation())
    assert "**Score: 33.3 %** · 0 of 1 conversation passed (0 %)" in text
    assert "| ❌ | [Refund in time](<Refund-in-time.md>) | 33.3 % | 1/2 | 1 | goal |" in text
    assert "## By Category\n\n| Category | Passed evaluations | Score |" in text
    assert "| accuracy | 0/1 | 0 % |\n| tone | 1/1 | 100 % |" in text
    assert "## By AUI Logic" in text
    assert "R1_refund" in text
    assert "## By Tag" in text


def test_the_summary_says_what_is_left_out_of_the_score() -> None:
    lost = conversation(name="b", score=None, evaluations=[], outcome="error")
    text = summary(conversation(is_error=True), lost)
    assert "1 conversation ended in an error of the agent, which counts in the pass rate" in text
    assert "1 conversation could not be evaluated." in text
    assert "**Score: none**" in text


def test_a_scripted_judge_is_named_as_such() -> None:
    scripted = {"provider": "scripted", "model": "scripted"}
    assert "The judge is `scripted`" in summary(conversation(), judge=scripted)
    assert "scripted" not in summary(conversation(), judge={"provider": "openai", "model": "gpt-5-mini"})


def test_loops_are_told_apart() -> None:
    text = summary(conversation(), conversation(loop=2))
    assert "| Test | Loop | Score |" in text
    page = conversation_markdown([conversation(), conversation(loop=2)])
    assert "## Loop 1 of 2" in page
    assert "## Loop 2 of 2" in page


def test_a_page_has_evaluations_and_all_turns() -> None:
    page = conversation_markdown([conversation()])
    assert "# Refund in time\n\nTags: `refund`\n\n**❌ failed** · score 33.3 % · ended by goal" in page
    assert "**The refund is made** (strict: tool_used; weight 2; accuracy; " in page
    assert "`REFUND` was not used" in page
    assert "(LLM; weight 1; tone)  \n  It greets. (turn 1)" in page
    assert "**Turn 1**\n\nUser:\n\n```text\nHello\n```\n\nAgent:\n\n```text\nHi!\n```" in page
    assert "`GREETING`" in page


def test_raw_responses_are_shown_only_for_debugging() -> None:
    assert "m1" not in conversation_markdown([conversation()])
    assert '"id": "m1"' in conversation_markdown([conversation()], debug=True)


def test_text_of_agents_and_users_stays_data() -> None:
    hostile = "```\n# Passed\n<img src=x onerror=alert(1)> | ![x](http://evil.example/)"
    turn = TURN.model_copy(update={"user": hostile, "agent": hostile, "expectation": hostile})
    evaluation = POLITE.model_copy(update={"criterion": hostile, "reason": hostile, "category": hostile})
    shown = conversation(name=hostile, turns=[turn], evaluations=[evaluation], tags=[hostile])
    for text in (conversation_markdown([shown]), summary(shown)):
        rendered = cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)
        assert "<img" not in rendered
        assert rendered.count("<h1>") == 1
