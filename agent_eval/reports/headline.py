"""The first lines of a report on a suite: what happened and whose it is, what to do, one line of numbers.

They use plain words. The names of tests and rules are in the folded parts and in the guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_eval.config.rules import find_rule
from agent_eval.contracts import GateStatus, RuleResult
from agent_eval.gate.rules import exact
from agent_eval.reports.advice import NAMED
from agent_eval.reports.causes import are_all_of, in_words
from agent_eval.reports.chance import BEYOND, beyond_chance, cases_beyond_chance
from agent_eval.reports.confirmation import confirmed_clause, were_run_again, whose_by_trials
from agent_eval.reports.counts import passing
from agent_eval.reports.sentences import capital, rule_sentence
from agent_eval.reports.standing import Standing
from agent_eval.reports.to_do import is_floor, what_to_do
from agent_eval.text.numbers import allowed, apart, beside, count, margin, percent, verb


@dataclass(frozen=True)
class Headline(Standing):
    """The first lines on one suite.

    Example:
        `Headline(suite, voice).what_happened` is "1 case got worse: `credit-paid`. …".
    """

    @property
    def what_happened(self) -> str:
        """What happened to cases, as a sentence; shown in bold."""
        return _HAPPENED[self.suite.status](self)

    @property
    def why(self) -> str:
        """The causes, and whose they are; empty where nothing got worse."""
        if not self.suite.worse:
            return ""
        return " ".join(filter(None, [in_words(self.suite.causes, self.voice.code), self._whose()]))

    @property
    def what_to_do(self) -> str:
        """What to do, as a sentence or two; empty for nothing."""
        return what_to_do(self)

    @property
    def in_short(self) -> str:
        """What happened in a list of suites: how many cases got worse and improved, and how many passed."""
        worse, improved = len(self.suite.worse), self.improved
        changed = [f"{worse:,} got worse"] * bool(worse) + [f"{improved:,} improved"] * bool(improved)
        return " · ".join([*changed, passing(self.suite.candidate.summary).rstrip(".")])

    # Failed.

    def _failed(self) -> str:
        cases = self._regressed_clause()
        sentences = [*self._other_failures()]
        limits = "; ".join(filter(None, [cases, *self._broken_limits()]))
        if limits:
            sentences.insert(0, f"{capital(limits)}.")
        if self.suite.comparison is None or self.suite.nothing_shared:
            sentences.append(self._alone())
        elif not self.suite.worse and self.compared and self.broken("min_pass_rate"):
            sentences.append(f"{self.none_worse}: what fails now failed before this change.")
        return " ".join(sentences) or "The gate gave no reason."

    def _regressed_clause(self) -> str:
        number, total = len(self.suite.worse), self.compared
        if not number:
            return self._less_often_clause()
        how = "ended in an error" if len(self.errors) == number else "regressed"
        clause = f"{number:,} of {count(total, 'case')} {how}"
        beyond = cases_beyond_chance(self.decision.evidence)
        if rule := self.broken("max_regressed_cases"):
            clause += f", {_limit(rule)}"
        elif beyond and self._only_chance_decides() and how == "regressed":
            if self._tested != number:
                return self._tested_clause()
            clause += f", {BEYOND}"
        if self.is_confirmed:
            return f"{clause}, {confirmed_clause(self.decision, self.voice.code, of_worse=number)}"
        if number <= NAMED:
            clause += f": {self.named([row.case_id for row in self.suite.worse])}"
        return clause

    @property
    def _tested(self) -> int:
        """The number of cases that got worse for the test over the suite, which counts excused ones too."""
        return self.decision.evidence.regressed if self.decision.evidence is not None else 0

    def _tested_clause(self) -> str:
        """Say how many cases the test is about, where fewer of them count by themselves."""
        how = "pass less often" if self.has_trials else "got worse"
        clause = f"{self._tested:,} of {count(self.compared, 'case')} {how} in the first run, {BEYOND}"
        excused = [
            f"{len(ids):,} {kind}"
            for kind, ids in self.excused.items()
            if kind in ("tracked", "expected to fail") or not self.is_confirmed
        ]
        if self.is_confirmed:
            named = confirmed_clause(self.decision, self.voice.code, of_worse=None)
        else:
            number = len(self.worse)
            by = verb(number, "counts by itself", "count by themselves")
            named = f"{number:,} {by}: {self.named(self.worse)}"
        return "; ".join([clause, named, *excused])

    def _less_often_clause(self) -> str:
        fewer = len(self.less_often)
        if not fewer or "regression" not in self.steps("failed"):
            return ""
        beyond = f", {BEYOND}" if cases_beyond_chance(self.decision.evidence) else ""
        if beyond and self._tested != fewer:
            return self._tested_clause()
        return f"{fewer:,} of {count(self.compared, 'case')} pass less often{beyond}"

    def _only_chance_decides(self) -> bool:
        return list(self.steps("failed")) == ["regression"] or (
            "regression" in self.steps("failed") and "thresholds" not in self.steps("failed")
        )

    def _broken_limits(self) -> list[str]:
        clauses = []
        if rule := self.broken("max_new_hard_fail_cases"):
            new = int(rule.value or 0)
            # Cases that regressed mostly fail hard as well, which is no second message.
            if not (self.broken("max_regressed_cases") and new == len(self.suite.worse)):
                clauses.append(
                    f"{count(new, 'case')} newly {verb(new, 'fails', 'fail')} hard, {_limit(rule)}"
                )
        if (rule := self.broken("min_pass_rate")) and rule.value is not None:
            share = percent(rule.value, decimals=apart(rule.value, rule.threshold))
            clauses.append(f"{share} pass, {allowed(rule.threshold)} required")
        others = map(self.broken, ("max_pass_rate_drop", "max_hard_fail_increase", "max_hard_fail_rate"))
        return clauses + [
            _without_brackets(rule_sentence(rule, self.voice.prose)) for rule in others if rule is not None
        ]

    def _other_failures(self) -> list[str]:
        """What failed besides cases and rates, in the gate's own words."""
        covered = {
            rule.message for rule in self.decision.rules if find_rule(rule.rule) and not is_floor(rule)
        }
        failed = self.steps("failed")
        if "regression" in failed:
            covered.add(failed["regression"].message)
        if self.is_confirmed:
            covered.add(failed["confirmation"].message)
        if "integrity" in failed and self.errors and len(self.errors) == len(self.suite.worse):
            covered.add(failed["integrity"].message)
        sentences = [
            self.voice.prose(failure)
            for failure in dict.fromkeys(self.decision.failures)
            if failure not in covered
        ]
        # Of a text without a visible character nothing is left.
        return [*filter(None, sentences), *self._beyond_chance()]

    def _beyond_chance(self) -> list[str]:
        evidence = self.decision.evidence
        if evidence is None or "regression" not in self.steps("failed"):
            return []
        return beyond_chance(evidence, self.voice.code)

    # Whose it is.

    def _whose(self) -> str:
        if are_all_of(self.suite.causes, "service"):
            return "That is neither the agent's doing nor this change's."
        if are_all_of(self.suite.causes, "judge"):
            return "That is the judge's fault, not the agent's."
        it = "It" if len(self.suite.worse) == 1 else "They"
        comparison = self.suite.comparison
        if comparison is not None and comparison.behaviour.model_changed:
            return f"{it} passed before, but the model changed too: look at the model first."
        if by_trials := whose_by_trials(self.decision, len(self.suite.worse)):
            return by_trials
        if not all(row.baseline_passed for row in self.suite.worse):
            return ""
        if self.suite.status is GateStatus.INCONCLUSIVE and not self.has_trials:
            return f"{it} passed before: this may be chance, or this change."
        if self.suite.status is not GateStatus.FAILED:
            return ""
        baseline = self.suite.baseline
        if baseline is None:
            return f"{it} passed in the baseline."
        at = f" on {self.voice.code(baseline.branch)}" if baseline.branch else ""
        if baseline.how == "merge base":
            return f"{it} passed{at} where this change began: look at this change first."
        if baseline.how.startswith("newest on"):
            return f"{it} passed in the newest run{at}: look at this change, and at what is new there."
        return f"{it} passed in the baseline."

    # Inconclusive.

    def _inconclusive(self) -> str:
        return " ".join([*self._rules_of_the_job(), self._undecided()])

    def _rules_of_the_job(self) -> list[str]:
        """Say which rules besides the policy's do not hold: a job may not loosen its own, for example."""
        messages = {step.message for step in self.decision.steps}
        broken = [failure for failure in self.decision.failures if failure not in messages]
        return list(filter(None, map(self.voice.prose, broken))) if self.decision.steps else []

    def _undecided(self) -> str:
        undecided = self.steps("inconclusive")
        blocks = self._blocks()
        if "coverage" in undecided or "integrity" in undecided:
            messages = [undecided[name].message for name in ("coverage", "integrity") if name in undecided]
            little = "too little is compared to decide" if "coverage" in undecided else "that is not enough"
            first = f"{self._cases_so_far()}, but {little}; {blocks}."
            return " ".join([first, *filter(None, map(self.voice.prose, messages))])
        if "confirmation" in undecided:
            if were_run_again(self.decision):
                return f"{self._cases_so_far()}; fresh trials do not tell whether by this change; {blocks}."
            they = {0: "what got worse", 1: "it"}.get(len(self.worse), "they")
            return f"{self._cases_so_far()}; {they} could not be run again on both sides; {blocks}."
        if "non-inferiority" not in undecided:
            failures = list(filter(None, map(self.voice.prose, self.decision.failures)))
            if self.decision.steps and failures:
                return f"{self._cases_so_far()}; {blocks}."
            return " ".join([*failures, f"{capital(blocks)}."]) if failures else "The gate gave no reason."
        worse = self.worse
        few = "trials" if self.has_trials else "cases"
        if not worse:
            return f"{self.none_worse}, but {few} are too few to rule out a drop{self._hidden()}; {blocks}."
        return f"{self._got_worse(worse)}. Too few {few} to tell whether that is chance; {blocks}."

    def _cases_so_far(self) -> str:
        """Say how many cases got worse, or that those that did are excused."""
        worse = [row.case_id for row in self.suite.worse]
        if worse:
            return self._got_worse(worse)
        excused = len(self.suite.regressed)
        if excused:
            are = verb(excused, "is", "are")
            return f"{count(excused, 'case')} got worse and {are} excused{self._excuses()}"
        return self.none_worse

    def _excuses(self) -> str:
        """Name what excuses each case: `: a by a waiver, b by its quarantine`; empty where there are many."""
        if len(self.suite.regressed) > NAMED:
            return ""
        named = [
            f"{self.voice.code(row.case_id)} by {_EXCUSED_BY[self.kind_of_excuse(row.case_id)]}"
            for row in self.suite.regressed
        ]
        return f" ({', '.join(named)})"

    def _got_worse(self, worse: Sequence[str]) -> str:
        word = "more often" if self.has_trials else "better"
        better = f", {self._better():,} {word}" if self._better() else ""
        how = verb(len(worse), "passes less often", "pass less often") if self.has_trials else "got worse"
        of_all = f"{len(worse):,} of {count(self.compared, 'case')}" if len(worse) > 1 else "1 case"
        return f"{of_all} {how}{better}: {self.named(worse)}"

    def _better(self) -> int:
        evidence = self.decision.evidence
        return evidence.fixed if evidence is not None else self.improved

    def _hidden(self) -> str:
        evidence = self.decision.evidence
        if evidence is None:
            return ""
        return f" of {beside(evidence.interval_high, evidence.margin)} points"

    def _blocks(self) -> str:
        if self.decision.blocks:
            return f"blocked, because preset {self.decision.preset} blocks what is not certain"
        return "not blocked"

    # No baseline, passed.

    def _alone(self) -> str:
        if self.suite.nothing_shared:
            cases = self.suite.candidate.summary.total_cases
            all_of = "The only case is" if cases == 1 else f"All {cases:,} cases are"
            return f"{all_of} new or changed since the baseline."
        return "There is no baseline yet."

    def _no_baseline(self) -> str:
        why = self._alone()
        return f"Nothing was decided: {why[:1].lower()}{why[1:]} {passing(self.suite.candidate.summary)}"

    def _passed(self) -> str:
        summary = passing(self.suite.candidate.summary)
        comparison = self.suite.comparison
        if comparison is None or self.suite.nothing_shared:
            return f"{self._alone()} The limits that need none hold. {summary}"
        excused = comparison.overview.regressed_cases - len(self.suite.worse)
        if self.suite.worse:
            better = f", {self._better():,} better" if self._better() else ""
            cases = f"{len(self.suite.worse):,} of {count(self.compared, 'case')}"
            return f"{cases} got worse{better}; {self._within()}. {summary}"
        if excused:
            are = verb(excused, "is", "are")
            return f"{count(excused, 'case')} got worse and {are} excused, as listed below. {summary}"
        return f"{self._good_news()} {summary}"

    def _good_news(self) -> str:
        comparison = self.suite.comparison
        better = [row.case_id for row in comparison.case_regressions if row.improved] if comparison else []
        if better:
            none = "none that counts got worse" if self.excused else "none got worse"
            return f"{count(len(better), 'case')} improved, {none}: {self.named(better)}."
        if self.less_often:
            return f"No case regressed; {len(self.less_often):,} pass less often, within the margin."
        return f"{self.none_worse}."

    def _within(self) -> str:
        evidence = self.decision.evidence
        if evidence is None:
            return "the rules allow that"
        return f"a drop of {margin(evidence.margin)} points is ruled out"


_EXCUSED_BY = {
    "waived": "a waiver",
    "tracked": "the policy, which tracks it",
    "expected to fail": "the policy, which expects it to fail",
    "cleared": "fresh trials",
    "not yours": "fresh trials",
    "in quarantine": "its quarantine",
}
_HAPPENED: dict[GateStatus, Callable[[Headline], str]] = {
    GateStatus.FAILED: Headline._failed,
    GateStatus.INCONCLUSIVE: Headline._inconclusive,
    GateStatus.NO_BASELINE: Headline._no_baseline,
    GateStatus.PASSED: Headline._passed,
}


def _limit(rule: RuleResult) -> str:
    return "none allowed" if not exact(rule.threshold) else f"at most {rule.threshold:,.0f} allowed"


def _without_brackets(clause: str) -> str:
    """Write `fell by 4.5 points (none allowed)` as `fell by 4.5 points, none allowed`."""
    measured, bracket, limit = clause.partition(" (")
    return f"{measured}, {limit.rstrip(')')}" if bracket else clause
