"""The packs that a page reads, and its table of cases: a line for each, those that need attention first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import quote

from agent_eval.contracts import Case, CaseIndexRow, CaseRegression, CaseResultRow, Outcome
from agent_eval.contracts.verdict import count_trials
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.reports.blocks import amount
from agent_eval.reports.counts import fallen, objections
from agent_eval.reports.model import SuiteReport
from agent_eval.storage.redaction import Redactor
from agent_eval.text.escape import one_line

ID_LIMIT = 200
REASON_LIMIT = 160
JUDGE_LIMIT = 120
QUIET = (Outcome.PASSED.value, Outcome.SKIPPED.value)

REGRESSED, EXCUSED, LESS_OFTEN, FAILING, IMPROVED, NEW, CHANGED, REMOVED, AS_BEFORE = (
    *("regressed", "newly fails, does not block", "passes less often", "fails as before", "improved"),
    *("new", "asks something else", "removed", "as before"),
)
_ORDER = (REGRESSED, LESS_OFTEN, EXCUSED, FAILING, REMOVED, IMPROVED, NEW, CHANGED, AS_BEFORE, "")
_RANK = {change: rank for rank, change in enumerate(_ORDER)}

# What a fragment of an address may hold as it is; the rest is percent-encoded as browsers do it.
_SAFE = "!$&'()*+,-./:;=?@[]^_{|}~"


@dataclass(frozen=True)
class PackSide:
    """What a report reads of one pack; nothing where it is not at hand."""

    pack: Pack | None
    redactor: Redactor

    @cached_property
    def results(self) -> Mapping[str, CaseResultRow]:
        """The result of every case."""
        return self.pack.results_by_id() if self.pack is not None else {}

    @cached_property
    def index(self) -> Mapping[str, CaseIndexRow]:
        """The row of the index of every case."""
        return self.pack.index_by_id() if self.pack is not None else {}

    def case(self, case_id: str) -> Case | None:
        """Read a case with its trace; None where the pack does not have it."""
        if self.pack is None or case_id not in self.results:
            return None
        case = self.pack.trajectory(case_id)
        # Before texts are compared: a secret of which only a part differs would not be found later.
        return without_secrets(case, self.redactor) if self.redactor else case


@dataclass(frozen=True)
class SuiteEvidence:
    """The two packs of a suite's report, as far as they are at hand.

    Attributes:
        candidate: Pack of the run in question; None where only a comparison is known.
        place: Path of the candidate's pack, for the command that shows a case.
        redactor: Replaces secrets, which an earlier run's evidence may hold.
    """

    candidate: Pack | None = None
    baseline: Pack | None = None
    place: str = ""
    redactor: Redactor = field(default_factory=lambda: Redactor([]))

    @cached_property
    def now(self) -> PackSide:
        """The candidate's pack."""
        return PackSide(self.candidate, self.redactor)

    @cached_property
    def before(self) -> PackSide:
        """The baseline's pack."""
        return PackSide(self.baseline, self.redactor)


@dataclass(frozen=True, slots=True)
class CaseLine:
    """A row of the table of cases.

    Attributes:
        anchor: The end of its address, without `#`.
        outcome: Its outcome in the run; empty for a case that was removed.
        before: Its outcome in the baseline; empty where it has none.
        change: How it changed, one of the words above; empty in a report of one run.
        reason: Why it does not pass: judge and reason.
        trials: `3 of 5`, where there are several.
        cost: As text with its unit; empty where it is unknown.
        sort_by: Cost and latency as numbers, to sort by.
        judges: Those that object to it.
        regression: What the comparison says of it; None where the result did not change.
    """

    case_id: str
    anchor: str
    outcome: str
    before: str = ""
    change: str = ""
    reason: str = ""
    trials: str = ""
    cost: str = ""
    latency: str = ""
    sort_by: tuple[float, float] = (-1.0, -1.0)
    judges: tuple[str, ...] = ()
    regression: CaseRegression | None = None

    @property
    def needs_attention(self) -> bool:
        """Whether it does not pass, or changed."""
        return self.outcome != Outcome.PASSED.value or self.change not in ("", AS_BEFORE)

    @property
    def is_open(self) -> bool:
        """Whether a report shows it without a click: it got worse, or it fails in a report of one run."""
        alone = self.change in ("", NEW, CHANGED) and self.outcome != Outcome.PASSED.value
        return self.change in (REGRESSED, EXCUSED, LESS_OFTEN) or alone

    @property
    def name(self) -> str:
        """Its id as it is shown, which is never empty."""
        return one_line(self.case_id, limit=ID_LIMIT) or "∅"


