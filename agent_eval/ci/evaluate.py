"""The boxes of a job in a row: run or score every suite, compare, ask, run again, decide, seal.

A job that reports on another run runs nothing of it. That run was one of a change whose author need not be
trusted: code, workflow and evidence are theirs. So its evidence is data here: verified, compared by this job
with the baseline that it finds itself, decided on by the base branch's rules, and rendered. No judge is
loaded but those built in, and the evidence is not kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agent_eval.attestations.keys import parse_signing_key
from agent_eval.attestations.statement import gate_predicate
from agent_eval.ci.agents import Agents, check_agent
from agent_eval.ci.baseline import (
    MAX_ANCESTORS,
    Ground,
    Lack,
    Search,
    admission_by,
    find_baselines,
    find_named,
    from_path,
)
from agent_eval.ci.clone import CommitUnknown
from agent_eval.ci.config import NAMED_RUN
from agent_eval.ci.decide import Evaluation, decide_on, judge, unknown_cases
from agent_eval.ci.definitions import Target, define, find_targets
from agent_eval.ci.earlier import Asked, EarlierRun, Skipped
from agent_eval.ci.place import Versions
from agent_eval.ci.rules import JobContext, with_usable_judges
from agent_eval.ci.trials import make_packs, measure_base, run_again, runs_live, take_packs
from agent_eval.ci.workspace import is_of_the_job
from agent_eval.config.project_file import CONFIG_FILE
from agent_eval.contracts import GateDecision, GateStatus
from agent_eval.contracts.history import RunRecord
from agent_eval.errors import AgentEvalError, InvalidInput, InvalidPack, RemoteError, UsageError
from agent_eval.evidence.archive import by_dataset, open_bundle, write_bundle
from agent_eval.evidence.reader import Pack
from agent_eval.history.records import MAX_BYTES, encode, newest_first, read_history, record_of, write_history
from agent_eval.judges.catalog import DEFAULT_JUDGES
from agent_eval.judges.hosted import end_hosted_judges
from agent_eval.operations.decision_material import read_reruns
from agent_eval.operations.gate import refuse_unknown_judges
from agent_eval.operations.packs import ARCHIVE_NAME
from agent_eval.operations.run import judge_plan
from agent_eval.operations.trust import Signer, attest_opened
from agent_eval.registry.baselines import ResolvedBaseline
from agent_eval.registry.store import path_from_registry
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.aui import JUDGES as OF_CONVERSATIONS
from agent_eval.suites.paths import MAX_SUITES, any_of_conversations, overlooked


def evaluate(job: JobContext) -> Evaluation:
    """Judge all suites and decide on them. The evidence holds no secret that the job's redactor knows.

    Errors keep their exit code: 2 where a suite, judge, agent or named baseline is wrong; 4 where the agent
    cannot be run, or the evidence cannot be written, or was altered meanwhile.
    """
    versions = Versions(job.place)
    defined = define(find_targets(job.settings.suite), job.settings.suite, versions)
    targets = defined.targets
    check_agent(job)
    # A key is parsed before anything is run; a signer without one signs nothing.
    key = job.settings.signing_key
    signer = Signer() if key is None else Signer(parse_signing_key(f"{key}\n".encode(), source="signing-key"))
    # What a change is held against is read before any code of it runs, which could alter it. And a baseline
    # that cannot be used is an error: better before an agent has run for an hour than after.
    search = search_baselines(job, [target.slug for target in targets])
    search.warnings += [*overlooked(job.settings.suite), *defined.notes]
    job = with_usable_judges(job, search)
    read_history_of_main(job, search)
    agents = Agents.prepare(job, _base_commit(job, search))
    search.warnings += agents.edited()
    made_earlier = job.settings.evidence
    ready = take_packs(job, targets, made_earlier) if made_earlier is not None else None
    if job.place is not None:
        job.place.clone.seal()
    # Judges that are code are loaded before any code of the change runs, which could alter what they import.
    judging = job.settings.judging
    names = (*DEFAULT_JUDGES, *(OF_CONVERSATIONS if any_of_conversations(job.settings.suite) else ()))
    judges = judge_plan(judging, judging.judges or names, job.environ).load()
    seen = [baseline.view.summary.judge_counts for baseline in search.baselines.values()]
    # One that does not exist is refused before an agent has run for an hour.
    known = {judge.judge_id for judge in judges}.union(*seen)
    refuse_unknown_judges(job.rules.policy, job.rules.waivers, known)
    if job.settings.agent is not None:
        agents.set_up()
    packs = ready if ready is not None else make_packs(job, targets, agents, search)
    if job.place is not None and not job.place.is_reviewed:
        for target in targets:
            lack = search.lack(target.slug)
            # Where neither the tip has settings nor any reviewed run left evidence, this is a first adoption.
            if lack is Lack.LOST or (lack is Lack.FIRST and versions.tips(Path(CONFIG_FILE)) is not None):
                measure_base(job, agents, target, search)
    judged = [
        judge(job, target, packs[target.slug], search, may_rerun=runs_live(job, target)) for target in targets
    ]
    reruns = run_again(job, agents, judged, search, defined.redefinitions)
    end_hosted_judges()
    suites = [decide_on(job, suite, search, *reruns.get(suite.target.slug, (None, None))) for suite in judged]
    for suite in suites:
        sign(job, signer, packs[suite.target.slug], suite.pack, suite.decision)
    search.warnings += unknown_cases(job, suites)
    search.warnings += add_to_history(job, packs, search)
    archive = job.settings.out / ARCHIVE_NAME
    write_bundle({suite.target.slug: packs[suite.target.slug] for suite in suites}, archive)
    return Evaluation(suites=suites, search=search, archive=archive)


def _base_commit(job: JobContext, search: Search) -> str | None:
    """The commit that this one is held against: of a change its base, of a reviewed one its baseline's."""
    if (place := job.place) is None:
        return None
    if not place.is_reviewed:
        return place.base
    commit = next((row.origin.sha for row in search.baselines.values() if row.origin.sha), None)
    if commit is not None:
        with suppress(CommitUnknown):
            place.clone.fetch(commit)
            return commit
    return None


