"""Render one case as markdown: what its judges object to, what the agent did otherwise, how to repeat it.

Every text of a case may be hostile.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from agent_eval.comparison.behaviour import ABSENT, START_UP_MS
from agent_eval.comparison.conversations import cut_together
from agent_eval.contracts import (
    BehaviourChange,
    CaseRegression,
    Comparison,
    JudgeChange,
    Metric,
    Outcome,
    RunBehaviour,
)
from agent_eval.contracts.comparison import ConversationChange, TurnPair
from agent_eval.reports.blocks import AMOUNTS, CRITERIA_SHOWN, amount, bullets, names, table
from agent_eval.reports.causes import is_crash, reasons_of
from agent_eval.reports.detail import Detail
from agent_eval.text.escape import code_span, fence
from agent_eval.text.numbers import count

_REASONS_SHOWN = 3
"""Reasons of judges that a case shows; further judges object to the same answer, and have their names."""
_RUNS_SHOWN = 8
_TOOLS_SHOWN = 8
_ARGUMENTS_SHOWN = 4
_ACTIONS_SHOWN = 12
_STANDS_OUT = 1.5
_COMMAND_LIMIT = 2_000
"""Characters. A command that is cut would do something else."""
_MARK = {
    Outcome.PASSED: "✅",
    Outcome.FAILED: "❌",
    Outcome.ERROR: "💥",
    Outcome.INCONCLUSIVE: "❔",
    Outcome.SKIPPED: "➖",
}
_SAYS = {
    Outcome.ERROR: "could not judge",
    Outcome.INCONCLUSIVE: "cannot tell",
    Outcome.SKIPPED: "has nothing to judge",
}
_NO_TURN, _NOTHING = "no such turn", "nothing"


def in_full(case: CaseRegression, comparison: Comparison, command: str, detail: Detail) -> list[str]:
    """Render one case with its judges, its behaviour and the command that repeats it, as blocks.

    How the behaviour of the whole run changed is not repeated for each case. `command` is empty for none.
    """
    change = next((each for each in comparison.behaviour_changes if each.case_id == case.case_id), None)
    conversation = next((each for each in comparison.conversations if each.case_id == case.case_id), None)
    lines = [*_judge_lines(case, detail), *_criterion_lines(case, conversation, detail)]
    if not case.judges:
        lines.append(f"{case.baseline_outcome.value} → {case.candidate_outcome.value}")
    if change is not None:
        run = comparison.behaviour
        if any(reason.is_of_amount for reason in reasons_of(case)):
            # What the case took is why it fails, whatever the whole run takes.
            run = run.model_copy(update={"shifts": []})
        lines += _behaviour_lines(change, run, detail, shows_turns=conversation is not None)
    blocks = [f"#### {detail.code(case.case_id)}", bullets(lines)]
    if conversation is not None:
        blocks += _turn_blocks(conversation, detail)
    if len(command) > _COMMAND_LIMIT:
        blocks.append("The command that repeats it is too long to be shown: `--case` takes the whole id.")
    elif command:
        blocks.append(fence(command, limit=_COMMAND_LIMIT, language="sh"))
    return blocks


def _judge_lines(case: CaseRegression, detail: Detail) -> Iterator[str]:
    """Say what judges object to, each cause once: the first judges in full, those after them by name."""
    crash = [judge for judge in case.judges if is_crash(judge)]
    if crash:
        yield from (
            f"{_MARK[Outcome.ERROR]} The agent did not finish: {detail.code(judge.reason)}" for judge in crash
        )
        if following := len(case.judges) - len(crash):
            yield f"So {count(following, 'more judge')} had nothing to judge."
        return
    alike: dict[tuple[Outcome | None, str], list[JudgeChange]] = {}
    for judge in case.judges:
        alike.setdefault((judge.candidate, judge.reason), []).append(judge)
    groups = list(alike.values())
    most = min(_REASONS_SHOWN, detail.ids) if len(groups) > 1 else 1
    for judges in groups[:most]:
        before, after, reason = judges[0].baseline, judges[0].candidate, judges[0].reason
        ids = names([judge.judge_id for judge in judges], most=detail.ids, limit=detail.quote)
        line = f"{_MARK[after] if after else '➖'} {ids}"
        if after is None:
            line += " no longer judges this case"
        elif after is Outcome.PASSED:
            line += f" passes now, was {before.value if before else 'absent'}"
        elif after in _SAYS:
            line += f" {_SAYS[after]}"
        yield f"{line}: {detail.code(reason)}" if reason and after is not Outcome.PASSED else line
    if others := [judge.judge_id for judges in groups[most:] for judge in judges]:
        yield f"and {names(others, most=detail.ids, limit=detail.quote)}"


def _criterion_lines(
    case: CaseRegression, conversation: ConversationChange | None, detail: Detail
) -> Iterator[str]:
    for judge in case.judges[: detail.ids]:
        worse = conversation.worse(judge.judge_id) if conversation is not None else []
        for each in worse[:CRITERIA_SHOWN]:
            line = (
                f"{_MARK[each.candidate] if each.candidate else '➖'} Criterion {detail.code(each.criterion)}"
            )
            # A judge with one objection has said the reason in its own line.
            is_said = len(worse) == 1 and each.reason and each.reason in judge.reason
            yield line if is_said else f"{line}: {detail.code(each.reason)}"
        if len(worse) > CRITERIA_SHOWN:
            yield f"and {count(len(worse) - CRITERIA_SHOWN, 'more criterion', 'more criteria')}"


def _behaviour_lines(
    change: BehaviourChange, run: RunBehaviour, detail: Detail, *, shows_turns: bool
) -> Iterator[str]:
    """List how one case's behaviour changed: calls, arguments, output, models, amounts.

    How the behaviour of the whole `run` changed is not repeated for each case. With `shows_turns`, the turns
    of a conversation, with the agent's answers, are shown beside it.
    """
    if change.calls_changed:
        arguments = list(_arguments(change, detail))
        # Equal names need no line of their own where the arguments say what changed.
        if not arguments or _names_changed(change):
            yield f"Calls: {_calls(change, detail)}"
        yield from arguments
    if change.output_changed and not shows_turns:
        outputs = {"before": change.baseline_output, "now": change.candidate_output}
        if list(outputs.values()) == [None, None]:
            yield "Output changed"
        else:
            for when, output in outputs.items():
                yield f"Output {when}: {_NOTHING if output is None else detail.code(output)}"
    if change.model_changed and not run.model_changed:
        before, after = (", ".join(models) for models in (change.baseline_models, change.candidate_models))
        yield f"Model: {_became(before, after, detail)}"
    totals = {metric.name: metric for metric in run.shifts}
    moved = [
        f"{AMOUNTS[each.name]} {amount(each.name, each.baseline)} → {amount(each.name, each.candidate)}"
        for each in change.metrics
        if _stands_out(each, totals.get(each.name))
    ]
    if moved:
        yield f"Usage: {'; '.join(moved)}"


def _became(before: str, after: str, detail: Detail) -> str:
    return f"{detail.code(before)} became {detail.code(after)}"


def _calls(change: BehaviourChange, detail: Detail) -> str:
    """Say how the calls changed: both chains where they are short, else how many calls of which tools."""
    chains, totals, are_short = [], [], True
    for listed, number in (
        (change.baseline_calls, change.baseline_call_count),
        (change.candidate_calls, change.candidate_call_count),
    ):
        # A comparison of an older version does not count them.
        total = len(listed) if number is None else number
        runs = [(tool, sum(1 for _ in group)) for tool, group in groupby(listed)]
        hidden = total - sum(times for _, times in runs[:_RUNS_SHOWN])
        links = [f"{tool} ×{times:,}" if times > 1 else tool for tool, times in runs[:_RUNS_SHOWN]]
        links += [f"… {hidden:,} more"] if hidden else []
        chains.append(" → ".join(links) or "no call")
        totals.append(total)
        are_short = are_short and len(runs) <= _RUNS_SHOWN and not hidden
    if not _names_changed(change):
        return f"{detail.code(chains[1])} with other arguments"
    if are_short and chains[0] != chains[1]:
        return _became(chains[0], chains[1], detail)
    before, after = totals
    parts = [f"{before:,} before and now" if before == after else f"{before:,} became {after:,}"]
    for kind in ("added", "removed", "moved"):
        if tools := _counted(change, kind):
            listed = [f"{tool} ×{times:,}" if times > 1 else tool for tool, times in tools[:_TOOLS_SHOWN]]
            more = [f"… {len(tools) - _TOOLS_SHOWN} more tools"] if len(tools) > _TOOLS_SHOWN else []
            parts.append(f"{kind} {detail.code(', '.join([*listed, *more]))}")
    return "; ".join(parts)


def _names_changed(change: BehaviourChange) -> bool:
    """Whether other tools were called, or in another order."""
    if change.baseline_call_count is None:
        return change.baseline_calls != change.candidate_calls
    return any(counted.kind != "arguments" for counted in change.call_counts)


def _counted(change: BehaviourChange, kind: str) -> list[tuple[str, int]]:
    if change.call_counts:
        return [(counted.tool, counted.count) for counted in change.call_counts if counted.kind == kind]
    return list(Counter(step.tool for step in change.calls if step.kind == kind).items())


def _arguments(change: BehaviourChange, detail: Detail) -> Iterator[str]:
    changed = [
        (step.tool, path, *map(_short, values))
        for step in change.calls
        for path, values in (step.arguments or {}).items()
    ]
    for tool, path, before, after in changed[:_ARGUMENTS_SHOWN]:
        yield f"Argument {detail.code(path)} of {detail.code(tool)}: {_became(before, after, detail)}"
    listed = sum(step.kind == "arguments" for step in change.calls)
    calls = sum(times for _, times in _counted(change, "arguments"))
    if changed and calls > listed:
        yield f"and more arguments, in {calls:,} calls in all"
    elif len(changed) > _ARGUMENTS_SHOWN:
        yield f"and {count(len(changed) - _ARGUMENTS_SHOWN, 'more argument')} changed"


def _short(value: Any) -> str:
    if value == ABSENT:
        return ABSENT  # without the quotation marks of a value that was given
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _stands_out(metric: Metric, total: Metric | None) -> bool:
    """Whether a case's figure moved by half or more, relative to the whole run's."""
    if metric.name not in AMOUNTS or not metric.baseline or metric.candidate is None:
        return False
    if metric.name == "latency_ms" and abs(metric.candidate - metric.baseline) < START_UP_MS:
        return False
    usual = total.candidate / total.baseline if total and total.baseline and total.candidate else 1.0
    ratio = metric.candidate / metric.baseline / usual
    return ratio >= _STANDS_OUT or ratio <= 1 / _STANDS_OUT


def _turn_blocks(change: ConversationChange, detail: Detail) -> Iterator[str]:
    """Render the first turn that differs, and how the conversation ended in each run, if that differs.

    The page has the other turns.
    """
    first = change.first_differing
    if first is not None:
        differing = sum(turn.differs for turn in change.turns)
        which = f"the first of {differing} that differ" if differing > 1 else "the only one that differs"
        is_only = max(change.baseline_turns, change.candidate_turns) == 1
        yield "**The only turn**:" if is_only else f"**Turn {first.number}**, {which}:"
        yield from _side_by_side(first, detail)
    ends = (
        (change.baseline_turns, change.baseline_end),
        (change.candidate_turns, change.candidate_end),
    )
    if ends[0] != ends[1]:
        before, now = (
            count(turns, "turn") + (f" (ended by {code_span(end, limit=40)})" if end else "")
            for turns, end in ends
        )
        yield f"The conversation had {before} in the baseline, and has {now} now."


def _side_by_side(turn: TurnPair, detail: Detail) -> Iterator[str]:
    """List what is the same in both runs once, and render the rest as a table, a column for each run."""

    def did(actions: Sequence[str]) -> str:
        codes = [detail.code(action) for action in actions[:_ACTIONS_SHOWN]]
        hidden = len(actions) - len(codes)
        return ", ".join([*codes, *([f"and {hidden} more"] if hidden else [])]) or _NOTHING

    before, now = turn.baseline, turn.candidate
    same, rows = [], []
    for name in ("user", "agent"):
        texts = [getattr(side, name) if side is not None else None for side in (before, now)]
        if texts[0] == texts[1]:
            same.append((name.capitalize(), detail.code(texts[0]) if texts[0] else _NOTHING))
        else:
            excerpts = cut_together(texts[0] or "", texts[1] or "", limit=detail.quote)
            quoted = [detail.code(each) if each else _NOTHING for each in excerpts]
            rows.append(
                [
                    name.capitalize(),
                    *(_NO_TURN if text is None else cut for text, cut in zip(texts, quoted, strict=True)),
                ]
            )
    if before is not None and now is not None:
        same.append(("Did", did([action for action in now.actions if action in before.actions])))
    apart = []
    for side, other in ((before, now), (now, before)):
        actions = side.actions if side is not None else []
        # All of them where only their order differs.
        if other is not None and (actions == other.actions or {*actions} != {*other.actions}):
            actions = [action for action in actions if action not in other.actions]
        apart.append(did(actions))
    if apart != [_NOTHING, _NOTHING]:
        rows.append(["Did", *apart])
    if listed := bullets(f"{name}: {text}" for name, text in same if text != _NOTHING):
        yield listed
    if rows:
        yield table(("", "Baseline", "Now"), (":--", ":--", ":--"), rows)
