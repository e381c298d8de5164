"""Decide on a suite: compare its run, ask the policy, and hold the answer to the job's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval.ci.baseline import MEASURED, Baseline, Lack, Search
from agent_eval.ci.definitions import Target
from agent_eval.ci.rules import JobContext
from agent_eval.ci.workspace import as_code
from agent_eval.comparison.facts import RunView
from agent_eval.contracts import Comparison, GateDecision, GateStatus, RuleResult
from agent_eval.contracts.reruns import Reruns
from agent_eval.contracts.verdict import row_fault
from agent_eval.errors import AgentEvalError, Fault
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.layout import HISTORY_USED, RERUNS, RERUNS_ARCHIVE
from agent_eval.evidence.reader import Pack
from agent_eval.evidence.redacted import without_secrets
from agent_eval.gate.decide import decide_by_policy
from agent_eval.gate.policy_file import unknown_case_warnings
from agent_eval.gate.procedure import HISTORY, Material
from agent_eval.history.records import encode_used, record_of
from agent_eval.operations.compare import compared
from agent_eval.operations.decision_material import counts_of, is_recorded
from agent_eval.operations.packs import view
from agent_eval.operations.unjudged import CHECK_THE_AGENT, RECORD_TRACES, remedy_for, why_ended, why_unjudged
from agent_eval.reports.model import NEW_RULES
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps

COMPARISON = "compare/baseline_delta.json"
DECISION = "compare/gate_decision.json"


@dataclass(frozen=True, kw_only=True)
class SuiteEvaluation:
    """One suite, judged and decided on. `pack` is the directory of its evidence, `evidence` that pack, open.

    Attributes:
        candidate: What the comparison reads of the pack.
        unjudged: Why none of its cases could be judged, and what to do; None where one could.
        reruns: What was run again; None where nothing can be.
        own_outcome: What the change's own rules would have decided; None where they are main's.
    """

    target: Target
    pack: Path
    candidate: RunView
    baseline: Baseline | None
    comparison: Comparison | None
    decision: GateDecision
    unjudged: str | None = None
    evidence: Pack | None = None
    reruns: Reruns | None = None
    own_outcome: GateStatus | None = None


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of a job, for its report, outputs and exit code; suites in the order of the job's settings.

    The archive has the evidence of all suites; None where the job reports on what another run left.
    """

    suites: list[SuiteEvaluation]
    search: Search
    archive: Path | None

    @property
    def problem(self) -> str:
        """Why there is no decision to rely on, and what to do; empty where there is one."""
        problems = [suite.unjudged or " ".join(suite.decision.not_evaluated) for suite in self.suites]
        if (outage := self.search.outage) is not None:
            problems.append(f"The baseline could not be read: {outage.message} {outage.remedy}")
        return " ".join(filter(None, problems))

    def is_decided(self, suite: SuiteEvaluation) -> bool:
        """Whether there is a decision to rely on for one of the suites."""
        return not (suite.unjudged or suite.decision.not_evaluated or self.search.outage)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One suite before its decision: its run, compared with its baseline.

    `candidate` is what the comparison reads of the pack; `history` main's records that were used, as the
    evidence keeps them; `material` what the decision rests on, but for what is run again.
    """

    target: Target
    pack: Pack
    candidate: RunView
    history: bytes
    material: Material


def judge(job: JobContext, target: Target, pack: Pack, search: Search, *, may_rerun: bool) -> Judged:
    """Compare the run of a suite with its baseline, and gather what its decision rests on.

    `may_rerun` is whether the job can run the agent. A baseline that cannot be compared with is an error
    where the user named it, else withheld.
    """
    candidate, baseline, comparison = view(pack), search.baselines.get(target.slug), None
    if baseline is not None:
        try:
            comparison = compared(baseline.pack, pack, generated_at=job.timestamp())
        except AgentEvalError as error:
            # Only here does a baseline that contradicts itself show.
            if baseline.named_by_user:
                raise
            del search.baselines[target.slug]
            search.withhold(
                f"The evidence of run {baseline.origin.run_id} cannot be compared with: {error.message}"
            )
            search.settle([target.slug])
            baseline = None
    if comparison is not None:
        comparison = without_secrets(comparison, job.redactor)
    # The counts of its baseline, and of those of main's runs that were made as this one is.
    key = record_of(pack).run.key
    same = [record for record in search.earlier.get(target.slug, []) if record.run.key == key]
    counts = counts_of(
        pack,
        baseline.pack if baseline is not None else None,
        main=same[:HISTORY],
        newest=search.newest_record.get(target.slug),
    )
    used = encode_used(counts.newest, counts.main)
    digests = {}
    if comparison is not None:
        digests["comparison_sha256"] = sha256_bytes(dumps(comparison.to_json(), indent=True))
    if used:
        digests["history_sha256"] = sha256_bytes(used)
    material = Material(
        run=candidate.reference(),
        comparison=comparison,
        counts=counts,
        waivers=job.rules.waivers,
        seed=pack.config.git_commit or "",
        may_rerun=may_rerun,
        is_recorded=is_recorded(pack),
        digests=digests,
    )
    return Judged(target=target, pack=pack, candidate=candidate, history=used, material=material)


def decide_on(
    job: JobContext, suite: Judged, search: Search, reruns: Reruns | None = None, archive: bytes | None = None
) -> SuiteEvaluation:
    """Decide on a suite, and keep in its evidence what the decision rests on.

    `reruns` says what was run again, None where nothing can be; `archive` has the packs of that.
    """
    target, where = suite.target, job.settings.out / suite.target.slug
    data = dumps(reruns.to_json(), indent=True) if reruns is not None else b""
    digests = dict(suite.material.digests)
    if data:
        digests["reruns_sha256"] = sha256_bytes(data)
    material = replace(suite.material, reruns=reruns, digests=digests)
    decision = decide_by_policy(material, job.rules.policy, generated_at=job.timestamp())
    own, own_outcome = job.rules.own_policy, None
    if own is not None:
        own_outcome = decide_by_policy(material, own, generated_at=job.timestamp()).gate_status
    decision = with_terms_of_the_job(decision, job, search, target.slug)
    comparison = material.comparison
    written = {
        COMPARISON: dumps(comparison.to_json(), indent=True) if comparison is not None else b"",
        RERUNS: data,
        RERUNS_ARCHIVE: archive or b"",
        HISTORY_USED: suite.history,
        DECISION: dumps(decision.to_json(), indent=True),
    }
    for name, content in written.items():
        if content:
            write_output(where / name, content)
    rows = suite.candidate.results.values()
    # Where the agent crashes in every case, the gate may have found that this change is why.
    broke = decision.gate_status is GateStatus.FAILED and any(row.answer == "broke" for row in decision.cases)
    unjudged = None
    if not (broke and all(row_fault(row) is Fault.AGENT for row in rows)):
        unjudged = why_ended(suite.candidate.summary, rows)
        if not unjudged and (why := why_unjudged(str(target.path), suite.candidate.summary, rows)):
            remedy = RECORD_TRACES if job.settings.agent is None else CHECK_THE_AGENT
            unjudged = f"{why} {remedy_for(rows, remedy)}"
    return SuiteEvaluation(
        target=target,
        pack=where,
        candidate=suite.candidate,
        baseline=search.baselines.get(target.slug),
        comparison=comparison,
        decision=decision,
        unjudged=unjudged,
        evidence=suite.pack,
        reruns=reruns,
        own_outcome=own_outcome,
    )


def unknown_cases(job: JobContext, suites: Sequence[SuiteEvaluation]) -> list[str]:
    """Warn of cases that the policy lists and that are in no suite of this run, nor in their baselines."""
    known = {case_id for suite in suites for case_id in suite.candidate.index}
    for suite in suites:
        if suite.baseline is not None:
            known.update(suite.baseline.view.index)
    return unknown_case_warnings(job.rules.policy, known, where="neither this run nor its baseline has it")


NAMED = 3
"""Suites or cases that a sentence names at most."""


def with_terms_of_the_job(decision: GateDecision, job: JobContext, search: Search, slug: str) -> GateDecision:
    """Hold a decision to what the job asks for, and say first what a reader must know of what it rests on."""
    lack = search.lack(slug)
    if slug not in search.baselines and search.outage is not None:
        decision = _open(decision, "The baseline could not be read: whether anything broke is not known.")
    elif lack is Lack.LOST:
        decision = _open(decision, search.nothing(job.place))
    elif lack is not None and (job.settings.require_baseline or job.rules.policy.is_release):
        asks = "`baseline.required`" if job.settings.require_baseline else "preset `release`"
        message = f"There is no baseline to compare with, and {asks} asks for one."
        rule = RuleResult(rule="require_baseline", threshold=1, value=0, passed=False, message=message)
        failed = {"gate_status": GateStatus.FAILED, "passed": False, "blocks": True, "sentence": message}
        more = {"rules": [*decision.rules, rule], "failures": [message, *decision.failures]}
        decision = decision.model_copy(update={**failed, **more})
    baseline = search.baselines.get(slug)
    if baseline is not None and baseline.origin.how == MEASURED:
        decision = _named_first(decision, "The base has no run; it was measured in this job.")
    if search.gone and job.place is not None and not job.place.is_reviewed:
        gone = ", ".join(as_code(dataset_id) for dataset_id in sorted(search.gone)[:NAMED])
        others = f" and {len(search.gone) - NAMED} others" if len(search.gone) > NAMED else ""
        sentence = f"This change has no suite {gone}{others} any more, so it was not run."
        if decision.gate_status in (GateStatus.PASSED, GateStatus.NO_BASELINE):
            blocks = job.rules.policy.is_release
            decision = _open(decision, sentence).model_copy(update={"blocks": blocks})
        else:
            decision = decision.model_copy(update={"notes": [*decision.notes, sentence]})
    if job.rules.pending:
        pending = f"{NEW_RULES}{', '.join(job.rules.pending)}."
        decision = decision.model_copy(update={"notes": [*decision.notes, pending]})
    for sentence in job.rules.named_first:
        decision = _named_first(decision, sentence)
    for sentence in job.rules.unusable:
        named = f"{sentence} {decision.sentence}".strip()
        is_no_ground = job.rules.policy.is_release and decision.gate_status is GateStatus.PASSED
        decision = _open(decision, named) if is_no_ground else _named_first(decision, sentence)
    if job.place is not None and job.place.notice is not None:
        decision = _named_first(decision, job.place.notice)
    return decision


def _open(decision: GateDecision, sentence: str) -> GateDecision:
    """Copy a decision as one that is not settled, unless it failed anyway."""
    if decision.gate_status is GateStatus.FAILED:
        return decision.model_copy(update={"notes": [*decision.notes, sentence]})
    status = {"gate_status": GateStatus.INCONCLUSIVE, "passed": False, "blocks": True}
    return decision.model_copy(update={**status, "sentence": sentence})


def _named_first(decision: GateDecision, sentence: str) -> GateDecision:
    return decision.model_copy(update={"sentence": f"{sentence} {decision.sentence}".strip()})
