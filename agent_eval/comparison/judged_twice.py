"""Results of one run's trajectories by the definitions and judges of the other run."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent_eval.comparison.facts import FAILURES, CaseOutcome, Pattern, RunView, case_outcome
from agent_eval.contracts import CaseResultRow, Outcome
from agent_eval.text.numbers import count


@dataclass(frozen=True, kw_only=True)
class JudgedTwice:
    """Cases that both runs are judged on by the same definitions, judges and case policy.

    Attributes:
        baseline: Results of the baseline's trajectories by today's definitions and judges, by case id.
        candidate: Results of the candidate by the judges that could judge both runs, where these are fewer.
        by_baseline: Results of the candidate's trajectories by the baseline's definitions and judges.
        judges: Ids of the judges whose other configuration was applied to both runs.
        apart: Ids of the judges that cannot judge the stored trajectories, and are not compared.
    """

    baseline: Mapping[str, CaseResultRow] = field(default_factory=dict)
    candidate: Mapping[str, CaseResultRow] = field(default_factory=dict)
    by_baseline: Mapping[str, CaseResultRow] = field(default_factory=dict)
    judges: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()

    def todays(self, baseline: RunView, candidate: RunView) -> tuple[RunView, RunView]:
        """Return both runs as they are judged today."""
        return with_results(baseline, self.baseline), with_results(candidate, self.candidate)

    def notices(self) -> list[str]:
        """Say which results are not those that the runs stored, in sentences for the top of a report."""
        sentences = []
        if self.baseline:
            cases = count(len(self.baseline), "case")
            sentences.append(f"The baseline's results of {cases} are by today's definitions and judges.")
        if self.apart:
            names = ", ".join(sorted(self.apart))
            sentences.append(f"Not compared, as it cannot judge the baseline's stored trajectories: {names}.")
        return sentences

    def outcomes(
        self, before: dict[str, CaseOutcome], now: dict[str, CaseOutcome]
    ) -> tuple[dict[str, CaseOutcome], dict[str, CaseOutcome]]:
        """Return the outcomes of both runs as they are judged today."""
        return before | outcomes_of(self.baseline), now | outcomes_of(self.candidate)

    def new_expectations(
        self,
        before: Mapping[str, CaseOutcome],
        todays: tuple[Mapping[str, CaseOutcome], Mapping[str, CaseOutcome]],
    ) -> dict[str, list[str]]:
        """Find the judges by whose old expectation a case got worse, and by whose new one it did not.

        Args:
            before: Outcomes of the baseline as it was judged.
            todays: Outcomes of both runs as they are judged today.
        """
        hidden = {}
        for case_id, now in outcomes_of(self.by_baseline).items():
            worse = _worse(before[case_id], now) - _worse(todays[0][case_id], todays[1][case_id])
            if worse:
                hidden[case_id] = sorted(worse)
        return hidden


def with_results(run: RunView, results: Mapping[str, CaseResultRow]) -> RunView:
    """Return a run in which some cases have other results."""
    return replace(run, results=ChainMap(dict(results), run.results)) if results else run  # type: ignore[arg-type]  # only read


def outcomes_of(results: Mapping[str, CaseResultRow]) -> dict[str, CaseOutcome]:
    """Compute the outcomes of case results, by case id."""
    known: dict[Pattern, CaseOutcome] = {}
    outcomes = {}
    for case_id, row in results.items():
        pattern = tuple(
            (verdict["judge_id"], verdict["outcome"], verdict["hard"]) for verdict in row["verdicts"]
        )
        outcomes[case_id] = known.setdefault(pattern, case_outcome(pattern))
    return outcomes


def _worse(before: CaseOutcome, now: CaseOutcome) -> set[str]:
    """Collect the judges that passed a case and do not now, or newly fail it."""
    return {
        judge_id
        for judge_id, outcome in now.judges.items()
        if judge_id in before.judges and _is_worse(before.judges[judge_id], outcome)
    }


def _is_worse(before: str, now: str) -> bool:
    if now in FAILURES:
        return before not in FAILURES
    return before == Outcome.PASSED.value and now == Outcome.INCONCLUSIVE.value
