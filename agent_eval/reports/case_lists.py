"""Render lists of cases as markdown: those that regressed, pass less often, fail as before, or improved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice

from agent_eval.comparison.compare import DETAIL_LIMIT
from agent_eval.contracts import CaseRegression, Comparison
from agent_eval.reports import cases
from agent_eval.reports.blocks import bullets, folded, names
from agent_eval.reports.causes import Cause
from agent_eval.reports.counts import fallen, rates
from agent_eval.reports.detail import Detail
from agent_eval.reports.model import SuiteReport
from agent_eval.text.escape import code_span
from agent_eval.text.numbers import count, verb


def regressed(suite: SuiteReport, command: Callable[[str], str] | None, detail: Detail) -> list[str]:
    """Render the regressed cases: one in full for each cause, more behind a click, the rest as a number.

    Args:
        suite: Its cases; nothing is rendered without a baseline.
        command: The shell command that reproduces a case, by its id.
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
    full = _in_full([*opened, *others[:behind]], comparison, command, detail)
    excused = total - len(suite.worse) if suite.excused else 0
    # A decision by policy has named them, in a table of their own.
    has_title = total > excused and not suite.judged_cases
    blocks = [f"### {_title_of_regressed(suite, total - excused)}" if has_title else ""]
    for cause, case_blocks in zip(open_causes, full, strict=False):
        blocks += [case_blocks[0], _alike(cause, detail), *case_blocks[1:]]
    folded_away = [block for case_blocks in full[len(opened) :] for block in case_blocks]
    blocks.append(folded(_title_of_more(others[:behind], suite), folded_away))
    rest = others[behind:]
    lines = bullets(cases.in_one_line(row, detail) for row in rest)
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


def _in_full(
    rows: Sequence[CaseRegression],
    comparison: Comparison,
    command: Callable[[str], str] | None,
    detail: Detail,
) -> list[list[str]]:
    """Render each case as blocks. A sentence before the first case without behaviour explains why."""
    changes = cases.changes_by_case(comparison)
    conversations = cases.conversations_by_case(comparison)
    with_behaviour = len(changes)
    is_explained, all_blocks = with_behaviour < DETAIL_LIMIT, []
    for row in rows:
        change = changes.get(row.case_id)
        again = command(row.case_id) if command and detail.commands else ""
        blocks = cases.in_full(
            row, change, conversations.get(row.case_id), comparison.behaviour, again, detail
        )
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
    lines = bullets(cases.failing_line(row, detail) for row in rows[: detail.cases + detail.listed])
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
