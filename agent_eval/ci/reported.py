"""Report on the sealed evidence that another run left, without running anything of it.

The run was one of a change whose author need not be trusted: code, workflow and evidence are theirs. So the
evidence is data here: verified, compared by this job with the baseline that it finds itself, decided on by
the base branch's rules, and rendered. No judge is loaded but those built in, and the evidence is not kept.
"""

from __future__ import annotations

from pathlib import Path

from agent_eval.ci.context import JobContext
from agent_eval.ci.definitions import Target
from agent_eval.ci.earlier import EarlierRun, Skipped
from agent_eval.ci.evaluate import Evaluation, decide_on, judge, search_baselines, unknown_cases
from agent_eval.ci.history import read_history_of_main
from agent_eval.ci.terms import lost_datasets
from agent_eval.ci.workspace import is_of_the_job
from agent_eval.errors import InvalidInput, InvalidPack, RemoteError, UsageError
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.reader import Pack
from agent_eval.operations.decision_material import read_reruns
from agent_eval.storage.files import safe_name
from agent_eval.suites.paths import MAX_SUITES


def evaluate_reported(job: JobContext, run: EarlierRun) -> Evaluation:
    """Compare and decide on the evidence of a run.

    Raises `UsageError` where the settings ask for something that only the job that evaluates can do.
    """
    _refuse_what_runs(job)
    packs = _packs_of(run)
    search = search_baselines(job, list(packs))
    # What a reader may conclude: the author of a change can write its evidence, too.
    search.warnings.append(
        f"The evidence is that of {run.label}, which ran this change's own code and workflow. It was "
        "verified and compared here by the rules of the base branch, and nothing of it was run; whether the "
        "agent really answered so is the word of the change's author."
    )
    search.warnings += lost_datasets(search)
    read_history_of_main(job, search)
    suites = []
    for slug, pack in packs.items():
        # As for the rest of the evidence, its author's word; but it must follow from the trials beside it.
        again = read_reruns(pack)
        judged = judge(job, Target(Path(slug), slug), pack, search, may_rerun=again is not None)
        suites.append(decide_on(job, judged, search, again.record if again is not None else None))
    search.warnings += unknown_cases(job, suites)
    return Evaluation(suites=suites, search=search, archive=None, rules=job.rules)


def _refuse_what_runs(job: JobContext) -> None:
    """Refuse to sign, or to judge again, what this job has not seen being made."""
    settings = job.settings
    wanted = {
        "signing-key": settings.signing_key is not None,
        "attest": settings.attest,
        "replay-evidence": settings.replay_evidence,
        "evidence": settings.evidence is not None,
    }
    for name, is_wanted in wanted.items():
        if is_wanted:
            raise UsageError(
                f"`{name}` and `report-run-id` exclude each other: a job that reports on another run neither "
                "vouches for its evidence nor runs a judge of it.",
                remedy=f"Leave out `{name}` here.",
                field=name,
            )


def _packs_of(run: EarlierRun) -> dict[str, Pack]:
    """Read and check the evidence of a run; its packs by the slug of their dataset."""
    packs: dict[str, Pack] = {}
    try:
        archive = run.fetch()
    except Skipped as why:
        if isinstance(why.__cause__, RemoteError):
            raise RemoteError(str(why), remedy=why.__cause__.remedy) from why
        remedy = "Read the log of that run; its job must upload the evidence also where its gate fails."
        raise InvalidInput(f"There is nothing to report on. {why}", remedy=remedy) from why
    for pack in open_bundle(archive, source=f"the evidence of {run.label}").values():
        slug = safe_name(pack.manifest.dataset_id)
        if slug in packs or is_of_the_job(slug):
            raise InvalidInput(
                f"The evidence of {run.label} has two packs of one dataset, or of a reserved name."
            )
        if pack.config.git_commit is not None and pack.config.git_commit not in run.commits:
            raise InvalidPack(
                f"The evidence of {run.label} is of another commit than that run.",
                remedy="Run the job of the change again.",
            )
        packs[slug] = pack
        if len(packs) > MAX_SUITES:
            raise InvalidInput(f"The evidence of {run.label} has more than {MAX_SUITES} packs.")
    return dict(sorted(packs.items()))
