"""Render one case as markdown: what its judges object to, what the agent did otherwise, how to repeat it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from agent_eval.comparison.behaviour import ABSENT, START_UP_MS
from agent_eval.contracts import (
    BehaviourChange,
    CaseRegression,
    Comparison,
    JudgeChange,
    Metric,
    Outcome,
    RunBehaviour,
)
from agent_eval.contracts.comparison import ConversationChange
from agent_eval.reports.blocks import AMOUNTS, amount, bullets, names
from agent_eval.reports.causes import is_crash, reasons_of
from agent_eval.reports.detail import Detail
from agent_eval.reports.turns import CRITERIA_SHOWN, turn_blocks, worse_criteria
from agent_eval.text.escape import code_span, fence
from agent_eval.text.numbers import count

_REASONS_SHOWN = 3
"""Reasons of judges that a case shows; further judges object to the same answer, and have their names."""
_RUNS_SHOWN = 8
_TOOLS_SHOWN = 8
_ARGUMENTS_SHOWN = 4
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


def in_full(case: CaseRegression, comparison: Comparison, command: str, detail: Detail) -> list[str]:
    """Render one case with its judges, its behaviour and the command that repeats it, as blocks.

    How the behaviour of the whole run changed is not repeated for each case. `command` is empty for none.
    """
    change = next((each for each in comparison.behaviour_changes if each.case_id == case.case_id), None)
    conversation = next((each for each in comparison.conversations if each.case_id == case.case_id), None)
    lines = list(_judge_lines(case, detail))
    lines += _criterion_lines(case, conversation, detail)
    if not case.judges:
        lines.append(f"{case.baseline_outcome.value} → {case.candidate_outcome.value}")
    if change is not None:
        run, shows_turns = comparison.behaviour, conversation is not None
        if any(reason.is_of_amount for reason in reasons_of(case)):
            # What the case took is why it fails, whatever the whole run takes.
            run = run.model_copy(update={"shifts": []})
        lines += _behaviour_lines(change, run, detail, shows_turns=shows_turns)
    blocks = [f"#### {code_span(case.case_id, limit=detail.quote)}", bullets(lines)]
    if conversation is not None:
        blocks += turn_blocks(conversation, detail)
    if len(command) > _COMMAND_LIMIT:
        blocks.append("The command that repeats it is too long to be shown: `--case` takes the whole id.")
    elif command:
        blocks.append(fence(command, limit=_COMMAND_LIMIT, language="sh"))
    return blocks


def _behaviour_lines(
    change: BehaviourChange, run: RunBehaviour, detail: Detail, *, shows_turns: bool = False
) -> list[str]:
    """List how one case's behaviour changed: calls, arguments, output, models, amounts.

    How the behaviour of the whole `run` changed is not repeated for each case. With `shows_turns`, the turns
    of a conversation, with the agent's answers, are shown beside it.
    """
    lines = []
    if change.calls_changed:
        arguments = list(_arguments(change, detail))
        # Equal names need no line of their own where the arguments say what changed.
        if not arguments or _names_changed(change):
            lines.append(_calls(change, detail))
        lines += arguments
    if change.output_changed and not shows_turns:
        lines += _output(change, detail)
    if change.model_changed and not run.model_changed:
        before, after = (", ".join(models) for models in (change.baseline_models, change.candidate_models))
        lines.append(f"Model: {_became(before, after, detail)}")
    totals = {metric.name: metric for metric in run.shifts}
    moved = [_amount(metric) for metric in change.metrics if _stands_out(metric, totals.get(metric.name))]
    if moved:
        lines.append(f"Usage: {'; '.join(moved)}")
    return lines


def _judge_lines(case: CaseRegression, detail: Detail) -> Iterable[str]:
    """Say what judges object to, each cause once: the first judges in full, those after them by name."""
    if len(case.judges) == 1:
        yield _judge_line(case.judges, detail)
        return
    crash = [judge for judge in case.judges if is_crash(judge)]
    if crash:
        yield from (_judge_line([judge], detail) for judge in crash)
        if following := len(case.judges) - len(crash):
            yield f"So {count(following, 'more judge')} had nothing to judge."
        return
    alike: dict[tuple[Outcome | None, str], list[JudgeChange]] = {}
    for judge in case.judges:
        alike.setdefault((judge.candidate, judge.reason), []).append(judge)
    groups = list(alike.values())
    most = min(_REASONS_SHOWN, detail.ids)
    yield from (_judge_line(judges, detail) for judges in groups[:most])
    if others := [judge.judge_id for judges in groups[most:] for judge in judges]:
        yield f"and {names(others, most=detail.ids, limit=detail.quote)}"


def _criterion_lines(
    case: CaseRegression, conversation: ConversationChange | None, detail: Detail
) -> Iterable[str]:
    """Name the criteria that got worse, each with the judge's reason."""
    for judge in case.judges[: detail.ids]:
        worse = worse_criteria(conversation, judge.judge_id)
        for each in worse[:CRITERIA_SHOWN]:
            mark = _MARK[each.candidate] if each.candidate else "➖"
            line = f"{mark} Criterion {code_span(each.criterion, limit=detail.quote)}"
            # A judge with one objection has said the reason in its own line.
            is_said = len(worse) == 1 and each.reason and each.reason in judge.reason
            yield line if is_said else f"{line}: {_reason(each.reason, detail)}"
        if len(worse) > CRITERIA_SHOWN:
            yield f"and {count(len(worse) - CRITERIA_SHOWN, 'more criterion', 'more criteria')}"


