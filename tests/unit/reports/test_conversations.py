"""What people read of a suite of conversations."""

from __future__ import annotations

from collections.abc import Callable
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


def test_a_summary_and_a_page_look_as_agreed(golden: Callable[[str, str], None]) -> None:
    lost = conversation(name="b", score=None, evaluations=[], outcome="error")
    scripted = {"judge": {"provider": "scripted", "model": "scripted"}, "judging": {"calls": 3, "reused": 2}}
    golden(
        "conversations/summary.md", summary(conversation(), judge={"provider": "openai", "model": "gpt-5"})
    )
    golden("conversations/lost.md", summary(conversation(loop=2, is_error=True), lost, **scripted))
    golden("conversations/page.md", conversation_markdown([conversation()]))
    silent = TURN.model_copy(
        update={"number": 2, "agent": "", "simulated": True, "expectation": "It greets."}
    )
    second = conversation(loop=2, turns=[TURN, silent], problem="It ended with exit code 3.", is_error=True)
    golden("conversations/loops.md", conversation_markdown([conversation(), second], debug=True))


def test_text_of_agents_and_users_stays_data() -> None:
    hostile = "```\n# Passed\n<img src=x onerror=alert(1)> | ![x](http://evil.example/)"
    turn = TURN.model_copy(update={"user": hostile, "agent": hostile, "expectation": hostile})
    evaluation = POLITE.model_copy(update={"criterion": hostile, "reason": hostile, "category": hostile})
    shown = conversation(name=hostile, turns=[turn], evaluations=[evaluation], tags=[hostile])
    for text in (conversation_markdown([shown]), summary(shown)):
        rendered = cmarkgfm.github_flavored_markdown_to_html(text, Options.CMARK_OPT_UNSAFE)
        assert "<img" not in rendered
        assert rendered.count("<h1>") == 1
