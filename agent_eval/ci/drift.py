"""Watch the base branch in scheduled runs: hold it against its release, and write one issue about a loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from agent_eval.attestations.keys import PublicKey
from agent_eval.ci.baseline import packs_below
from agent_eval.ci.context import JobContext
from agent_eval.ci.evaluate import Evaluation, SuiteEvaluation
from agent_eval.ci.issues import (
    IssueMarker,
    Issues,
    KnownIssue,
    WrittenIssue,
    explain,
    find_issue,
    write_issue,
)
from agent_eval.ci.released import NotRun, ReleasedAgent
from agent_eval.ci.signing import admission_by
from agent_eval.errors import AgentEvalError, InvalidInput, NothingMeasured, RemoteError, UsageError
from agent_eval.evidence.reader import Pack, refuse_incomplete
from agent_eval.gate.drift import DriftReport
from agent_eval.gate.drift_cause import KnownLoss
from agent_eval.gate.fitness import why_no_baseline
from agent_eval.contracts.history import RunRecord
from agent_eval.history.record import record_of
from agent_eval.operations.drift import drift_of, loss_with_night
from agent_eval.registry.baselines import ResolvedBaseline
from agent_eval.registry.store import path_from_registry
from agent_eval.reports.drift_issue import (
    DriftWatch,
    SuiteDrift,
    drift_line,
    issue_title,
    render_issue,
    render_section,
)
from agent_eval.storage.files import safe_name

_NO_EVIDENCE = "The release has no evidence of this suite: name a release that was evaluated with it."
_NOT_KEPT = (
    "There is no issue in which the released agent's trials are added up from night to night. So those of "
    "this run alone are shown, and nothing is blamed."
)
_GONE = (
    "This suite had lost quality, and this job does not evaluate it any more, so nothing shows whether that "
    "is mended. Where it was removed on purpose, close this issue by hand."
)


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What a job saw of the base branch, before it is written anywhere.

    Example:
        `Watcher.prepare(job).hold(evaluation).section` is the section of the summary.

    Attributes:
        watch: All suites, held against the release.
        marker: The first line of the issue.
        known: The issue as it was.
        issues: Where it is written; None where it is not.
        warnings: What a user should know, as sentences.
    """

    watch: DriftWatch
    marker: IssueMarker
    known: KnownIssue
    issues: Issues | None
    warnings: tuple[str, ...] = ()

    @property
    def section(self) -> str:
        """The section of the summary."""
        return render_section(self.watch)

    @property
    def line(self) -> str:
        """One line for the log, and for an annotation where there is no issue."""
        return drift_line(self.watch)

    def write(self) -> WrittenIssue:
        """Open, update or close the issue. Does not raise for a failure of the platform."""
        if self.issues is None:
            return WrittenIssue("none")
        return write_issue(
            self.issues,
            self.marker,
            self.known,
            title=issue_title(self.watch),
            body=partial(render_issue, self.watch),
        )


