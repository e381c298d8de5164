"""The trials of a job: each suite's first run, that of a measured base, and what the gate asks to run again.

In a first run the agent is run, or recorded traces are judged; of earlier jobs it is the shards of one
suite, merged. What is run again, and in which order, is `gate.rerun`'s; what it means, `gate.answer`'s. Every
verdict of that is a fresh one: no ruling of an LLM judge is taken from the baseline.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agent_eval.ci.agents import Agents
from agent_eval.ci.baseline import MEASURED, Baseline, Origin, Search, packs_below
from agent_eval.ci.config import name_of
from agent_eval.ci.decide import Judged
from agent_eval.ci.definitions import Redefinition, Target
from agent_eval.ci.rules import JobContext
from agent_eval.ci.sides import Side
from agent_eval.ci.workspace import Altered
from agent_eval.config.rows.run import LIMITS
from agent_eval.config.spec import Output, RunSpec
from agent_eval.contracts.execution import RunLimits
from agent_eval.contracts.reruns import CaseReruns, Figures, Rerun, Reruns, Spending, SuiteRound, TrialCounts
from agent_eval.contracts.reruns import Side as SideName
from agent_eval.engine.progress import RunProgress
from agent_eval.errors import AgentEvalError, Fault, InvalidInput, NotEvaluable
from agent_eval.evidence.archive import by_dataset, compact, expand, write_bundle
from agent_eval.evidence.layout import may_be_replaced
from agent_eval.evidence.reader import Pack, open_pack, refuse_incomplete
from agent_eval.gate.decide import question_of
from agent_eval.gate.limits import figures_in_doubt
from agent_eval.gate.procedure import Question
from agent_eval.gate.rerun import Cut, rerun
from agent_eval.history.records import record_of
from agent_eval.operations.decision_material import WHOLE, rerun_of
from agent_eval.operations.packs import view
from agent_eval.operations.resume import discard_journal
from agent_eval.operations.run import Overrides, run_suite
from agent_eval.operations.run_agent import run_agent
from agent_eval.reports.terminal import progress_text
from agent_eval.storage.atomic import new_directories
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.suites.paths import is_of_conversations
from agent_eval.suites.reader import SuiteSource, open_suite
from agent_eval.text.escape import clean, one_line
from agent_eval.text.numbers import count, verb

SHARE = 0.5
"""The part of a run's limits of time and cost that its reruns have; the first run has the other."""

_LARGEST_EVIDENCE = 256 << 20
"""Most bytes of the archive with the packs of the reruns."""

_TIME_USED_UP = "the time of the run was used up"
_MONEY_USED_UP = "the money of the run was used up"
_IN_TURN = 10
"""Cases of the whole suite that one side runs before the other runs them, at least as many as run at once."""

_REASON_LIMIT = 200


def _times(limits: RunLimits, factor: float) -> RunLimits:
    """Copy the limits of a run for a part of it."""
    seconds, cost = limits.seconds, limits.cost_usd
    return RunLimits(
        seconds=None if seconds is None else factor * seconds,
        cost_usd=None if cost is None else factor * cost,
    )


@dataclass(frozen=True)
class FirstRun:
    """A suite whose first run raised a question; with its source, where that is open already."""

    spec: RunSpec
    source: SuiteSource | None
    pack: Pack
    question: Question


@dataclass
class _Packs:
    """The reruns of one suite: their sealed packs by name in the archive, and what they took."""

    sealed: dict[str, Pack] = field(default_factory=dict)
    trials: int = 0
    seconds: float = 0.0
    cost_usd: float = 0.0
    cost_is_known: bool = True