def search_baselines(job: JobContext, slugs: list[str]) -> Search:
    """Find the baselines of suites by their slugs, as the settings say.

    Raises as `from_path`, and `InvalidPack` where a registered pack is another one now.
    """
    settings, rules = job.settings, job.rules
    admission = admission_by(rules.baseline_key)
    if settings.baseline == "none":
        return Search(notes=["`baseline: none` asks for no comparison."])
    named_run = settings.baseline.startswith(NAMED_RUN)
    if settings.baseline != "auto" and not named_run:
        where, entry = Path(settings.baseline), rules.registry.baselines.get(settings.baseline)
        if entry is None or where.exists():
            return from_path(where, slugs, admission)
        where = path_from_registry(entry.run_path, rules.registry_path)
        registered = from_path(where, slugs, admission)
        for baseline in registered.baselines.values():
            ResolvedBaseline(where, entry).check(baseline.pack.manifest_sha256)
        return registered
    ground = Ground(
        place=job.place,
        wanted=slugs,
        remedy=job.platform.spec.remedies.read_runs,
        key=rules.baseline_key,
    )
    if named_run:
        branches, commit = (job.place.branches, job.place.base) if job.place is not None else ((), None)
        number = int(settings.baseline.removeprefix(NAMED_RUN))
        return find_named(job.platform.run_named(number, Asked(branches=branches, commit=commit)), ground)
    return find_baselines(job.platform.earlier_runs, ground)


def evaluate_reported(job: JobContext, run: EarlierRun) -> Evaluation:
    """Compare and decide on the evidence of a run.

    Raises `UsageError` where the settings ask to sign, or to judge again, what only the job that evaluates
    has seen being made.
    """
    settings = job.settings
    wanted = {"signing-key": settings.signing_key, "attest": settings.attest, "evidence": settings.evidence}
    for name in (name for name, value in wanted.items() if value not in (None, False)):
        raise UsageError(
            f"`{name}` and `report-run-id` exclude each other: a job that reports on another run neither "
            "vouches for its evidence nor runs a judge of it.",
            remedy=f"Leave out `{name}` here.",
            field=name,
        )
    try:
        archive = run.fetch()
    except Skipped as why:
        if isinstance(why.__cause__, RemoteError):
            raise RemoteError(str(why), remedy=why.__cause__.remedy) from why
        remedy = "Read the log of that run; its job must upload the evidence also where its gate fails."
        raise InvalidInput(f"There is nothing to report on. {why}", remedy=remedy) from why
    bundle = open_bundle(archive, source=f"the evidence of {run.label}")
    packs = by_dataset(bundle.values(), f"The evidence of {run.label}")
    for slug, pack in packs.items():
        if is_of_the_job(slug):
            raise InvalidInput(f"The evidence of {run.label} has a pack of a reserved name, `{slug}`.")
        if pack.config.git_commit is not None and pack.config.git_commit not in run.commits:
            raise InvalidPack(
                f"The evidence of {run.label} is of another commit than that run.",
                remedy="Run the job of the change again.",
            )
    if len(packs) > MAX_SUITES:
        raise InvalidInput(f"The evidence of {run.label} has more than {MAX_SUITES} packs.")
    packs = dict(sorted(packs.items()))
    search = search_baselines(job, list(packs))
    # What a reader may conclude: the author of a change can write its evidence, too.
    search.warnings.append(
        f"The evidence is that of {run.label}, which ran this change's own code and workflow. It was "
        "verified and compared here by the rules of the base branch, and nothing of it was run; whether the "
        "agent really answered so is the word of the change's author."
    )
    read_history_of_main(job, search)
    suites = []
    for slug, pack in packs.items():
        # As for the rest of the evidence, its author's word; but it must follow from the trials beside it.
        again = read_reruns(pack)
        judged = judge(job, Target(Path(slug), slug), pack, search, may_rerun=again is not None)
        suites.append(decide_on(job, judged, search, again))
    search.warnings += unknown_cases(job, suites)
    return Evaluation(suites=suites, search=search, archive=None)