def anchor_of(case_id: str, suite: str = "") -> str:
    """Write the end of the address of a case.

    `suite` is the name of its suite, where a report has several.

    Example:
        >>> anchor_of("two words")
        'case=two%20words'
    """
    of_suite = f"&suite={quote(suite, safe='')}" if suite else ""
    return f"case={quote(case_id, safe=_SAFE.replace('&', ''), errors='replace')}{of_suite}"


def case_lines(suite: SuiteReport, evidence: SuiteEvidence, *, anchored: str = "") -> list[CaseLine]:
    """List the cases of a suite: those that got worse first, then those that fail, in suite order otherwise.

    Without evidence only the cases that the comparison names are listed. `anchored` is the name of the suite
    for the addresses of its cases, where a report has several.
    """
    changes = _changes(suite)
    regressed = suite.comparison.case_regressions if suite.comparison is not None else ()
    regressions = {row.case_id: row for row in regressed}
    results = evidence.now.results or {row["case_id"]: row for row in suite.failing}
    lines = []
    for case_id in dict.fromkeys([*results, *regressions, *changes]):
        row, regression = results.get(case_id), regressions.get(case_id)
        earlier, index = evidence.before.results.get(case_id), evidence.now.index.get(case_id)
        unchanged = AS_BEFORE if row is None or row["passed"] else FAILING
        now, before = (each["outcome"] if each is not None else "" for each in (row, earlier))
        if regression is not None:
            now, before = regression.candidate_outcome.value, regression.baseline_outcome.value
        if row is not None:
            objecting = [each["judge_id"] for each in row["verdicts"] if each["outcome"] not in QUIET]
        else:
            objecting = [judge.judge_id for judge in (regression.judges if regression is not None else ())]
        trials = (row.get("trials") if row is not None else None) or ()
        cost, latency = (index["cost_usd"], index["latency_ms"]) if index is not None else (None, None)
        lines.append(
            CaseLine(
                case_id=case_id,
                anchor=anchor_of(case_id, anchored),
                outcome=now,
                before=before,
                change=changes.get(case_id) or (unchanged if suite.comparison is not None else ""),
                reason=_reason(row, regression),
                trials="{} of {}".format(*count_trials([trial["outcome"] for trial in trials]))
                if len(trials) > 1
                else "",
                cost="" if cost is None else amount("cost_usd", cost),
                latency="" if latency is None else amount("latency_ms", latency),
                sort_by=(-1.0 if cost is None else cost, -1.0 if latency is None else latency),
                judges=tuple(dict.fromkeys(one_line(each, limit=JUDGE_LIMIT) or "∅" for each in objecting)),
                regression=regression,
            )
        )
    return sorted(lines, key=lambda line: (_RANK[line.change], line.outcome == Outcome.PASSED.value))


def _changes(suite: SuiteReport) -> dict[str, str]:
    comparison = suite.comparison
    if comparison is None:
        return {}
    changes = {
        row.case_id: EXCUSED if row.case_id in suite.excused else LESS_OFTEN for row in fallen(comparison)
    }
    for row in comparison.case_regressions:
        if row.regressed:
            changes[row.case_id] = EXCUSED if row.case_id in suite.excused else REGRESSED
        elif row.improved:
            changes.setdefault(row.case_id, IMPROVED)
    sets = comparison.cases
    for word, case_ids in ((NEW, sets.new), (CHANGED, sets.changed), (REMOVED, sets.removed)):
        changes.update(dict.fromkeys(case_ids, word))
    return changes


def _reason(row: CaseResultRow | None, regression: CaseRegression | None) -> str:
    if row is not None and not row["passed"]:
        for verdict in objections(row):
            return one_line(f"{verdict['judge_id']}: {verdict['reason']}", limit=REASON_LIMIT)
    if row is None and regression is not None and regression.regressed and regression.judges:
        judge = regression.judges[0]
        return one_line(f"{judge.judge_id}: {judge.reason}", limit=REASON_LIMIT)
    return ""