class JobRunner:
    """Runs trials of the suites of a job, as `gate.rerun.Runner` has it. The packs go into `home`."""

    def __init__(self, job: JobContext, agents: Agents, runs: Mapping[str, FirstRun], home: Path) -> None:
        self._job, self._agents, self._runs, self._home = job, agents, runs, home
        self._limits = _times(job.settings.limits.run, SHARE * len(runs))
        self._began = self._last_line = time.monotonic()
        self._packs: dict[str, _Packs] = defaultdict(_Packs)
        self._ended: str | None = None
        self._why_none = ""

    def trials(self, slug: str, side: SideName, case_ids: Sequence[str]) -> Mapping[str, Rerun]:
        """Run one trial of each case on one side; what no judge could judge once more."""
        results = self._once(slug, side, case_ids)
        again = [case_id for case_id, rerun in results.items() if rerun.result == "unjudged"]
        if again and self._ended is None:
            results = {**results, **self._once(slug, side, again)}
        return results

    def whole_suite(
        self, slug: str, sides: Sequence[SideName]
    ) -> tuple[SuiteRound, Mapping[SideName, Figures]]:
        """Run all cases of the question by these sides, in turn, with as many trials as the first run had."""
        run = self._runs[slug]
        agent = run.spec.agent
        trials = agent.trials if agent is not None else 1
        at_once = agent.parallel if agent is not None and isinstance(agent.parallel, int) else 1
        size = max(_IN_TURN, at_once)
        ids = list(run.question.cases)
        counts: dict[SideName, dict[str, TrialCounts]] = {side: {} for side in sides}
        figures: dict[SideName, Figures] = {side: Figures() for side in sides}
        for start in range(0, len(ids), size):
            for side in sides:
                wave = ids[start : start + size]
                pack = self._run(slug, side, wave, trials=trials, kind=WHOLE)
                if pack is None or self._ended is not None:
                    # A round of which a part was run says nothing of the suite.
                    raise Cut(self._ended or "a round of the whole suite could not be run")
                for case_id, row in record_of(pack).cases.items():
                    counts[side][case_id] = TrialCounts(passed=row.passed, trials=row.trials)
                    if row.cost_usd is not None:
                        figures[side].cost_usd[case_id] = row.cost_usd
                    if row.latency_ms is not None:
                        figures[side].latency_ms[case_id] = row.latency_ms
        return SuiteRound(**counts), figures

    def altered(self, slug: str) -> Mapping[SideName, str]:
        """Say why no trial of a side counts."""
        del slug
        return dict(self._agents.altered)

    def spent(self, slug: str) -> Spending:
        """What the reruns of a suite took."""
        packs = self._packs[slug]
        return Spending(
            trials=packs.trials,
            minutes=packs.seconds / 60,
            cost_usd=packs.cost_usd if packs.cost_is_known else None,
        )

    def archive(self, slug: str) -> bytes | None:
        """Pack the evidence of the reruns of a suite, as it was sealed; None without any."""
        packs, place = self._packs[slug].sealed, self._home / f"{slug}.zip"
        if not packs:
            return None
        write_bundle(packs, place)
        return read_bytes(place, max_bytes=_LARGEST_EVIDENCE)

    def _once(self, slug: str, side: SideName, case_ids: Sequence[str]) -> dict[str, Rerun]:
        pack = self._run(slug, side, case_ids, trials=1)
        if pack is None:
            # An agent that cannot be started fails: an error is a failure, on either side.
            return {case_id: Rerun(result="failed", reason=self._why_none) for case_id in case_ids}
        return {
            case_id: rerun_of(row) for case_id, row in pack.results_by_id().items() if case_id in case_ids
        }

    def _run(
        self, slug: str, side: SideName, case_ids: Sequence[str], *, trials: int, kind: str = ""
    ) -> Pack | None:
        """Run trials of some cases on one side; None where its agent cannot be run at all.

        Raises `Cut` where nothing more can be run, `Altered` where the base, or what judges, was altered.
        """
        limits = self._limits_left()
        run, packs = self._runs[slug], self._packs[slug]
        self._agents.before_trials(side)
        spec, options = self._agents.run_by(side, run.spec)
        name = f"{kind}{side}-{len(packs.sealed) + 1}"
        run_id = spec.identity.run_id
        spec = replace(
            spec,
            agent=replace(spec.agent, trials=trials) if spec.agent is not None else None,
            cases=tuple(case_ids),
            output=Output(pack=self._home / slug / name, fresh=True),
            identity=replace(spec.identity, run_id=f"{run_id}-{name}" if run_id is not None else None),
            limits=replace(spec.limits, run=limits),
        )
        began = time.monotonic()
        if began - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = began
            again = f"running {count(len(case_ids), 'case')} again, {count(trials, 'trial')} each"
            self._job.platform.say(f"{clean(run.spec.suite.name)}: {again}, by the {side}'s agent.")
        try:
            done = run_agent(
                spec,
                environ=self._job.environ,
                overrides=Overrides(redactor=self._job.redactor, source=run.source, options=options),
                on_progress=ProgressLines(f"{run.spec.suite.name}, {side} again", self._job.platform.say),
            )
        except AgentEvalError as error:
            packs.cost_is_known = False
            self._limits_left()
            self._why_none = one_line(self._job.redactor.redact_text(error.message), limit=_REASON_LIMIT)
            return None
        finally:
            packs.seconds += time.monotonic() - began
            self._agents.after_trials(side)
        # What they left counts, and no others follow.
        if done.outage:
            self._ended = done.outage
        elif done.stopped:
            self._ended = _TIME_USED_UP if self._seconds_left() == 0 else _MONEY_USED_UP
        pack = open_pack(spec.output.pack)
        refuse_other_judges(run.pack, pack)
        packs.sealed[name] = pack
        packs.trials += done.progress.done
        packs.cost_usd += done.progress.cost_usd
        packs.cost_is_known &= done.progress.unknown_cost == 0
        return pack

    def _seconds_left(self) -> float | None:
        seconds = self._limits.seconds
        return None if seconds is None else max(0.0, seconds - (time.monotonic() - self._began))

    def _limits_left(self) -> RunLimits:
        """The limits of the trials that follow.

        Raises `Cut` where time or money is used up, or the last trials ended early.
        """
        seconds, cost = self._seconds_left(), self._limits.cost_usd
        if cost is not None:
            cost = max(0.0, cost - sum(packs.cost_usd for packs in self._packs.values()))
        if seconds == 0:
            raise Cut(_TIME_USED_UP)
        if cost == 0:
            raise Cut(_MONEY_USED_UP)
        if self._ended is not None:
            raise Cut(self._ended)
        return RunLimits(seconds=seconds, cost_usd=cost)


