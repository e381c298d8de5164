"""An agent that goes round in circles."""

from __future__ import annotations

from collections import Counter

from pydantic import Field

from agent_eval.contracts import Case, Event, Trace, Verdict
from agent_eval.contracts.trace import TOOL_CALL, TOOL_RESULT
from agent_eval.errors import FailureKind
from agent_eval.judges.fingerprints import call_fingerprint, longest_repeat, message_fingerprint
from agent_eval.judges.protocol import BaseJudge, JudgeConfig
from agent_eval.judges.wording import listed, named, quoted
from agent_eval.text.plurals import count


class LoopGuardConfig(JudgeConfig):
    """Where going on ends and a loop begins."""

    max_steps: int = Field(default=40, ge=1)
    """Events in the trace."""
    max_attempts: int = Field(default=3, ge=1)
    """Different values of `attempt`."""
    max_identical_assistant_messages: int = Field(default=3, ge=1)
    """Times the agent says the same, white space and letter case aside."""
    max_cycle_repeats: int = Field(default=3, ge=1)
    """Times in a row the same one or more tool calls come with the same arguments: A-B-A-B-A-B is 3."""
    max_cycle_length: int = Field(default=6, ge=1, le=50)
    """Calls in a cycle that is looked for."""


class LoopGuardJudge(BaseJudge[LoopGuardConfig]):
    """Finds too many steps or attempts, the same message again and again, and cycles of tool calls.

    Calls are compared as `retry_storm` does. The score is the share of the four limits kept.
    """

    judge_id = "loop_guard"
    Config = LoopGuardConfig

    def evaluate(self, case: Case, trace: Trace) -> Verdict:
        """See the class."""
        config, events = self.config, trace.events
        if not events:
            return self.error(case, "the trace has no events", FailureKind.MISSING_OUTPUT)
        problems: list[str] = []
        refs: list[int] = []
        if len(events) > config.max_steps:
            problems.append(f"the trace has {len(events)} events, more than {config.max_steps}")
        attempts = {event.attempt for event in events if event.attempt is not None}
        if len(attempts) > config.max_attempts:
            problems.append(f"{len(attempts)} attempts were made, more than {config.max_attempts}")
        for found, where in (self._cycle(events), self._same_message(events)):
            if found:
                problems.append(found)
                refs += where
        evidence = {"events": len(events), "attempts": len(attempts), "problems": problems}
        if problems:
            return self.failed(
                case,
                "; ".join(problems),
                FailureKind.LOOP,
                score=1 - len(problems) / 4,
                refs=refs,
                evidence=evidence,
            )
        return self.passed(case, f"no loop in {count(len(events), 'event')}", evidence=evidence)

    def _cycle(self, events: list[Event]) -> tuple[str, list[int]]:
        calls = [event for event in events if event.type == TOOL_CALL]
        prints = [call_fingerprint(event.tool or "", event.input) for event in calls]
        times, period, start = longest_repeat(prints, self.config.max_cycle_length)
        if times <= self.config.max_cycle_repeats:
            return "", []
        tools = listed(named(event.tool or "") for event in calls[start : start + period])
        what = "was called" if period == 1 else "were called"
        words = f"{tools} {what} {times} times in a row with the same arguments"
        return words, [event.idx for event in calls[start : start + times * period]]

    def _same_message(self, events: list[Event]) -> tuple[str, list[int]]:
        said = [
            (message_fingerprint(event.output), event)
            for event in events
            if event.is_agent and event.type not in (TOOL_CALL, TOOL_RESULT) and event.output is not None
        ]
        counts = Counter(text for text, _ in said if text)
        if not counts:
            return "", []
        text, times = counts.most_common(1)[0]
        if times <= self.config.max_identical_assistant_messages:
            return "", []
        where = [event for found, event in said if found == text]
        return f"the agent said {quoted(where[0].output)} {times} times", [event.idx for event in where]
