"""`run`: judge the recorded traces of a suite and seal the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent_eval.contracts import ExecutionConfig, RunConfig, RunSummary
from agent_eval.contracts.trials import ALL, CasePolicy, case_policy
from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.scoring import Progress, score_suite
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.judges.catalog import DEFAULT_JUDGES, load_judges
from agent_eval.operations import clock
from agent_eval.operations.environment import JUDGING_PACKAGES, git_commit, pinned_environment, redactor_for
from agent_eval.storage.json import dumps, read_json
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource, open_suite
from agent_eval.suites.select import choose

if TYPE_CHECKING:
    from agent_eval.engine.remote import Elsewhere

Layout = Literal["auto", "files", "compact"]


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """What to run, and what to record of it. `judges` empty means the default ones; `cases` empty, all.

    `shard` is one of several parts of the suite, such as `3/8`. `case_policy` says when a case with several
    trials passes; see `contracts.trials.case_policy`. `dask_scheduler` is the address of a cluster that
    judges recorded traces; None for this machine.
    """

    suite: Path
    out: Path
    run_id: str | None = None
    agent_version: str = "unknown"
    model: str = "unknown"
    seed: int = 0
    prompt_hash: str | None = None
    policy_hash: str | None = None
    container_image: str | None = None
    git_commit: str | None = None
    dependency_lock_hash: str | None = None
    judges: tuple[str, ...] = ()
    judge_config: Path | None = None
    case_policy: str = "all"
    cases: tuple[str, ...] = ()
    shard: str | None = None
    summary_json: Path | None = None
    layout: Layout = "auto"
    workers: int | None = None
    dask_scheduler: str | None = None


@dataclass(frozen=True)
class RunResult:
    """A run that was evaluated: its configuration, its summary, and where its pack is."""

    config: RunConfig
    summary: RunSummary
    pack: Path

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.config.run_id


def run_suite(
    request: RunRequest,
    *,
    environ: Mapping[str, str],
    redactor: Redactor | None = None,
    source: SuiteSource | None = None,
    on_progress: Progress | None = None,
) -> RunResult:
    """Judge every case and write the pack, sealed.

    Args:
        request: What to run.
        environ: The environment variables; they may pin clock and run id. Values of those that look secret
            are not written.
        redactor: Knows the secrets instead.
        source: The suite, where it is open already.
        on_progress: Called after every few hundred cases.

    Raises:
        InvalidInput: Suite, judge or judge configuration is wrong; nothing has been written.
        UsageError: `out` is a directory that is not a pack of ours.
        NothingMeasured: There is no case to judge.
        NotEvaluable: The cluster cannot be reached, or does not do the work.
        StorageError: The pack could not be written; what was at `out` is still there.
    """
    chosen = choose(source or open_suite(request.suite), request.cases, request.shard)
    names = request.judges or DEFAULT_JUDGES
    configs = read_judge_configs(request.judge_config, names) if request.judge_config else {}
    policy = case_policy(request.case_policy)
    execution = ExecutionConfig(
        selected_cases=chosen.case_ids, shard=chosen.shard, case_policy=stated_policy(policy)
    )
    config = run_config(request, chosen.suite, names, configs, environ, execution_config=execution)
    plan = JudgePlan(names=names, configs=configs, case_policy=policy)
    with _elsewhere(request) as elsewhere:
        summary = score_suite(
            chosen.suite,
            plan,
            config,
            request.out,
            layout=request.layout,
            workers=request.workers,
            redactor=redactor or redactor_for(environ),
            on_progress=on_progress,
            elsewhere=elsewhere,
        )
    if request.summary_json is not None:
        write_output(request.summary_json, dumps(summary.to_json(), indent=True))
    return RunResult(config, summary, request.out)


@contextmanager
def _elsewhere(request: RunRequest) -> Iterator[Elsewhere | None]:
    if request.dask_scheduler is None:
        yield None
        return
    from agent_eval.engine.remote import dask_cluster  # an extra

    with dask_cluster(request.dask_scheduler, JUDGING_PACKAGES) as cluster:
        yield cluster


def stated_policy(policy: CasePolicy) -> str | None:
    """The case policy as a pack records it: None, which is not written, where every trial must pass."""
    return None if policy == ALL else policy.text


def read_judge_configs(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Judge name to configuration, from a JSON or YAML file, tried on the judges that will be used.

    Raises:
        InvalidInput: It cannot be read, or a judge or its configuration is wrong; names the file.
    """
    configs = read_settings(path)
    try:
        load_judges(names, configs)
    except InvalidInput as error:
        if str(error.details.get("field", "")).startswith("judge_configs"):
            error.details.setdefault("file", str(path))
        raise
    return configs


def read_settings(path: Path) -> dict[str, Any]:
    """An object from a JSON file, or a YAML file when its name ends in .yaml or .yml.

    Raises:
        InvalidInput: It cannot be read, or it is not an object.
    """
    if path.suffix.lower() in (".yaml", ".yml"):
        from agent_eval.storage.yaml import read_yaml

        settings = read_yaml(path)
    else:
        settings = read_json(path)
    if not isinstance(settings, dict):
        raise InvalidInput(
            f"{path} must hold an object, not {type(settings).__name__}",
            remedy='Write it as {"name": value}.',
            file=str(path),
        )
    return settings


def run_config(
    request: RunRequest,
    source: SuiteSource,
    names: tuple[str, ...],
    configs: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    execution_config: ExecutionConfig,
) -> RunConfig:
    """What a pack says of a run.

    Raises:
        UsageError: A variable that pins the clock, or the run id, cannot be used.
    """
    return RunConfig(
        run_id=checked_run_id(request.run_id, environ),
        dataset_id=source.header.dataset_id,
        agent_version=request.agent_version,
        model=request.model,
        started_at=clock.timestamp(environ),
        seed=request.seed,
        judges=list(names),
        judge_configs={name: configs[name] for name in names if name in configs},
        execution_config=execution_config,
        pinned_env=pinned_environment(),
        suite_digest=source.digest,
        prompt_hash=request.prompt_hash,
        policy_hash=request.policy_hash,
        container_image=request.container_image,
        git_commit=request.git_commit or git_commit(Path.cwd()),
        dependency_lock_hash=request.dependency_lock_hash,
        dataset_metadata=source.header.metadata,
    )


def checked_run_id(stated: str | None, environ: Mapping[str, str]) -> str:
    """The name of a run: as stated, else made from the time.

    Raises:
        UsageError: It cannot be printed.
    """
    named = stated or clock.run_id(environ)
    if not named.isprintable():
        raise UsageError(
            f"the run id {named!r} contains characters that cannot be printed",
            remedy="Name the run with letters, digits and dashes.",
            field="run_id",
        )
    return named