def refuse_other_judges(first: Pack, other: Pack) -> None:
    """Refuse trials that were judged otherwise than the first run: suite or judges were altered meanwhile."""
    before, now = first.config, other.config
    definitions = {case_id: row["definition_digest"] for case_id, row in first.index_by_id().items()}
    if (
        before.judges != now.judges
        or before.judge_configs != now.judge_configs
        or before.execution_config.judge_code != now.execution_config.judge_code
        or any(
            definitions.get(case_id) != row["definition_digest"]
            for case_id, row in other.index_by_id().items()
        )
    ):
        raise Altered(
            "The suite or its judges were altered while the job ran.",
            remedy="Nothing but the job may write there: look at what the agent and its setup do.",
        )


def run_again(
    job: JobContext,
    agents: Agents,
    judged: Sequence[Judged],
    search: Search,
    redefinitions: Mapping[str, Redefinition],
) -> dict[str, tuple[Reruns, bytes | None]]:
    """Run again what the first runs of a job ask for, over all its suites together; and as main has them the
    cases that the change removes or rewords.

    Returns by slug the record, and the archive with the packs of the trials; None where nothing was run.
    Raises `Altered` where what judges, or is run, was altered meanwhile.
    """
    policy, now = job.rules.policy, job.timestamp()
    live = {suite.target.slug: suite for suite in judged if suite.material.may_rerun}
    questions = {slug: question_of(suite.material, policy, generated_at=now) for slug, suite in live.items()}
    in_doubt = frozenset(
        slug for slug, suite in live.items() if figures_in_doubt(suite.material.counts, policy)
    )
    done: dict[str, tuple[Reruns, bytes | None]] = {}
    if live:
        compared = [asks for asks in questions.values() if asks.has_baseline]
        needs_base = bool(in_doubt) or any(asks.order or asks.is_low or asks.new for asks in compared)
        base = agents.build_base() if needs_base and not agents.is_unchanged else agents.describe_base()
        runs = {
            slug: FirstRun(
                first_run_of(job, suite.target, search), suite.target.source, suite.pack, questions[slug]
            )
            for slug, suite in live.items()
        }
        with TemporaryDirectory(prefix="agent-eval-reruns-") as folder:
            runner = JobRunner(job, agents, runs, Path(folder))
            for slug, record in rerun(questions, runner, base, figures_in_doubt=in_doubt).items():
                data, comparison = runner.archive(slug), live[slug].material.comparison
                evidence = {
                    "spent": runner.spent(slug),
                    "baseline_manifest_sha256": comparison.baseline.manifest_sha256 if comparison else None,
                    "candidate_manifest_sha256": live[slug].pack.manifest_sha256,
                    "evidence_sha256": sha256_bytes(data) if data is not None else None,
                }
                done[slug] = record.model_copy(update=evidence), data
    for suite in judged:
        slug, redefinition = suite.target.slug, redefinitions.get(suite.target.slug)
        if redefinition is None or redefinition.of_base is None or suite.material.comparison is None:
            continue
        record, data = done.get(slug, (Reruns(), None))
        spec = replace(first_run_of(job, suite.target, search), suite=redefinition.of_base)
        done[slug] = record.model_copy(update={"by_main": run_by_main(job, agents, spec)}), data
    return done


