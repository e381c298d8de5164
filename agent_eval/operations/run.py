"""`run`: judge the recorded traces of a suite and seal the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_eval.config.spec import Judging, RunSpec
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
    from agent_eval.engine.remote import Cluster


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
    spec: RunSpec,
    *,
    environ: Mapping[str, str],
    redactor: Redactor | None = None,
    source: SuiteSource | None = None,
    on_progress: Progress | None = None,
) -> RunResult:
    """Judge every case and write the pack, sealed.

    Args:
        spec: What to run; its agent and limits are not looked at.
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
    chosen = choose(source or open_suite(spec.suite), spec.cases, spec.shard)
    plan = judge_plan(spec.judging, spec.judging.judges or DEFAULT_JUDGES)
    execution = ExecutionConfig(
        selected_cases=chosen.case_ids, shard=chosen.shard, case_policy=stated_policy(plan.case_policy)
    )
    config = run_config(spec, chosen.suite, plan, environ, execution_config=execution)
    with _cluster(spec.judging) as cluster:
        summary = score_suite(
            chosen.suite,
            plan,
            config,
            spec.output.pack,
            layout=spec.output.layout,
            workers=spec.judging.workers,
            redactor=redactor or redactor_for(environ),
            on_progress=on_progress,
            cluster=cluster,
        )
    if spec.output.summary_json is not None:
        write_output(spec.output.summary_json, dumps(summary.to_json(), indent=True))
    return RunResult(config, summary, spec.output.pack)


def judge_plan(judging: Judging, names: tuple[str, ...]) -> JudgePlan:
    """Read the configuration of the judges with these names, and when a case passes.

    Raises:
        InvalidInput: The configuration or the case policy is wrong.
    """
    configs = read_judge_configs(judging.judge_config, names) if judging.judge_config else {}
    return JudgePlan(names=names, configs=configs, case_policy=case_policy(judging.case_policy))


@contextmanager
def _cluster(judging: Judging) -> Iterator[Cluster | None]:
    if judging.dask_scheduler is None:
        yield None
        return
    from agent_eval.engine.remote import dask_cluster  # an extra

    with dask_cluster(judging.dask_scheduler, JUDGING_PACKAGES) as cluster:
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
    spec: RunSpec,
    source: SuiteSource,
    plan: JudgePlan,
    environ: Mapping[str, str],
    *,
    execution_config: ExecutionConfig,
) -> RunConfig:
    """What a pack says of a run.

    Raises:
        UsageError: A variable that pins the clock, or the run id, cannot be used.
    """
    identity = spec.identity
    return RunConfig(
        run_id=checked_run_id(identity.run_id, environ),
        dataset_id=source.header.dataset_id,
        agent_version=identity.agent_version,
        model=identity.model,
        started_at=clock.timestamp(environ),
        seed=identity.seed,
        judges=list(plan.names),
        judge_configs={name: plan.configs[name] for name in plan.names if name in plan.configs},
        execution_config=execution_config,
        pinned_env=pinned_environment(),
        suite_digest=source.digest,
        prompt_hash=identity.prompt_hash,
        policy_hash=identity.policy_hash,
        container_image=identity.container_image,
        git_commit=identity.git_commit or git_commit(Path.cwd()),
        dependency_lock_hash=identity.dependency_lock_hash,
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
