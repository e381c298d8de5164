"""`run`: judge the recorded traces of a suite and seal the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_eval.config.spec import Judging, RunSpec
from agent_eval.contracts import REPLAY_CONTRACT, ExecutionConfig, RunConfig, RunSummary
from agent_eval.contracts.trials import ALL, CasePolicy, case_policy
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.engine.scoring import Progress, score_suite
from agent_eval.engine.shard import JudgePlan
from agent_eval.errors import InvalidInput, UsageError
from agent_eval.judges.base import ask_models
from agent_eval.judges.catalog import DEFAULT_JUDGES, load_judges
from agent_eval.judges.code import code_digests
from agent_eval.operations import clock
from agent_eval.operations.environment import JUDGING_PACKAGES, agent_pins, pinned_environment, redactor_for
from agent_eval.operations.models import ModelAccess, kept_replies, reuse_rulings
from agent_eval.operations.packs import parse_settings
from agent_eval.operations.resume import refuse_to_lose
from agent_eval.storage.files import read_bytes
from agent_eval.storage.json import DEFAULT_LIMITS
from agent_eval.storage.redaction import Redactor
from agent_eval.suites.reader import SuiteSource, open_suite
from agent_eval.suites.select import choose, wanted_ids

if TYPE_CHECKING:
    from agent_eval.agents.base import Agent, AgentOptions
    from agent_eval.engine.cluster import Cluster
    from agent_eval.evidence.reader import Pack


@dataclass(frozen=True)
class RunResult:
    """Result of a run: its configuration, its summary, and the path of its pack."""

    config: RunConfig
    summary: RunSummary
    pack: Path

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.config.run_id


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """What the caller of a run has already, in place of what the run would make itself.

    Attributes:
        redactor: Replaces more than the secrets of the environment.
        source: The suite, opened.
        baseline: Trusted pack whose rulings of LLM judges are used again, where the same is asked.
        options: Those of the agent; None to make them from the specification.
        own: An agent and a model that Python code made, in place of those that the specification names.
    """

    redactor: Redactor | None = None
    source: SuiteSource | None = None
    baseline: Pack | None = None
    options: AgentOptions | None = None
    own: tuple[Agent, ModelAccess] | None = None

    def redactor_for(self, spec: RunSpec, environ: Mapping[str, str]) -> Redactor:
        """Return the redactor, or make that of a specification."""
        secrets = spec.judging.llm.secrets
        return self.redactor or redactor_for(environ, *secrets, rules=spec.redaction)


NO_OVERRIDES = Overrides()


def run_suite(
    spec: RunSpec,
    *,
    environ: Mapping[str, str],
    overrides: Overrides = NO_OVERRIDES,
    on_progress: Progress | None = None,
) -> RunResult:
    """Judge the recorded traces of a suite, and write the sealed pack.

    Use `run_agent.run_agent` to run an agent instead.

    Args:
        spec: Its agent and limits are ignored.
        environ: May pin clock and run id. Values of variables whose names look secret are not written.
    Raises:
        InvalidInput: Suite, judge or judge configuration is invalid; nothing has been written.
        UsageError: Something that is no pack, or that must not be lost, is at `spec.output.pack`.
        NothingMeasured: There is no case to judge.
        NotEvaluable: The cluster cannot be reached, or loses a task.
        StorageError: The pack could not be written; a pack that was there before is unchanged.
    """
    refuse_to_lose(spec.output)
    redactor = overrides.redactor_for(spec, environ)
    source = overrides.source or open_suite(spec.suite)
    chosen = choose(source, wanted_ids(source, spec.cases, spec.tests, spec.tags), spec.shard)
    plan = judge_plan(spec.judging, spec.judging.judges or DEFAULT_JUDGES, environ)
    reuse_rulings(plan, overrides.baseline)
    if spec.judging.dask_scheduler is not None and ask_models(plan.load()):
        raise UsageError(
            "judges that are models are asked from this machine, which has their key, and not from a cluster",
            remedy="Leave out --executor, or the judge.",
            field="executor",
        )
    execution = ExecutionConfig(
        selected_cases=chosen.case_ids, shard=chosen.shard, case_policy=recorded_policy(plan.case_policy)
    )
    config = run_config(spec, chosen.suite, plan, environ, execution_config=execution)
    with cluster_of(spec.judging) as cluster, kept_replies(plan, redactor):
        summary = score_suite(
            chosen.suite,
            plan,
            config,
            spec.output.pack,
            layout=spec.output.layout,
            redactor=redactor,
            on_progress=on_progress,
            cluster=cluster,
        )
    return RunResult(config, summary, spec.output.pack)


def judge_plan(judging: Judging, names: tuple[str, ...], environ: Mapping[str, str]) -> JudgePlan:
    """Read the configuration of the named judges, the case policy, and which model judges ask.

    Raises:
        InvalidInput: The configuration or the case policy is invalid.
    """
    directory = judging.directory
    configs = _checked_configs(judging, names)
    if judging.pass_threshold < 100:
        for name in {"strict", "llm"}.intersection(names):
            configs[name] = {"pass_threshold": judging.pass_threshold, **(configs.get(name) or {})}
    advisory, of_advisory = judging.advisory, None
    if advisory is not None:
        # Judges that count nowhere: a configuration that cannot be read counts as none.
        with suppress(InvalidInput):
            of_advisory = configs_of(advisory)
    return JudgePlan(
        names=names,
        configs=configs,
        case_policy=case_policy(judging.case_policy),
        model=ModelAccess(judging.llm, environ),
        directory=directory,
        advisory=JudgePlan(advisory.judges, of_advisory or {}, directory=advisory.directory)
        if advisory
        else None,
    )


@contextmanager
def cluster_of(judging: Judging) -> Iterator[Cluster | None]:
    """Connect to the cluster that is named; None where none is."""
    if judging.dask_scheduler is None:
        yield None
        return
    from agent_eval.engine.cluster import dask_cluster  # needs an extra

    with dask_cluster(judging.dask_scheduler, JUDGING_PACKAGES) as cluster:
        yield cluster


def recorded_policy(policy: CasePolicy) -> str | None:
    """Return the case policy as a pack records it: None, which is not written, if every trial must pass."""
    return None if policy == ALL else policy.text


def idle_judges(judging: Judging) -> list[str]:
    """List the judges that a run has a configuration for, and that do not run, in the order of the file.

    Default judges are not listed: who names others leaves them out knowingly.

    Raises:
        InvalidInput: The file cannot be read, or a judge or its configuration is invalid.
    """
    names = judging.judges or DEFAULT_JUDGES
    configs = _checked_configs(judging, names)
    if not configs:
        return []
    ids = (judge.judge_id for judge in load_judges(names, configs, directory=judging.directory))
    expected = {*names, *ids, *DEFAULT_JUDGES, REPLAY_CONTRACT, EXECUTION}
    return [name for name in configs if name not in expected]


def configs_of(judging: Judging) -> dict[str, Any]:
    """Read configurations by judge name: those of the file, JSON or YAML, and those that are stated.

    Raises:
        InvalidInput: The file cannot be read, or is not an object.
    """
    path = judging.judge_config
    if path is None:
        return dict(judging.configs)
    settings = parse_settings(read_bytes(path, max_bytes=DEFAULT_LIMITS.max_bytes), str(path))
    return {**settings, **judging.configs}


def _checked_configs(judging: Judging, names: Sequence[str]) -> dict[str, Any]:
    """Read configurations by judge name, and check them with the judges."""
    configs = configs_of(judging)
    if not configs:
        return configs
    try:
        load_judges(names, configs, directory=judging.directory)
    except InvalidInput as error:
        if judging.judge_config and str(error.details.get("field", "")).startswith("judge_configs"):
            error.details.setdefault("file", str(judging.judge_config))
        raise
    return configs


def run_config(
    spec: RunSpec,
    source: SuiteSource,
    plan: JudgePlan,
    environ: Mapping[str, str],
    *,
    execution_config: ExecutionConfig,
) -> RunConfig:
    """Make the configuration of a run that its pack records.

    Raises:
        UsageError: The run id, or a variable that pins the clock, is invalid.
    """
    identity = spec.identity
    return RunConfig(
        run_id=checked_run_id(identity.run_id, environ),
        dataset_id=source.header.dataset_id,
        started_at=clock.timestamp(environ),
        judges=list(plan.names),
        judge_configs={name: plan.configs[name] for name in plan.names if name in plan.configs},
        execution_config=execution_config.model_copy(
            update={"judge_code": code_digests(plan.load()) or None}
        ),
        pinned_env=pinned_environment(),
        suite_digest=source.digest,
        **agent_pins(spec, Path.cwd()),
        dataset_metadata=source.header.metadata,
    )


def checked_run_id(requested: str | None, environ: Mapping[str, str]) -> str:
    """Return the id of a run: the requested one, or else one made from the time."""
    run_id = requested or clock.run_id(environ)
    if not run_id.isprintable():
        raise UsageError(
            f"the run id {run_id!r} contains characters that cannot be printed",
            remedy="Name the run with letters, digits and dashes.",
            field="run_id",
        )
    return run_id