def run_by_main(job: JobContext, agents: Agents, spec: RunSpec) -> list[CaseReruns]:
    """Run cases of the base by the change's agent, once each; of recorded ones, judge the base's traces.

    What cannot be run has no trials, and is open. `spec` is that of the change's first run, on these cases.
    """
    with TemporaryDirectory(prefix="agent-eval-by-main-") as folder:
        spec = replace(spec, output=Output(pack=Path(folder) / "pack", fresh=True))
        try:
            if spec.agent is None:
                run_suite(spec, environ=job.environ, overrides=Overrides(redactor=job.redactor))
            else:
                prepared = agents.of_change()
                spec = replace(spec, agent=replace(prepared.agent, trials=1))
                overrides = Overrides(redactor=job.redactor, options=prepared.options)
                run_agent(spec, environ=job.environ, overrides=overrides)
        except AgentEvalError as error:
            job.platform.warn(f"Cases of main could not be run: {error.message}")
            return []
        rows = open_pack(spec.output.pack).results()
        return [CaseReruns(case_id=row["case_id"], change=[rerun_of(row)]) for row in rows]


FIRST_TRIALS, FIRST_RUNS = 4, 4
"""Trials of each case in a run of a reviewed commit, while fewer such runs are known, and of a measured base:
what passed once by luck would count as reliable."""

SECONDS_BETWEEN_LINES = 10.0
_AFTER_AN_OUTAGE = "Check that the agent, its tools and the judges' model answer, then run the job again."
_JUDGE_IS_DOWN = "Check the judge's code, or its model's key, address and quota; then run the job again."
_LIMITS_OF_A_RUN = " or ".join(f"`{name_of(row)}`" for row in LIMITS if row.part == "limits.run")
_RAISE_LIMITS = f"Raise {_LIMITS_OF_A_RUN}, or run fewer cases."