def read_history_of_main(job: JobContext, search: Search) -> None:
    """Read the records of reviewed runs into a search, from the evidence that it read for baselines.

    Where evidence must be signed, what it carries of earlier runs does not count, which is not: only the runs
    that were read themselves do. A record that is not what was written is an error, never an empty history.
    """
    before = None
    if job.place is not None:
        before = frozenset(job.place.clone.ancestors(job.place.base, most=MAX_ANCESTORS))
    for slug, newest in search.newest.items():
        packs = [newest]
        if slug in search.baselines and not search.baselines[slug].named_by_user:
            packs.append(search.baselines[slug].pack)
        records: list[RunRecord] = []
        for pack in packs:
            carried = read_history(pack) if job.rules.baseline_key is None else []
            records += carried or [record_of(pack)]
        search.newest_record[slug] = _without_secrets(record_of(newest), job.redactor)
        search.earlier[slug] = newest_first(
            _without_secrets(record, job.redactor)
            for record in records
            # An outage of all of main's run would excuse each case.
            if any(case.passed or case.failing for case in record.cases.values())
            and (before is None or record.run.git_commit in before)
        )


def _without_secrets(record: RunRecord, redactor: Redactor) -> RunRecord:
    """Copy a record without what is known to be secret now: its run may not have known it.

    A case whose id or kinds of failure hold a secret is left out: no run that knows the secret has that id.
    """
    if not redactor.finds(encode(record)):
        return record
    cases = {
        case_id: case
        for case_id, case in record.cases.items()
        if all(
            redactor.redact_text(text) == text for text in (case_id, *case.lost, *case.missed, *case.failing)
        )
    }
    texts = {name: getattr(record.run, name) for name in ("run_id", "model", "git_commit", "run_url")}
    redacted = {name: redactor.redact_text(text) for name, text in texts.items() if text is not None}
    return RunRecord(record.run.model_copy(update={**redacted, "cases": len(cases)}), cases)


def add_to_history(job: JobContext, packs: Mapping[str, Pack], search: Search) -> list[str]:
    """Write the history into the evidence of a reviewed run; return what went wrong, as sentences."""
    if not job.writes_history:
        return []
    warnings = []
    for slug, pack in packs.items():
        record = record_of(pack)
        record = replace(record, run=record.run.model_copy(update={"run_url": job.platform.run.run_url}))
        if len(encode(record)) > MAX_BYTES:
            warnings.append(f"`{slug}` has too many cases for a history: no record of this run was kept.")
            continue
        try:
            write_history(job.settings.out / slug, record, search.earlier.get(slug, []))
        except AgentEvalError as error:
            warnings.append(f"This run was not added to the history: {error.message} {error.remedy}".strip())
    return warnings


def sign(job: JobContext, signer: Signer, pack: Pack, place: Path, decision: GateDecision) -> None:
    """Attest the run of a pack and, if it passed, the gate, from what the job has in memory.

    Without a key only predicates are written, and only with `attest`. Raises `InvalidInput` where a statement
    would hold a secret.
    """
    if signer.key is None and not job.settings.attest:
        return
    passed = decision.gate_status is GateStatus.PASSED and decision.passed and not decision.blocks
    decision_sha256 = sha256_bytes(dumps(decision.to_json(), indent=True))
    attest_opened(
        pack,
        place,
        signer,
        gate=gate_predicate(pack.config, decision, decision_sha256) if passed else None,
        url=job.platform.run.run_url,
        environ=job.environ,
    )
