"""`trials: auto` in a job: more trials of every case of a suite while its decision is open.

A look runs all cases of the suite again, never only those that fail: a failure that is run again until it
passes lifts every rate. A look is not begun where the limits of the run would end it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from agent_eval.ci.agent import AFTER_AN_OUTAGE, NOTHING_OF_THE_CHANGE, RAISE_LIMITS
from agent_eval.ci.baseline import Search
from agent_eval.ci.context import JobContext
from agent_eval.ci.history import pool_of
from agent_eval.comparison.trials import trials_of
from agent_eval.config.spec import RunSpec
from agent_eval.contracts import Comparison, GateDecision, Outcome
from agent_eval.contracts.confirmation import Spending
from agent_eval.contracts.limits import RunLimits
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import AgentEvalError
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.gate.cut_look import CutLook, with_cut_look
from agent_eval.gate.decide import decide_by_policy, decision_time
from agent_eval.gate.looks import FIXED_TRIALS, LOOKS, next_look
from agent_eval.gate.losses import marked_not_evaluated
from agent_eval.gate.waivers import active_quarantine
from agent_eval.operations.compare import compared, without_secrets
from agent_eval.operations.looks import AUTO
from agent_eval.operations.resume import journal_path
from agent_eval.operations.run_agent import RunLoopResult
from agent_eval.reports.confirmation import spending_text
from agent_eval.text.escape import clean
from agent_eval.text.numbers import count


def with_open_end(
    decision: GateDecision, comparison: Comparison | None, job: JobContext, open_end: OpenEnd | None
) -> GateDecision:
    """Add to a decision why its run took no further look, and decide again where a look was cut short."""
    if open_end is None:
        return decision
    rules, cut = job.rules, open_end.cut
    if cut is not None and comparison is not None:
        decision = with_cut_look(decision, comparison, cut, rules.policy, rules.waivers)
    elif cut is not None:
        decision = marked_not_evaluated(decision, cut.why_not_evaluated)
    return decision.model_copy(update={"looks_ended": open_end.why})


def with_fixed_trials(spec: RunSpec, trials: int) -> RunSpec:
    """Copy the specification of a run with a number of trials in place of `auto`."""
    if spec.agent is None or spec.agent.trials != AUTO:
        return spec
    return replace(spec, agent=replace(spec.agent, trials=trials))


def planned(
    job: JobContext, spec: RunSpec, slug: str, search: Search, *, confirms: bool
) -> tuple[RunSpec, Looks | None]:
    """Resolve `trials: auto` for one suite.

    Args:
        job: The job.
        spec: Of the run of the suite.
        slug: The suite's.
        search: With the suite's baseline.
        confirms: Whether cases that newly fail are run again by both agents after the last look.

    Returns:
        The specification with the trials of the first look, and what decides on further ones. With a fixed
        number, and None, where there is nothing to decide: without a baseline, and on the base branch, whose
        runs are the baseline of others. There a run that ends as soon as it is decided would keep lucky ones.
    """
    if spec.agent is None or spec.agent.trials != AUTO:
        return spec, None
    baseline = search.baselines.get(slug)
    if job.writes_history or baseline is None:
        why = "the base branch runs" if job.writes_history else "without a baseline there are"
        job.platform.say(f"{clean(slug)}: `trials: auto`: {why} {FIXED_TRIALS} trials of each case.")
        return with_fixed_trials(spec, FIXED_TRIALS), None
    expected = expected_of(baseline.pack)
    looks = Looks(job, slug, search, spec.limits.run, expected, confirms=confirms)
    return with_fixed_trials(spec, LOOKS[0]), looks


def expected_of(baseline: Pack) -> Spending:
    """Estimate what one trial of every case takes, by the baseline's time and cost of a case."""
    rows = list(baseline.index_by_id().values())
    times = [row["latency_ms"] for row in rows if row["latency_ms"] is not None]
    costs = [row["cost_usd"] for row in rows if row["cost_usd"] is not None]
    return Spending(
        trials=len(rows),
        minutes=len(rows) * sum(times) / len(times) / 60_000 if times else None,
        cost_usd=len(rows) * sum(costs) / len(costs) if costs else None,
    )


@dataclass(frozen=True)
class OpenEnd:
    """Why a run took no further look although its decision is open.

    Example:
        >>> OpenEnd("the look after 4 was not begun").cut is None
        True

    Attributes:
        why: A clause.
        cut: The look that a limit or an outage has cut short, so that nothing more may be run; None where the
            look was not begun.
    """

    why: str
    cut: CutLook | None = None