def runs_live(job: JobContext, target: Target) -> bool:
    """Whether the job can run the agent on a suite; else it judges recorded traces."""
    agent = job.settings.agent
    return agent is not None and (agent.is_named or is_of_conversations(target.path))


def first_run_of(job: JobContext, target: Target, search: Search) -> RunSpec:
    """Say how the first run of a suite is made, with its share of the limits."""
    settings, run = job.settings, job.platform.run
    agent = settings.agent
    if agent is not None and job.place is not None and job.place.is_reviewed:
        known = search.earlier.get(target.slug, [])
        of_setup = [record for record in known if record.run.key == known[0].run.key]
        if len(of_setup) < FIRST_RUNS:
            agent = replace(agent, trials=max(agent.trials, FIRST_TRIALS))
    identity = replace(
        settings.identity,
        run_id=f"{run.run_name}-{target.slug}" if run.run_name else None,
        git_commit=job.place.head if job.place is not None else run.head_sha,
    )
    return RunSpec(
        suite=target.path,
        output=Output(pack=settings.out / target.slug, fresh=True),
        agent=agent if runs_live(job, target) else None,
        judging=settings.judging,
        limits=replace(settings.limits, run=_times(settings.limits.run, 1 - SHARE)),
        identity=identity,
    )


def make_packs(job: JobContext, targets: Sequence[Target], agents: Agents, search: Search) -> dict[str, Pack]:
    """Judge every suite, by running the agent where there is one; its evidence by slug.

    Where a limit or an outage ends a run, the evidence of the finished trials is written.
    """
    if len(targets) > 1:
        for target in targets:
            # A suite that cannot be read is reported before the others have been run.
            deque(open_suite(target.path).cases(), maxlen=0)
    packs = {}
    for target in targets:
        spec = first_run_of(job, target, search)
        baseline = search.baselines.get(target.slug)
        overrides = Overrides(
            redactor=job.redactor,
            source=target.source,
            baseline=baseline.pack if baseline is not None else None,
        )
        lines = ProgressLines(target.path.name, job.platform.say)
        if spec.agent is None:
            run_suite(spec, environ=job.environ, overrides=overrides, on_progress=lines)
        else:
            change = agents.of_change()
            spec = replace(spec, agent=replace(change.agent, trials=spec.agent.trials))
            discard_journal(spec.output.pack)
            overrides = replace(overrides, options=change.options)
            done = run_agent(spec, environ=job.environ, overrides=overrides, on_progress=lines)
            if done.stopped:
                raise _stopped(spec.suite, done.stopped, done.progress, is_outage=bool(done.outage))
        packs[target.slug] = open_pack(spec.output.pack)
    return packs


def _stopped(suite: Path, why: str, progress: RunProgress, *, is_outage: bool) -> NotEvaluable:
    if not is_outage:
        message = f"{suite}: {why}, after {progress.done} of {progress.total} trials."
        return NotEvaluable(message, remedy=_RAISE_LIMITS, file=str(suite))
    lost, _, reason = why.partition(" (")
    not_run = progress.total - progress.done
    message = (
        f"{lost}: {reason.replace('); ', '; ').removesuffix(')')}. The run of {suite} stopped there: "
        f"{count(not_run, 'trial')} {verb(not_run, 'was', 'were')} not run. This says nothing "
        "about the change."
    )
    is_of_judge = lost.endswith(f" {Fault.JUDGE.value}")
    return NotEvaluable(message, remedy=_JUDGE_IS_DOWN if is_of_judge else _AFTER_AN_OUTAGE, file=str(suite))


class ProgressLines:
    """Prints into the job's log every few seconds how far a suite's run is; at once, what must be known."""

    def __init__(self, suite: str, say: Callable[[str], None]) -> None:
        self._suite, self._say = clean(suite), say
        self._last, self._noted = time.monotonic(), 0

    def __call__(self, progress: RunProgress) -> None:
        """Print a line, if the last one is old enough."""
        for note in progress.notes[self._noted :]:
            self._say(f"{self._suite}: {clean(note)}")
        self._noted = len(progress.notes)
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._last = time.monotonic()
            self._say(f"{self._suite}: {progress_text(progress)}")


