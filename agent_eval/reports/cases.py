"""Render cases as markdown: lists of those that regressed, fail or improved, and each with what changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby, islice
from typing import Any

from agent_eval.comparison.behaviour import ABSENT, START_UP_MS
from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.contracts import (
    BehaviourChange,
    CallRun,
    CaseRegression,
    CaseResultRow,
    Comparison,
    JudgeChange,
    Metric,
    Outcome,
    RunBehaviour,
)
from agent_eval.contracts.comparison import ConversationChange
from agent_eval.contracts.verdict import EXECUTION, row_fault
from agent_eval.reports.blocks import AMOUNTS, amount, bullets, folded, names
from agent_eval.reports.causes import Cause, is_crash
from agent_eval.reports.counts import fallen, rates
from agent_eval.reports.detail import Detail
from agent_eval.reports.model import SuiteReport
from agent_eval.reports.trajectory import WHOSE
from agent_eval.reports.turns import CRITERIA_SHOWN, turn_blocks, worse_criteria
from agent_eval.text.escape import code_span, fence
from agent_eval.text.numbers import count, verb


def regressed(suite: SuiteReport, command: Callable[[str], str] | None, detail: Detail) -> list[str]:
    """Render the regressed cases: one in full for each cause, more behind a click, the rest as a number.

    Nothing is rendered without a baseline. `command` makes the shell command that reproduces a case,
    by its id.
    """
    comparison = suite.comparison
    if comparison is None:
        return []
    total = max(len(suite.regressed), comparison.overview.regressed_cases)
    if not total:
        return []
    open_causes = suite.causes[: detail.cases]
    opened = [cause.cases[0] for cause in open_causes]
    open_ids = {row.case_id for row in opened}
    behind = max(0, detail.cases + detail.folded_cases - len(opened))
    # Of very many cases few are shown, and this is called for each level of detail.
    room = behind + detail.one_liners
    others = list(islice((row for row in suite.regressed if row.case_id not in open_ids), room))
    full = _each_in_full([*opened, *others[:behind]], comparison, command, detail)
    excused = total - len(suite.worse) if suite.excused else 0
    # A decision by policy has named them, in a table of their own.
    has_title = total > excused and not suite.judged_cases
    blocks = [f"### {_title_of_regressed(suite, total - excused)}" if has_title else ""]
    for cause, case_blocks in zip(open_causes, full, strict=False):
        blocks += [case_blocks[0], _alike(cause, detail), *case_blocks[1:]]
    folded_away = [block for case_blocks in full[len(opened) :] for block in case_blocks]
    blocks.append(folded(_title_of_more(others[:behind], suite), folded_away))
    rest = others[behind:]
    lines = bullets(_in_one_line(row, detail) for row in rest)
    if detail.cases:
        blocks.append(folded(f"{_title_of_more(rest, suite)}, one line each", [lines]))
    else:
        blocks.append(lines)
    hidden = total - len(full) - len(rest)
    if hidden:
        blocks.append(f"… and {hidden:,} more, {detail.cases_elsewhere}.")
    return blocks


_LIKE_IT = 3
"""Cases named beside an open one; all of them are behind a click."""


def _title_of_regressed(suite: SuiteReport, counted: int) -> str:
    title = count(counted, "regressed case")
    return f"{title}, {len(suite.causes):,} causes" if 1 < len(suite.causes) < counted else title


def _title_of_more(rows: Sequence[CaseRegression], suite: SuiteReport) -> str:
    """Count further cases in a title: those that count, and those that do not."""
    excused = sum(row.case_id in suite.excused for row in rows)
    counted = len(rows) - excused
    if not counted:
        return f"What changed in {count(excused, 'case')} that {verb(excused, 'does', 'do')} not block"
    more = count(counted, "more regressed case")
    return f"{more}, and {excused:,} that {verb(excused, 'does', 'do')} not block" if excused else more


def _alike(cause: Cause, detail: Detail) -> str:
    """Name the other cases that got worse for the reason of an open one."""
    others = [row.case_id for row in cause.cases[1:]]
    if not others:
        return ""
    words = cause.words(partial(code_span, limit=detail.quote))
    words = f"{words[:1].upper()}{words[1:]}"
    listed = names(others, most=min(_LIKE_IT, detail.ids), limit=detail.name)
    return f"{words}, as in {count(len(others), 'more case')}: {listed}"


def most_regressed(comparisons: Iterable[Comparison | None]) -> int:
    """Count the regressed cases of the comparison that lists the most of them."""
    listed = (
        sum(row.regressed for row in comparison.case_regressions) if comparison else 0
        for comparison in comparisons
    )
    return max(listed, default=0)


def _each_in_full(
    rows: Sequence[CaseRegression],
    comparison: Comparison,
    command: Callable[[str], str] | None,
    detail: Detail,
) -> list[list[str]]:
    """Render each case as blocks. A sentence before the first case without behaviour explains why."""
    changes = {change.case_id: change for change in comparison.behaviour_changes}
    conversations = {change.case_id: change for change in comparison.conversations}
    with_behaviour = len(changes)
    is_explained, all_blocks = with_behaviour < DETAIL_LIMIT, []
    for row in rows:
        change = changes.get(row.case_id)
        again = command(row.case_id) if command and detail.commands else ""
        blocks = _in_full(row, change, conversations.get(row.case_id), comparison.behaviour, again, detail)
        if change is None and not is_explained:
            is_explained = True
            blocks.insert(
                0,
                f"A comparison keeps how the behaviour changed of {with_behaviour:,} cases. From here on "
                "there is the reason and the command, without it; both traces are in the evidence of the two "
                "runs.",
            )
        all_blocks.append(blocks)
    return all_blocks


def failing(suite: SuiteReport, detail: Detail) -> list[str]:
    """List cases that do not pass although they did not regress; absolute rules count them."""
    regressed_ids = set(suite.comparison.regressed_case_ids) if suite.comparison else set()
    rows = [row for row in suite.failing if row["case_id"] not in regressed_ids]
    if not rows:
        return []
    lines = bullets(failing_line(row, detail) for row in rows[: detail.cases + detail.listed])
    summary = suite.candidate.summary
    total = max(len(rows), summary.total_cases - summary.passed_cases - len(regressed_ids))
    hidden = total - min(len(rows), detail.cases + detail.listed)
    more = f"… and {hidden:,} more, {detail.elsewhere}." if hidden else ""
    if suite.comparison is None or suite.nothing_shared or _only_a_limit_failed(suite):
        return [f"### {count(total, 'case')} {verb(total, 'does', 'do')} not pass", lines, more]
    return [folded(f"{count(total, 'more case')} {verb(total, 'does', 'do')} not pass", [lines, more])]


def _only_a_limit_failed(suite: SuiteReport) -> bool:
    """Whether what fails as before is what blocks: a limit does not hold, and nothing regressed."""
    broken = {rule.rule for rule in suite.decision.rules if rule.applied and not rule.passed}
    return not suite.causes and not broken.isdisjoint(("min_pass_rate", "max_hard_fail_rate"))


def improved(rows: Sequence[CaseRegression], comparison: Comparison, detail: Detail) -> str:
    """List the cases that improved, by id, folded."""
    total = max(len(rows), comparison.overview.improved_cases)
    most = detail.cases + detail.listed
    if not total or not most:
        return ""
    lines = [code_span(row.case_id, limit=detail.name) for row in rows[:most]]
    if total > len(lines):
        lines.append(f"and {total - len(lines):,} more")
    return folded(count(total, "improved case"), [bullets(lines)])


def less_often(suite: SuiteReport, detail: Detail) -> str:
    """Fold away the cases of which fewer trials pass than in the baseline, each with its trials."""
    rows = fallen(suite.comparison)
    most = detail.cases + detail.listed
    if not rows or not most:
        return ""
    lines = [
        f"{code_span(row.case_id, limit=detail.name)}: {rates(row)} trials passed" for row in rows[:most]
    ]
    if len(rows) > len(lines):
        lines.append(f"and {len(rows) - len(lines):,} more")
    title = f"{count(len(rows), 'case')} {verb(len(rows), 'passes', 'pass')} less often than in the baseline"
    return folded(title, [bullets(lines)])


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


def _in_full(
    case: CaseRegression,
    change: BehaviourChange | None,
    conversation: ConversationChange | None,
    run: RunBehaviour,
    command: str,
    detail: Detail,
) -> list[str]:
    """Render one case with its judges, its behaviour and the command that reproduces it, as blocks.

    `change` is None where its behaviour did not change, `conversation` where it is no conversation;
    `command` is empty for none. How the behaviour of the whole `run` changed is not repeated for each case.
    """
    lines = list(_judge_lines(case, detail))
    lines += _criterion_lines(case, conversation, detail)
    if not case.judges:
        lines.append(f"{case.baseline_outcome.value} → {case.candidate_outcome.value}")
    if change is not None:
        lines += _behaviour_lines(change, run, detail, shows_turns=conversation is not None)
    blocks = [f"#### {code_span(case.case_id, limit=detail.name)}", bullets(lines)]
    if conversation is not None:
        blocks += turn_blocks(conversation, detail)
    if len(command) > _COMMAND_LIMIT:
        blocks.append("The command that reproduces it is too long to be shown: `--case` takes the whole id.")
    elif command:
        blocks.append(fence(command, limit=_COMMAND_LIMIT, language="sh"))
    return blocks


def _in_one_line(case: CaseRegression, detail: Detail) -> str:
    """Render one case on one line: its id, its most telling judge, and the reason."""
    line = code_span(case.case_id, limit=detail.name)
    if not case.judges:
        return f"{line}: {case.baseline_outcome.value} → {case.candidate_outcome.value}"
    judge = case.judges[0]
    return f"{line} — {code_span(judge.judge_id, limit=detail.name)}: {_reason(judge.reason, detail)}"


def failing_line(row: CaseResultRow, detail: Detail) -> str:
    """Render one case that did not pass on one line: its id, its most telling judge, and the reason."""
    fault = row_fault(row)
    whose = f" ({WHOSE[fault.value]})" if fault is not None else ""
    line = f"{_MARK[Outcome(row['outcome'])]} {code_span(row['case_id'], limit=detail.name)}{whose}"
    # A crash of the agent explains more than a judge's complaint of the missing output.
    for verdict in sorted(row["verdicts"], key=lambda verdict: verdict["judge_id"] != EXECUTION):
        if verdict["outcome"] == row["outcome"] and verdict["outcome"] != Outcome.PASSED:
            judge = code_span(verdict["judge_id"], limit=detail.name)
            return f"{line} — {judge}: {_reason(verdict['reason'], detail)}"
    return f"{line}: {row['outcome'] if row['outcome'] in set(Outcome) else 'failed'}"


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
            yield f"so {count(following, 'more judge')} had nothing to judge"
        return
    alike: dict[tuple[Outcome | None, str], list[JudgeChange]] = {}
    for judge in case.judges:
        alike.setdefault((judge.candidate, judge.reason), []).append(judge)
    groups = list(alike.values())
    most = min(_REASONS_SHOWN, detail.judges)
    yield from (_judge_line(judges, detail) for judges in groups[:most])
    if others := [judge.judge_id for judges in groups[most:] for judge in judges]:
        yield f"and {names(others, most=detail.judges, limit=detail.name)}"


def _criterion_lines(
    case: CaseRegression, conversation: ConversationChange | None, detail: Detail
) -> Iterable[str]:
    """Name the criteria that got worse, each with the judge's reason."""
    for judge in case.judges[: detail.judges]:
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
    mark = _MARK[after] if after else "➖"
    line = f"{mark} {names([change.judge_id for change in judges], most=detail.judges, limit=detail.name)}"
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
    before = _Calls(change.baseline_calls, change.baseline_runs, change.baseline_call_count)
    after = _Calls(change.candidate_calls, change.candidate_runs, change.candidate_call_count)
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
    coarse = " (counted coarsely, for very many calls differ)" if change.calls_coarse else ""
    same = before.count == after.count
    numbers = f"{before.count:,} before and now" if same else f"{before.count:,} became {after.count:,}"
    return f"Calls: {numbers}" + (f"; {'; '.join(parts)}" if parts else "") + coarse


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

    `runs` are the first runs of equal tools, `count` is the number of all calls. Where an older version made
    the comparison, they are empty and None.
    """

    def __init__(self, listed: Sequence[str], runs: Sequence[CallRun], count: int | None) -> None:
        self.count = len(listed) if count is None else count
        self._runs = [(run.tool, run.times) for run in runs] or [
            (tool, sum(1 for _ in group)) for tool, group in groupby(listed)
        ]

    @property
    def short(self) -> bool:
        """Whether `chain` names every call."""
        return len(self._runs) <= _RUNS_SHOWN and sum(times for _, times in self._runs) == self.count

    def chain(self) -> str:
        """Write the tools in the order of their calls, equal ones in a row as one."""
        runs = self._runs[:_RUNS_SHOWN]
        links = [f"{tool} ×{times:,}" if times > 1 else tool for tool, times in runs]
        hidden = self.count - sum(times for _, times in runs)
        return " → ".join([*links, *([f"… {hidden} more"] if hidden else [])]) or "no call"


def _arguments(change: BehaviourChange, detail: Detail) -> Iterable[str]:
    changed = [
        (step.tool, path, before, after)
        for step in change.calls
        for path, (before, after) in (step.arguments or {}).items()
    ]
    for tool, path, before, after in changed[:_ARGUMENTS_SHOWN]:
        place = f"{code_span(path, limit=detail.name)} of {code_span(tool, limit=detail.name)}"
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
