"""Judges of main that fail on every change: the job tries them first, and then uses the change's.

A judge that is code or a program is tried on what main's own agent did in the sealed baseline; a judging
model is asked for one word. What fails there says nothing of the change, and a change that mends it could
never be judged: so that one judge or model is the change's, which is said first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path

from agent_eval.ci.baseline import Search
from agent_eval.ci.context import JobContext
from agent_eval.ci.seal import as_code
from agent_eval.ci.versions import Versions, files_of_judges
from agent_eval.config.spec import Judging
from agent_eval.contracts import Case, Outcome
from agent_eval.errors import AgentEvalError
from agent_eval.judges.base import Judge
from agent_eval.judges.catalog import judge_case, load_judges, runs_code
from agent_eval.operations.models import ModelAccess
from agent_eval.operations.run import read_settings
from agent_eval.storage.atomic import write_unsynced

MOST_TRIED = 20
"""Cases of the baseline on which a judge is tried."""


def with_usable_judges(job: JobContext, search: Search) -> JobContext:
    """Return the job with the change's own judges and model in place of main's that do not work.

    Of a judge only the files are taken from the change: its configuration stays main's. One that is given
    variables is left as it is, as they may be secrets, and so are the provider of a model and its address.
    The job's rules get a sentence for each judge and model.
    """
    own, judging = job.rules.own_judging, job.settings.judging
    if own is None:
        return job
    for name in judging.judges:
        if runs_code(name) and _is_mended(name, job, search):
            sentence = f"Judge {as_code(name)} of main is broken for everybody; this change's was used."
            job.rules.unusable.append(sentence)
    model = judging.llm.model
    if model is not None and own.llm.model != model and _is_gone(judging, job.environ):
        sentence = f"Model {as_code(model)} does not exist any more; this change's was used."
        job.rules.unusable.append(sentence)
        judging = replace(judging, llm=replace(judging.llm, model=own.llm.model))
    return replace(job, settings=replace(job.settings, judging=judging))


def _is_mended(name: str, job: JobContext, search: Search) -> bool:
    """Whether a judge of the tip errs and the change's does not, whose files then stand in its place."""
    place, clone, directory = job.place, job.clone, job.settings.judging.directory
    if place is None or clone is None or directory is None or job.stated is None:
        return False
    if not _errs(name, job.settings.judging, search):
        return False
    versions = Versions(place, clone)
    originals: dict[Path, bytes] = {}
    for path, judge in files_of_judges(job.stated.judging, versions).items():
        where = versions.where(path)
        changed = clone.file(where, place.head) if where is not None else None
        if changed is not None and judge == name and not path.is_absolute():
            originals[directory / path] = (directory / path).read_bytes()
            write_unsynced(directory / path, changed)
    if originals and not _errs(name, job.settings.judging, search):
        return True
    for replaced, data in originals.items():
        write_unsynced(replaced, data)
    return False


def _errs(name: str, judging: Judging, search: Search) -> bool:
    """Whether a judge cannot be loaded, or errs twice in a row on a case of the baseline."""
    try:
        configs = read_settings(judging.judge_config) if judging.judge_config is not None else {}
        if any(isinstance(config, dict) and config.get("env") for config in configs.values()):
            return False
        [judge] = load_judges([name], configs, directory=judging.directory)
    except AgentEvalError:
        return True
    cases = (
        baseline.pack.trajectory(case_id)
        for baseline in search.baselines.values()
        for case_id in baseline.pack.case_ids()
    )
    return any(_fails(judge, case) and _fails(judge, case) for case in islice(cases, MOST_TRIED))


def _fails(judge: Judge, case: Case) -> bool:
    verdicts = judge_case([judge], case, case.recorded)
    return any(row.judge_id == judge.judge_id and row.outcome is Outcome.ERROR for row in verdicts)


def _is_gone(judging: Judging, environ: Mapping[str, str]) -> bool:
    """Whether the provider says that there is no such model; one that is busy or down says nothing."""
    from agent_eval.models.base import Message, ModelFailure, ModelRequest

    spec = replace(judging.llm, cassette=None, reuse=None)
    request = ModelRequest(
        "judge", "Answer with one word.", (Message("user", ("Are you there?",)),), max_tokens=16
    )
    try:
        ModelAccess(spec, environ)().complete(request)
    except ModelFailure as failure:
        return failure.is_unknown_model
    except AgentEvalError:
        return False
    return False