def take_packs(job: JobContext, targets: Sequence[Target], where: Path) -> dict[str, Pack]:
    """Copy the evidence of every suite, which earlier jobs made, into the output directory; by slug.

    `where` is a pack, or a directory or archive of packs, with one whole pack of each suite as it is here,
    made at the commit of this job.
    """
    by_slug = by_dataset(packs_below(where).values(), str(where))
    commit = job.place.head if job.place is not None else None

    def wrong(what: str, remedy: str = "Run the earlier jobs again, on the same commit.") -> InvalidInput:
        return InvalidInput(
            f"The evidence at {where} {what}.", remedy=remedy, file=str(where), field="evidence"
        )

    for target in targets:
        if (evidence := by_slug.get(target.slug)) is None:
            raise wrong(f"has no evidence of `{target.slug}`", "Run every suite in an earlier job.")
        refuse_incomplete(evidence.name, evidence.manifest)
        if evidence.config.suite_digest != (target.source or open_suite(target.path)).digest:
            raise wrong(f"is of another version of `{target.path}`")
        if commit is not None and evidence.config.git_commit is None:
            raise wrong("does not say of which commit it is", "Make it in a job of this run, or in git.")
        if commit not in (None, evidence.config.git_commit):
            raise wrong("is of another commit")
    finals = [job.settings.out / target.slug for target in targets]
    with new_directories(finals, may_replace=may_be_replaced) as places:
        for target, place in zip(targets, places, strict=True):
            pack = by_slug[target.slug]
            (expand if pack.manifest.layout == "files" else compact)(pack, place)
    return {target.slug: open_pack(job.settings.out / target.slug) for target in targets}


def measure_base(job: JobContext, agents: Agents, target: Target, search: Search) -> None:
    """Run the base's agent over the base's own suite, or judge the traces that are recorded there.

    The baseline goes into the search; where there is none, a note says why. Raises `Altered` where the change
    altered what is run.
    """
    if (place := job.place) is None:
        return
    spec = replace(
        first_run_of(job, target, search),
        output=Output(pack=place.clone.home / "measured" / target.slug, fresh=True),
    )
    try:
        if spec.agent is None:
            agents.base = side = agents.base or Side(place.clone, "base", place.base, job.environ)
            spec = replace(spec, suite=side.path(target.path))
            run_suite(spec, environ=job.environ, overrides=Overrides(redactor=job.redactor))
        else:
            base = agents.build_base()
            if not base.can_run or agents.base is None:
                nothing = "that version names no agent to run, as is usual on a first run"
                raise NotEvaluable(f"{base.problem or nothing}.")
            spec, options = agents.run_by("base", spec)
            agent = replace(spec.agent, trials=FIRST_TRIALS) if spec.agent is not None else None
            spec = replace(spec, agent=agent, suite=agents.base.path(target.path))
            agents.before_trials("base")
            overrides = Overrides(redactor=job.redactor, options=options)
            lines = ProgressLines(f"{target.path.name}, base", job.platform.say)
            done = run_agent(spec, environ=job.environ, overrides=overrides, on_progress=lines)
            agents.after_trials("base")
            if done.stopped:
                raise NotEvaluable(f"{done.stopped}.")
        pack = open_pack(spec.output.pack)
    except AgentEvalError as error:
        if error.code == "altered":
            raise
        search.notes.append(f"The base was not measured: {error.message}")
        return
    job.platform.say(f"The base has no run; {target.path} was measured at {place.base[:7]} in this job.")
    origin = Origin(how=MEASURED, sha=place.base, branch=place.trusted_branch)
    search.baselines[target.slug] = Baseline(pack, view(pack), origin)
