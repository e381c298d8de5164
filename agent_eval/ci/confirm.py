"""Run suspects again, alternately by the candidate and by the merge base's agent, and record the results.

What the results mean is decided by `gate.confirmation`; here is only what was run. Whatever casts doubt on a
trial is recorded as a problem, or as a trial that was lost: neither is ever a pass.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_eval.agents.base import AgentOptions
from agent_eval.ci.base_cache import FRESH_FIRST, BaseCache
from agent_eval.ci.new_cases import NewCaseTrials
from agent_eval.config.spec import Output, RunSpec
from agent_eval.contracts import CaseResultRow, Comparison
from agent_eval.contracts.confirmation import CachedTrials, Confirmation, FreshTrials, Spending
from agent_eval.contracts.limits import RunLimits
from agent_eval.errors import AgentEvalError, NotEvaluable
from agent_eval.evidence.archive import write_bundle
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.gate.confirmation import is_settled
from agent_eval.operations.confirmation import (
    LARGEST_EVIDENCE,
    NEW,
    failing_judges,
    fresh_result,
    is_changed,
    is_judged_alike,
    unjudged_judges,
)
from agent_eval.operations.run_agent import run_agent
from agent_eval.reports.confirmation import spending_text
from agent_eval.storage.files import read_bytes, sha256_bytes
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource
from agent_eval.text.escape import one_line
from agent_eval.text.numbers import count

ALTERED_JUDGES = "The suite or its judges were altered while the job ran, so no fresh trial counts."

_REASON_LIMIT = 200


class Doubt(NotEvaluable):
    """Raised where no fresh trial counts any more. The message is a sentence for the report."""

    code = "doubtful_confirmation"


@dataclass(frozen=True)
class Side:
    """One of the two agents, ready to be run.

    Example:
        `Side("base", spec, options, check=tree_is_unaltered, ended=seal_tree)`

    Args:
        name: `candidate` or `base`.
        spec: Its run; suite, cases, output and limits of the whole run are filled in for each round.
        options: Settings of its agent; None for those of the specification.
        check: Called before each of its trials; raises `Doubt` where what it runs was altered.
        ended: Called after each of its trials.
    """

    name: str
    spec: RunSpec
    options: AgentOptions | None = None
    check: Callable[[], None] = lambda: None
    ended: Callable[[], None] = lambda: None


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is to be confirmed: the suspects of one suite, and the run that raised them.

    Args:
        suite: The suite's file.
        source: The suite, where it is open already.
        pack: The candidate's first run.
        comparison: That run compared with the baseline.
        suspects: Case ids, in the order in which they are run.
        every_pair: Those that run all pairs, because only complete trials clear what they are suspected of.
        are_moot: Whether something blocks that no fresh trial can change.
        new_cases: Ids of the cases that the merge base's agent is run on once.
        history: Of the suspects: newest trials on the base branch that passed, and that were scored.

    Example:
        `Question(suite=path, source=None, pack=pack, comparison=comparison, suspects=["refund"])`
    """

    suite: Path
    source: SuiteSource | None
    pack: Pack
    comparison: Comparison
    suspects: Sequence[str]
    every_pair: frozenset[str] = frozenset()
    are_moot: bool = False
    new_cases: Sequence[str] = ()
    history: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def rows(self, most: int) -> list[FreshTrials]:
        """Build the records of the first suspects, without trials."""
        rows = []
        for case_id in self.suspects[:most]:
            passed, scored = self.history.get(case_id, (0, 0))
            is_other = is_changed(case_id, self.comparison)
            row = FreshTrials(case_id=case_id, changed=is_other, history_passed=passed, history_scored=scored)
            rows.append(row)
        return rows


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much a confirmation may run and spend; None is without limit.

    Example:
        >>> Bounds(pairs=6, max_cases=8, alpha=0.05).seconds is None
        True
    """

    pairs: int
    max_cases: int
    alpha: float
    seconds: float | None = None
    cost_usd: float | None = None


@dataclass
class _Round:
    """What both sides have spent so far, and the packs of their trials."""

    packs: dict[str, Path] = field(default_factory=dict)
    earlier: dict[str, bytes] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    trials: int = 0
    cost_usd: float = 0.0
    cost_is_known: bool = True


class Confirmer:
    """Runs one confirmation.

    Example:
        `Confirmer(question, bounds, environ={}, redactor=redactor).run(candidate, base, path)` returns the
        record.

    Args:
        question: The suspects.
        bounds: What may be run and spent.
        environ: The environment variables of the job.
        redactor: Replaces secrets in the evidence of the trials.
        say: Prints into the job's log.
        cache: Earlier trials of the merge base; None to run all of them.
    """

    def __init__(
        self,
        question: Question,
        bounds: Bounds,
        *,
        environ: Mapping[str, str],
        redactor: Redactor,
        say: Callable[[str], None] = lambda _: None,
        cache: BaseCache | None = None,
    ) -> None:
        self._question, self._bounds = question, bounds
        self._environ, self._redactor, self._say = environ, redactor, say
        self._cache, self._spent = cache, _Round()
        self._began = time.monotonic()

    def run(self, candidate: Side, base: Side, evidence: Path) -> Confirmation:
        """Run the suspects until each is settled, and write the packs of all trials into one archive.

        Args:
            candidate: The change's agent.
            base: The merge base's.
            evidence: The archive to write; none is written where no trial was run.
        """
        rows = self._question.rows(self._bounds.max_cases)
        new = NewCaseTrials(self._question.pack, self._question.new_cases, self._bounds.max_cases)
        expected = self.expected(len(rows), new=len(new.rows))
        again = f"{count(len(rows), 'case')} again on both sides" if rows else ""
        to_run = " and ".join(filter(None, [again, new.in_words]))
        self._say(f"Confirmation: {spending_text(expected, most=True)}, to run {to_run}.")
        home = Path(tempfile.mkdtemp(prefix="agent-eval-confirmation-"))
        problem = stopped = ""
        sha256 = None
        try:
            try:
                stopped = self._rounds(rows, candidate, base, home)
                self._try_once(new, base, home)
            except Doubt as doubt:
                problem = doubt.message
            # Also with a problem: what a zero-tolerance judge failed counts, and must be there to be seen.
            sha256 = self._write_evidence(evidence)
            if not problem:
                self._keep(rows, home)
        except Doubt as doubt:
            problem = problem or doubt.message
        finally:
            shutil.rmtree(home, ignore_errors=True)
        spent = self._spending()
        self._say(f"Confirmation: {spending_text(spent)}.")
        return Confirmation(
            pairs=self._bounds.pairs,
            max_cases=self._bounds.max_cases,
            problem=problem,
            stopped=stopped,
            cases=rows,
            new_cases=new.tried(),
            new_problem=new.problem or (problem if new.rows else ""),
            expected=expected,
            spent=spent,
            evidence_sha256=sha256,
        )

    def expected(self, cases: int, *, new: int = 0) -> Spending:
        """Estimate the most that so many cases take, from the first run's mean time and cost of a trial.

        Where the cost of any of its trials is unknown, so is what these will cost.
        """
        trials = 2 * self._bounds.pairs * cases + new
        index = list(self._question.pack.index_by_id().values())
        times = [row["latency_ms"] for row in index if row["latency_ms"] is not None]
        costs = [row["cost_usd"] for row in index if row["cost_usd"] is not None]
        return Spending(
            trials=trials,
            minutes=trials * sum(times) / len(times) / 60_000 if times else None,
            cost_usd=trials * sum(costs) / len(costs) if costs and len(costs) == len(index) else None,
        )

    def _rounds(self, rows: Sequence[FreshTrials], candidate: Side, base: Side, home: Path) -> str:
        """Run pairs of trials until every case is settled; return why that ended early, as a sentence."""
        for number in range(self._bounds.pairs):
            unsettled = [row for row in rows if not self._is_settled(row)]
            if not unsettled:
                return ""
            order = (base, candidate) if number % 2 == 0 else (candidate, base)
            for side in order:
                if reason := self._out_of_means():
                    return reason
                self._side(side, unsettled, home, number)
        return ""

    def _side(self, side: Side, rows: Sequence[FreshTrials], home: Path, number: int) -> None:
        """Run one round of a side. With a cache each case of the merge base gets a pack of its own."""
        if self._cache is None or side.name == "candidate":
            self._try(side, rows, home / f"{side.name}-{number + 1}")
            return
        if number == FRESH_FIRST:
            self._take_earlier(rows)
        for row in rows:
            if row.cached is None:
                self._try(side, [row], home / self._pack_of(row, number))

    def _pack_of(self, row: FreshTrials, number: int) -> str:
        return f"base-{number + 1}-{self._question.suspects.index(row.case_id) + 1}"

    def _take_earlier(self, rows: Sequence[FreshTrials]) -> None:
        """Take the rest of the merge base's trials from an earlier run, where all passed then and now."""
        for row in rows:
            passes = row.base == ["passed"] * FRESH_FIRST and not any(row.base_failing)
            arm = self._cache.find(row.case_id) if self._cache is not None and passes else None
            if arm is None:
                continue
            packs = arm.packs[FRESH_FIRST:]
            place = self._question.suspects.index(row.case_id) + 1
            names = [f"base-cached-{place}-{number}" for number in range(1, len(packs) + 1)]
            for name, files in zip(names, packs, strict=True):
                self._spent.earlier.update({f"{name}/{path}": data for path, data in files.items()})
            row.base += ["passed"] * len(packs)
            row.base_failing += [[] for _ in packs]
            row.base_unjudged += [[] for _ in packs]
            row.cached = CachedTrials(packs=names, started_at=arm.started_at)

    def _keep(self, rows: Sequence[FreshTrials], home: Path) -> None:
        """Keep the merge base's trials for a later run. That this fails costs that run time, and no more."""
        if self._cache is None:
            return
        for row in rows:
            names = [self._pack_of(row, number) for number in range(self._bounds.pairs)]
            packs = [home / name for name in names if name in self._spent.packs]
            try:
                self._cache.keep(row, packs)
            except AgentEvalError as error:
                self._say(f"The merge base's trials were not kept: {error.message}")
                return

    def _is_settled(self, row: FreshTrials) -> bool:
        pairs = self._bounds.pairs
        if row.case_id in self._question.every_pair and "lost" not in (*row.candidate, *row.base):
            return min(len(row.candidate), len(row.base)) >= pairs
        return is_settled(row, pairs, self._bounds.alpha)

    def _try_once(self, new: NewCaseTrials, base: Side, home: Path) -> None:
        """Run the merge base's agent on new cases; what goes wrong there decides nothing about suspects."""
        if not new.rows:
            return
        if reason := self._out_of_means():
            new.problem = reason
            return
        try:
            self._try(base, new.rows, home / NEW)
        except Doubt as doubt:
            new.problem = doubt.message

    def _out_of_means(self) -> str:
        seconds, cost = self._bounds.seconds, self._bounds.cost_usd
        if seconds is not None and time.monotonic() - self._began >= seconds:
            return "The time of the run was used up before fresh trials could tell."
        if cost is not None and self._spent.cost_usd >= cost:
            return "The money of the run was used up before fresh trials could tell."
        return ""

    def _remaining(self) -> RunLimits:
        seconds, cost = self._bounds.seconds, self._bounds.cost_usd
        used = time.monotonic() - self._began
        return RunLimits(
            seconds=None if seconds is None else max(0.0, seconds - used),
            cost_usd=None if cost is None else max(0.0, cost - self._spent.cost_usd),
        )

    def _try(self, side: Side, rows: Sequence[FreshTrials], out: Path) -> None:
        """Run one fresh trial of each case on one side, and note the results."""
        side.check()
        spec = replace(
            side.spec,
            suite=self._question.suite,
            cases=tuple(row.case_id for row in rows),
            output=Output(pack=out, fresh=True),
            identity=replace(side.spec.identity, run_id=self._run_id(side, out.name)),
            limits=replace(side.spec.limits, run=self._remaining()),
        )
        results: Mapping[str, CaseResultRow] = {}
        why = doubt = ""
        try:
            done = run_agent(
                spec,
                environ=self._environ,
                redactor=self._redactor,
                source=self._question.source,
                options=side.options,
            )
        except AgentEvalError as error:
            self._spent.cost_is_known = False
            why = one_line(error.message, limit=_REASON_LIMIT).rstrip(".")
        else:
            why = done.stopped
            self._spent.trials += done.progress.done
            self._spent.cost_usd += done.progress.cost_usd
            self._spent.cost_is_known &= done.progress.unknown_cost == 0
            pack = open_pack(out)
            doubt = "" if is_judged_alike(self._question.pack, pack) else ALTERED_JUDGES
            if doubt and side.name != "candidate":
                raise Doubt(doubt)
            self._spent.packs[out.name], self._spent.digests[out.name] = out, pack.manifest_sha256
            results = pack.results_by_id()
        side.ended()
        _note(side, rows, results, why)
        # Raised after the results are recorded, so that altering the judges hides no failure.
        if doubt:
            raise Doubt(doubt)

    def _run_id(self, side: Side, name: str) -> str | None:
        run_id = side.spec.identity.run_id
        return None if run_id is None else f"{run_id}-{name}"

    def _write_evidence(self, evidence: Path) -> str | None:
        if not self._spent.packs:
            return None
        for name, path in self._spent.packs.items():
            if open_pack(path).manifest_sha256 != self._spent.digests[name]:
                raise Doubt("The evidence of a fresh trial was altered while the job ran.")
        write_bundle(self._spent.packs, evidence, self._spent.earlier)
        return sha256_bytes(read_bytes(evidence, max_bytes=LARGEST_EVIDENCE))

    def _spending(self) -> Spending:
        return Spending(
            trials=self._spent.trials,
            minutes=(time.monotonic() - self._began) / 60,
            cost_usd=self._spent.cost_usd if self._spent.cost_is_known else None,
        )


def _note(side: Side, rows: Sequence[FreshTrials], results: Mapping[str, CaseResultRow], why: str) -> None:
    """Add the results of one fresh trial of each case to the side's in its record."""
    is_candidate = side.name == "candidate"
    for row in rows:
        case_result = results.get(row.case_id)
        result, reason = fresh_result(case_result, side.name, why)
        (row.candidate if is_candidate else row.base).append(result)
        (row.candidate_failing if is_candidate else row.base_failing).append(failing_judges(case_result))
        (row.candidate_unjudged if is_candidate else row.base_unjudged).append(unjudged_judges(case_result))
        row.why_lost = row.why_lost or reason