class Looks:
    """The looks of one suite: after each complete one it decides whether another follows.

    Example:
        `run_agent(spec, environ=job.environ, next_look=Looks(job, "shop", search, limits, expected))`

    Args:
        job: The job.
        slug: The suite's.
        search: With the suite's baseline.
        limits: Of the whole run of the suite.
        expected: What one trial of every case takes, as far as that is known beforehand.
        confirms: Whether cases that newly fail are run again by both agents after the last look.

    Attributes:
        looks: Trials of each case after which the run was looked at.
        ended: Why no further look was taken although the decision is open, as a clause; empty otherwise.
    """

    def __init__(
        self,
        job: JobContext,
        slug: str,
        search: Search,
        limits: RunLimits,
        expected: Spending,
        *,
        confirms: bool = False,
    ) -> None:
        self.looks: list[int] = []
        self.ended = ""
        self._job, self._slug, self._search, self._limits = job, slug, search, limits
        self._confirms, self._began = confirms, time.monotonic()
        self._expected = times(expected, LOOKS[-1])
        self._say(
            f"looks after {_listed(LOOKS)} trials of each case: {spending_text(times(expected, LOOKS[0]))}, "
            f"{spending_text(self._expected, most=True)}"
        )

    def __call__(self, result: RunLoopResult) -> int | None:
        """Return how many trials each case should have at the next look; None where this was the last."""
        self.looks.append(LOOKS[len(self.looks)])
        decision = self._decision(open_pack(result.pack))
        if decision is None:
            return None
        following = next_look(self.looks, decision, is_confirmed_later=self._confirms)
        if following is None:
            return None
        more = self._estimate(result.progress, following)
        why_not = self._beyond_limits(result.progress, more)
        if why_not:
            self.ended = f"the look after {following} was not begun: {why_not}"
            return None
        self._say(
            f"not decided after {count(self.looks[-1], 'trial')} of each case, so every case is run "
            f"{following - self.looks[-1]} times more: about {spending_text(more)}"
        )
        return following

    def finish(self, result: RunLoopResult) -> OpenEnd | None:
        """Print what the looks took; return why there was no further one, where the decision is open."""
        if result.cut_short:
            self.ended = (
                f"the next look was cut short: {result.cut_short}; of its trials only what a judge without "
                f"tolerance fails counts; they are kept in {journal_path(result.pack)}"
            )
        progress = result.progress
        spent = Spending(
            trials=progress.done,
            minutes=(time.monotonic() - self._began) / 60,
            cost_usd=progress.cost_usd if not progress.unknown_cost else None,
        )
        ended = f" ({self.ended})" if self.ended else ""
        most = spending_text(self._expected, most=True)
        self._say(f"took {spending_text(spent)}; expected {most}{ended}")
        cut = self._cut_look(result) if result.cut_short else None
        return OpenEnd(self.ended, cut) if self.ended else None

    def _cut_look(self, result: RunLoopResult) -> CutLook:
        """Say what the look that was cut short shows that no earlier trial of either run did."""
        sentences = [
            f"A further look was cut short: {result.cut_short}.",
            *([NOTHING_OF_THE_CHANGE, AFTER_AN_OUTAGE] if result.outage else [RAISE_LIMITS]),
        ]
        known = [
            failing_rows(pack) for pack in (self._search.baselines[self._slug].pack, open_pack(result.pack))
        ]
        failing = {
            judge_id: sorted(set(case_ids).difference(*(rows.get(judge_id, ()) for rows in known)))
            for judge_id, case_ids in result.failing_when_cut.items()
        }
        return CutLook(sentences, bool(result.outage), {name: ids for name, ids in failing.items() if ids})

    def _say(self, sentence: str) -> None:
        self._job.platform.say(f"{clean(self._slug)}: `trials: auto`: {clean(sentence)}.")

    def _decision(self, pack: Pack) -> GateDecision | None:
        """Decide on the run as it is; None where it cannot be compared, which the job then reports."""
        job, baseline = self._job, self._search.baselines[self._slug]
        policy, now = job.rules.policy, job.timestamp()
        # What is noted here is noted again when the job decides.
        quiet = replace(self._search, notes=[], warnings=[])
        try:
            comparison = compared(
                baseline.pack,
                pack,
                changed="exclude",
                generated_at=now,
                quarantined=active_quarantine(policy.quarantine, now=decision_time(now)),
                with_traces=False,
            )
            comparison = without_secrets(comparison, job.redactor)
            pool = pool_of(job, pack, comparison, quiet)
            return decide_by_policy(
                comparison,
                policy,
                generated_at=now,
                thresholds=job.settings.thresholds,
                waivers=job.rules.waivers,
                pool=pool.runs if pool is not None else None,
            )
        except AgentEvalError:
            return None

    def _estimate(self, progress: RunProgress, following: int) -> Spending:
        """Estimate what the missing trials take, by the trials so far."""
        done = max(1, progress.done)
        trials = progress.total * following // self.looks[-1] - progress.done
        known = progress.done - progress.unknown_cost
        return Spending(
            trials=trials,
            minutes=trials * (time.monotonic() - self._began) / done / 60,
            cost_usd=trials * progress.cost_usd / known if known else None,
        )

    def _beyond_limits(self, progress: RunProgress, more: Spending) -> str:
        """Say which limit of the run would end the next look, as a clause; empty where none would."""
        seconds, cost = self._limits.seconds, self._limits.cost_usd
        if seconds is not None and more.minutes is not None:
            used = time.monotonic() - self._began
            if used + 60 * more.minutes > seconds:
                return (
                    f"it would take about {60 * more.minutes:.0f} s, and {max(0.0, seconds - used):.0f} s of "
                    "`max-run-seconds` are left"
                )
        if cost is not None and more.cost_usd is not None and progress.cost_usd + more.cost_usd > cost:
            unspent = max(0.0, cost - progress.cost_usd)
            price = f"{more.cost_usd:.2f} US dollars"
            return f"it would cost about {price}, and {unspent:.2f} of `max-run-cost` are left"
        return ""


def failing_rows(pack: Pack) -> dict[str, set[str]]:
    """Collect the cases that each judge failed in any trial of a sealed run, by judge id."""
    failing: dict[str, set[str]] = {}
    for row in pack.results():
        for trial in trials_of(row):
            for verdict in trial["verdicts"]:
                if verdict["outcome"] == Outcome.FAILED.value:
                    failing.setdefault(verdict["judge_id"], set()).add(row["case_id"])
    return failing


def times(spending: Spending, factor: int) -> Spending:
    """Multiply what is spent by a whole number."""
    return Spending(
        trials=spending.trials * factor,
        minutes=None if spending.minutes is None else spending.minutes * factor,
        cost_usd=None if spending.cost_usd is None else spending.cost_usd * factor,
    )


def _listed(numbers: tuple[int, ...]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