class Watcher:
    """Holds the base branch against its release in one job.

    Example:
        `watcher = Watcher.prepare(job)` before anything runs, and `watcher.hold(evaluation)` after it.

    Args:
        job: The job.
        released: What the release's runs counted, by the slug of the suite.
    """

    def __init__(self, job: JobContext, released: Mapping[str, Sequence[RunRecord]]) -> None:
        self._job, self._released = job, released

    @classmethod
    def prepare(cls, job: JobContext) -> Watcher | None:
        """Read the release; None where the job watches nothing.

        That is every job but those of the base branch that a schedule or a person started, and those with
        `drift-issue: always`.

        Raises:
            InvalidInput, InvalidPack, UsageError: The release cannot be held against.
        """
        settings, run = job.settings, job.platform.run
        if not settings.drift_release or not job.writes_history or run.reported is not None:
            return None
        if run.is_scheduled is False and settings.drift_issue != "always":
            return None
        return cls(job, _release_of(job))

    def hold(self, evaluation: Evaluation) -> Watched:
        """Hold every suite against the release; run the released agent where a loss is shown.

        Does not raise for a failure of the platform or of the released agent.
        """
        job, run = self._job, self._job.platform.run
        issues, known, warnings = self._known()
        with ExitStack() as stack:
            agent = stack.enter_context(ReleasedAgent(job)) if job.settings.release_agent else None
            suites = [
                self._suite(suite, evaluation, known, agent, is_kept=issues is not None)
                for suite in evaluation.suites
            ]
        suites += _gone(known, {suite.slug for suite in suites})
        up = {
            suite.slug: suite.loss or known.loss_of(suite.slug) or KnownLoss()
            for suite in suites
            if suite.is_up
        }
        watch = DriftWatch(
            title=job.settings.report_title,
            release=job.settings.drift_release,
            suites=suites,
            was_up=known.is_up,
            run_url=run.run_url,
            head_sha=run.head_sha,
            runs_released_agent=agent is not None,
        )
        marker = IssueMarker(job.settings.comment_id, run.number, run.attempt, up)
        if watch.state == "up" and issues is None:
            warnings.append(drift_line(watch))
        return Watched(watch=watch, marker=marker, known=known, issues=issues, warnings=tuple(warnings))

    def _known(self) -> tuple[Issues | None, KnownIssue, list[str]]:
        """Find the issue of an earlier run; without one to be had, say why where a person should know."""
        job, run = self._job, self._job.platform.run
        wanted = job.settings.drift_issue
        if wanted == "never":
            return None, KnownIssue(), []
        try:
            issues = job.platform.issues()
        except RemoteError as error:
            return None, KnownIssue(), [f"No drift issue is written: {error.message} {error.remedy}".strip()]
        if issues is None:
            why = "No drift issue is written: this platform has no issues that the job could write."
            return None, KnownIssue(), [why] if wanted == "always" else []
        own = IssueMarker(job.settings.comment_id, run.number, run.attempt)
        try:
            return issues, find_issue(issues, own), []
        except RemoteError as error:
            return None, KnownIssue(), [explain(error, issues.refused)]

    def _suite(
        self,
        suite: SuiteEvaluation,
        evaluation: Evaluation,
        known: KnownIssue,
        agent: ReleasedAgent | None,
        *,
        is_kept: bool,
    ) -> SuiteDrift:
        slug = suite.target.slug
        loss = known.loss_of(slug)
        release = self._released.get(slug)
        if release is None or suite.evidence is None:
            return SuiteDrift(slug=slug, problem=_NO_EVIDENCE, is_up=loss is not None)
        own = record_of(suite.evidence)
        earlier = [row for row in evaluation.history.of(slug) if row.run.run_id != own.run.run_id]
        records = [own, *earlier]
        try:
            report = drift_of(records, release, budget=self._job.settings.quality_budget)
        except (NothingMeasured, UsageError) as error:
            problem = f"Not held against the release: {_sentences(error)}"
            return SuiteDrift(slug=slug, problem=problem, is_up=loss is not None)
        if not report.drift.is_up(was_up=loss is not None):
            return SuiteDrift(slug=slug, report=report)
        drift = SuiteDrift(slug=slug, report=_with_cause(report, loss), is_up=True, loss=loss)
        # A person who closed the issue knows enough of this loss.
        if agent is None or known.is_closed:
            return drift
        try:
            again = agent.run(suite.target, release[0].run.git_commit)
            now = loss_with_night(loss, records, release, again)
        except NotRun as error:
            return replace(drift, note=error.message)
        except (NothingMeasured, UsageError) as error:
            return replace(drift, note=f"The released agent's run does not count: {_sentences(error)}")
        if not is_kept:
            return replace(drift, report=replace(report, again=now.again), note=_NOT_KEPT)
        return replace(drift, report=_with_cause(report, now), loss=now)


def _sentences(error: AgentEvalError) -> str:
    return f"{error.message} {error.remedy}".strip()


def _with_cause(report: DriftReport, loss: KnownLoss | None) -> DriftReport:
    """Say what the released agent has shown so far; nothing where none of its trials was scored."""
    if loss is None or not loss.again.scored:
        return report
    return replace(report, again=loss.again, cause=loss.cause)


def _release_of(job: JobContext) -> dict[str, list[RunRecord]]:
    """Count the release's evidence by slug: at a path, or of a name in the registry. Nothing was run so far.

    Raises:
        InvalidInput: There is none, or a run is not complete.
        InvalidPack: A pack does not verify, is not signed, or is not the one that was registered.
        UsageError: Too many of its cases could not be judged.
    """
    name, rules = job.settings.drift_release, job.rules
    entry = rules.registry.baselines.get(name) if not Path(name).exists() else None
    where = path_from_registry(entry.run_path, rules.registry_path) if entry is not None else Path(name)
    if not where.exists():
        raise InvalidInput(
            f"drift-release: {name[:200]!r} is neither evidence nor a baseline of the registry.",
            remedy="Give the path of a pack, of an archive or of a directory of packs, or a registered name.",
            file=str(where),
            field="drift-release",
        )
    by_slug: dict[str, list[RunRecord]] = {}
    for pack in _packs_at(where, rules.baseline_key):
        ResolvedBaseline(where, entry).check(pack.manifest_sha256)
        refuse_incomplete(pack.name, pack.manifest)
        if why := why_no_baseline(pack.summary, rules.policy.max_baseline_error_rate):
            raise UsageError(
                f"drift-release: {pack.name} is no release to hold against: {why}.",
                remedy="Evaluate the release again.",
                field="drift-release",
            )
        by_slug.setdefault(safe_name(pack.manifest.dataset_id), []).append(record_of(pack))
    if not by_slug:
        raise InvalidInput(
            f"drift-release: {name[:200]!r} has no evidence.",
            remedy="Give the path of a pack, of an archive, or of a directory of these.",
            file=str(where),
            field="drift-release",
        )
    return by_slug


def _packs_at(where: Path, key: PublicKey | None) -> Iterator[Pack]:
    """Yield the packs at a path; a directory may have archives of several runs as well."""
    archives = sorted(where.glob("*.zip")) if where.is_dir() else []
    for place in (where, *archives):
        admission = admission_by(key)
        for pack in packs_below(place, admission).values():
            if admission is not None:
                admission.check(pack)
            yield pack


def _gone(known: KnownIssue, evaluated: set[str]) -> list[SuiteDrift]:
    """List the suites that the issue is about and that this job does not evaluate."""
    up = known.marker.up if known.marker is not None else {}
    return [SuiteDrift(slug=slug, problem=_GONE, is_up=True) for slug in sorted(up) if slug not in evaluated]
