"""The facts on a suite that the first lines of its report state, and how text is escaped there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent_eval.contracts import GateDecision, GateStep, Outcome, RuleResult
from agent_eval.reports.advice import first_of
from agent_eval.reports.counts import fallen
from agent_eval.reports.model import SuiteReport


@dataclass(frozen=True)
class Voice:
    """How text is escaped where the lines are shown.

    Example:
        >>> Voice(code="`{}`".format, prose=str).code("refund")
        '`refund`'

    Args:
        code: Sets a name as code.
        prose: Escapes a sentence that may quote anything; what it sets in backticks is code.
    """

    code: Callable[[str], str]
    prose: Callable[[str], str]


@dataclass(frozen=True)
class Standing:
    """A suite, and how text on it is escaped.

    Example:
        `Standing(suite, voice).named(["refund"])` is "`refund`".
    """

    suite: SuiteReport
    voice: Voice

    @property
    def decision(self) -> GateDecision:
        """The gate's decision on the suite."""
        return self.suite.decision

    @cached_property
    def less_often(self) -> list[str]:
        """Ids of the cases of which fewer trials pass, and that count."""
        rows = fallen(self.suite.comparison)
        return [row.case_id for row in rows if row.case_id not in self.suite.excused]

    @property
    def worse(self) -> list[str]:
        """Ids of the cases that got worse and count: that regressed, or with trials pass less often."""
        return self.less_often if self.has_trials else [row.case_id for row in self.suite.worse]

    @cached_property
    def excused(self) -> dict[str, list[str]]:
        """Ids of the cases that got worse and do not count, by what excuses them, such as "tracked"."""
        rows = fallen(self.suite.comparison) if self.has_trials else self.suite.regressed
        kinds: dict[str, list[str]] = {}
        for case_id in [row.case_id for row in rows if row.case_id in self.suite.excused]:
            kinds.setdefault(self.kind_of_excuse(case_id), []).append(case_id)
        return kinds

    def kind_of_excuse(self, case_id: str) -> str:
        """Name what excuses a case in a word or two; the first that applies."""
        decision, declared = self.decision, self.suite.declared.of(case_id)
        verdicts = {row.case_id: row.verdict for row in decision.confirmed}
        kinds = {
            "waived": case_id in decision.waived_case_ids,
            "tracked": case_id in decision.tracked_case_ids or declared == "tracked",
            "expected to fail": case_id in decision.expected_fail_case_ids or declared == "expected-fail",
            "cleared": verdicts.get(case_id) == "cleared",
            "not yours": verdicts.get(case_id) == "not-yours",
        }
        return next((kind for kind, applies in kinds.items() if applies), "in quarantine")

    @property
    def none_worse(self) -> str:
        """Say that no case got worse, or which did that do not count, and why; without a full stop."""
        if not self.excused:
            return "No case got worse"
        kinds = [f"{len(ids):,} {kind}: {self.named(ids)}" for kind, ids in self.excused.items()]
        return f"No case that counts got worse ({'; '.join(kinds)})"

    @property
    def compared(self) -> int:
        """The number of cases that were compared."""
        return self.suite.comparison.overview.compared_cases if self.suite.comparison else 0

    @property
    def improved(self) -> int:
        """The number of cases that improved."""
        return self.suite.comparison.overview.improved_cases if self.suite.comparison else 0

    def broken(self, name: str) -> RuleResult | None:
        """Return the result of a rule that was applied and does not hold; None where it holds."""
        rules = (rule for rule in self.decision.rules if rule.rule == name)
        return next((rule for rule in rules if rule.applied and not rule.passed), None)

    def steps(self, status: str) -> dict[str, GateStep]:
        """Return the steps of the decision that ended so, by name."""
        return {step.name: step for step in self.decision.steps if step.status == status}

    def named(self, case_ids: Sequence[str]) -> str:
        """Name the first cases: `a`, `b` and 4 more."""
        return first_of([self.voice.code(case_id) for case_id in case_ids])

    @property
    def errors(self) -> list[str]:
        """Ids of the cases that count and could not be judged."""
        return [row.case_id for row in self.suite.worse if row.candidate_outcome is Outcome.ERROR]

    @property
    def is_confirmed(self) -> bool:
        """Whether fresh trials fail the gate: what regressed is said with their counts."""
        return "confirmation" in self.steps("failed") and bool(self.suite.worse)

    @property
    def has_trials(self) -> bool:
        """Whether a case has several trials."""
        return self.decision.evidence is not None and self.decision.evidence.trials is not None