def _judge_line(judges: Sequence[JudgeChange], detail: Detail) -> str:
    judge, after = judges[0], judges[0].candidate
    if is_crash(judge):
        return f"{_MARK[Outcome.ERROR]} The agent did not finish: {_reason(judge.reason, detail)}"
    mark = _MARK[after] if after else "➖"
    line = f"{mark} {names([change.judge_id for change in judges], most=detail.ids, limit=detail.quote)}"
    if after is None:
        line += " no longer judges this case"
    elif after is Outcome.PASSED:
        line += f" passes now, was {judge.baseline.value if judge.baseline else 'absent'}"
    elif after in _SAYS:
        line += f" {_SAYS[after]}"
    if judge.reason and after is not Outcome.PASSED:
        line += f": {_reason(judge.reason, detail)}"
    return line


def _reason(reason: str, detail: Detail) -> str:
    return code_span(reason, limit=detail.quote)


def _became(before: str, after: str, detail: Detail) -> str:
    limit = detail.quote
    return f"{code_span(before, limit=limit)} became {code_span(after, limit=limit)}"


def _calls(change: BehaviourChange, detail: Detail) -> str:
    before = _Calls(change.baseline_calls, change.baseline_call_count)
    after = _Calls(change.candidate_calls, change.candidate_call_count)
    if not _names_changed(change):
        return f"Calls: {code_span(after.chain(), limit=detail.quote)} with other arguments"
    if before.short and after.short and before.chain() != after.chain():
        return f"Calls: {_became(before.chain(), after.chain(), detail)}"
    parts = []
    for kind in ("added", "removed", "moved"):
        tools = _counted(change, kind)
        if tools:
            listed = [f"{tool} ×{times:,}" if times > 1 else tool for tool, times in tools[:_TOOLS_SHOWN]]
            more = [f"… {len(tools) - _TOOLS_SHOWN} more tools"] if len(tools) > _TOOLS_SHOWN else []
            parts.append(f"{kind} {code_span(', '.join([*listed, *more]), limit=detail.quote)}")
    same = before.count == after.count
    numbers = f"{before.count:,} before and now" if same else f"{before.count:,} became {after.count:,}"
    return f"Calls: {numbers}" + (f"; {'; '.join(parts)}" if parts else "")


def _names_changed(change: BehaviourChange) -> bool:
    """Whether other tools were called, or in another order."""
    if change.baseline_call_count is None:
        return change.baseline_calls != change.candidate_calls
    return any(counted.kind != "arguments" for counted in change.call_counts)


def _counted(change: BehaviourChange, kind: str) -> list[tuple[str, int]]:
    if change.call_counts:
        return [(counted.tool, counted.count) for counted in change.call_counts if counted.kind == kind]
    return list(Counter(step.tool for step in change.calls if step.kind == kind).items())


class _Calls:
    """The calls of one side, as far as the comparison lists them.

    `count` is the number of all calls; None where an older version made the comparison.
    """

    def __init__(self, listed: Sequence[str], count: int | None) -> None:
        self.count = len(listed) if count is None else count
        self._runs = [(tool, sum(1 for _ in group)) for tool, group in groupby(listed)]

    @property
    def short(self) -> bool:
        """Whether `chain` names every call."""
        return len(self._runs) <= _RUNS_SHOWN and sum(times for _, times in self._runs) == self.count

    def chain(self) -> str:
        """Write the tools in the order of their calls, equal ones in a row as one."""
        runs = self._runs[:_RUNS_SHOWN]
        links = [f"{tool} ×{times:,}" if times > 1 else tool for tool, times in runs]
        hidden = self.count - sum(times for _, times in runs)
        return " → ".join([*links, *([f"… {hidden:,} more"] if hidden else [])]) or "no call"


def _arguments(change: BehaviourChange, detail: Detail) -> Iterable[str]:
    changed = [
        (step.tool, path, before, after)
        for step in change.calls
        for path, (before, after) in (step.arguments or {}).items()
    ]
    for tool, path, before, after in changed[:_ARGUMENTS_SHOWN]:
        place = f"{code_span(path, limit=detail.quote)} of {code_span(tool, limit=detail.quote)}"
        yield f"Argument {place}: {_became(_short(before), _short(after), detail)}"
    listed = sum(step.kind == "arguments" for step in change.calls)
    calls = sum(times for _, times in _counted(change, "arguments"))
    if changed and calls > listed:
        yield f"and more arguments, in {calls:,} calls in all"
    elif len(changed) > _ARGUMENTS_SHOWN:
        yield f"and {count(len(changed) - _ARGUMENTS_SHOWN, 'more argument')} changed"


def _output(change: BehaviourChange, detail: Detail) -> Iterable[str]:
    if change.baseline_output is None and change.candidate_output is None:
        yield "Output changed"
        return
    for when, output in (("before", change.baseline_output), ("now", change.candidate_output)):
        quoted = "nothing" if output is None else code_span(output, limit=detail.quote)
        yield f"Output {when}: {quoted}"


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


def _amount(metric: Metric) -> str:
    before, after = amount(metric.name, metric.baseline), amount(metric.name, metric.candidate)
    return f"{AMOUNTS[metric.name]} {before} → {after}"
