"""The run specification: everything that a run was asked for, as typed values.

The command line, the CI job, the replay of a pack and Python code all build it; `operations` reads nothing
else. Its fields are where the rows of the table of options go to (`Option.goes_to`), which explain them.

Example:
    >>> spec = RunSpec(
    ...     suite=Path("orders.json"),
    ...     output=Output(pack=Path("runs/orders")),
    ...     agent=AgentSpec(command="python agent.py", max_repairs=2),
    ...     limits=Limits(attempt=AttemptLimits(seconds=10)),
    ... )
    >>> spec.agent.called(spec.identity.model)
    'command:python agent.py'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent_eval.config.options import REGISTRY
from agent_eval.contracts.execution import AttemptLimits, RunLimits, TrialLimits
from agent_eval.errors import UsageError
from agent_eval.models.catalog import DEFAULT_PROVIDER
from agent_eval.storage.redaction_rules import NO_RULES, RedactionRules

Layout = Literal["auto", "files", "compact"]
LOCAL, DASK = "local", "dask"
CassetteMode = Literal["record", "replay", "update"]

UNKNOWN = "unknown"
"""Version or model that was not stated."""


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """Which agent is run, and how. One of `command`, `url`, `base_url` and `name` says which.

    Attributes:
        name: An agent in one of the forms of `agents.catalog`.
        base_url: Endpoint of a hosted model; names the agent where nothing else does.
        headers: Name of each header, and the environment variable that has its value.
        cassette: File of recorded answers of tools; `cassette_mode` is what is done with it.
        key_variables: Names of variables that a suite of conversations may take its key from; the default
            one when empty.
        max_repairs: Attempts after the first one.
    """

    command: str | None = None
    url: str | None = None
    name: str | None = None
    base_url: str | None = None
    repair_command: str | None = None
    system_prompt: Path | None = None
    environment: tuple[str, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    gateway: bool = False
    key_variables: tuple[str, ...] = ()
    trials: int = 1
    max_repairs: int = 0
    parallel: int | Literal["auto"] = 1
    strict_side_effects: bool = False
    share_expected_output: bool = False
    tools: str | None = None
    cassette: Path | None = None
    cassette_mode: CassetteMode = "replay"
    resume: bool = False
    case_commands: bool = False
    case_command_seconds: float = 60.0
    user_prompt: Path | None = None
    keep_alive: bool = False

    @property
    def names_one(self) -> bool:
        """Whether `command`, `url` or `name` says which agent it is."""
        return any((self.command, self.url, self.name))

    @property
    def is_named(self) -> bool:
        """Whether anything says which agent it is, be it the endpoint alone."""
        return self.names_one or bool(self.base_url)

    def called(self, model: str) -> str:
        """Name the agent as `agents.catalog.open_agent` takes it; a `base_url` alone is asked for `model`.

        Raises:
            UsageError: Nothing names an agent.
        """
        if self.command:
            return f"command:{self.command}"
        if self.url or self.name:
            return self.url or self.name or ""
        if self.base_url:
            return f"openai:{'' if model == UNKNOWN else model}"
        raise UsageError("no agent is named", remedy="Name it with `agent`.")


@dataclass(frozen=True, kw_only=True)
class LlmSpec:
    """The model that judges criteria in words and plays the users of conversations.

    Attributes:
        provider: One of `models.catalog.MODELS`.
        key: None for that of the environment.
        model: None for the suite's or the provider's default.
        cassette_mode: See `agents.cassette.ReplyMode`.
        agreement: File with what people found the judge to be right about; see `judge-agreement`.
        prices: The user's own prices, of the agent's model too, as `models.usage.read_prices` reads them.
    """

    provider: str = DEFAULT_PROVIDER
    key: str | None = field(default=None, repr=False)
    model: str | None = None
    base_url: str | None = None
    script: Path | None = None
    votes: int = 1
    cassette: Path | None = None
    cassette_mode: Literal["auto", "record", "replay"] = "auto"
    agreement: Path | None = None
    prices: tuple[str, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key, where there is one: what nothing that is written may hold."""
        return () if self.key is None else (self.key,)


@dataclass(frozen=True, kw_only=True)
class Judging:
    """How cases are judged.

    Attributes:
        case_policy: When a case with several trials passes: `all`, or what the pack says that is run again.
        configs: Configuration by judge name, which comes before that of the file.
        directory: Where the code of judges is, and where their commands run; None for the working directory.
        advisory: Judges whose verdicts are shown and count nowhere, with their configuration and directory.
    """

    judges: tuple[str, ...] = ()
    judge_config: Path | None = None
    configs: Mapping[str, Any] = field(default_factory=dict)
    case_policy: str = "all"
    pass_threshold: float = 100.0
    executor: str = LOCAL
    llm: LlmSpec = field(default_factory=LlmSpec)
    directory: Path | None = None
    advisory: Judging | None = None

    @property
    def dask_scheduler(self) -> str | None:
        """The address of the cluster that `executor` names as `dask:ADDRESS`; None on this machine."""
        kind, _, address = self.executor.partition(":")
        return address if kind == DASK else None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What each attempt, all attempts at a case, and the whole run may use."""

    attempt: AttemptLimits = field(default_factory=AttemptLimits)
    trial: TrialLimits = field(default_factory=TrialLimits)
    run: RunLimits = field(default_factory=RunLimits)


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a pack says of the agent that was tested, and of its inputs. Digests are those of the caller."""

    run_id: str | None = None
    agent_version: str = UNKNOWN
    model: str = UNKNOWN
    seed: int = 0
    prompt_hash: str | None = None
    policy_hash: str | None = None
    container_image: str | None = None
    git_commit: str | None = None
    dependency_lock_hash: str | None = None


@dataclass(frozen=True, kw_only=True)
class Output:
    """Where the evidence is written, and how.

    `fresh` starts over, and may replace the evidence of an earlier run of an agent; baselines of the
    `registry` are not replaced otherwise.
    """

    pack: Path
    layout: Layout = "auto"
    fresh: bool = False
    registry: Path = Path(REGISTRY)
    debug: bool = False


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """What to run, how, and what to record of it.

    Attributes:
        cases: Ids of the only cases that are run; all when empty. So are `tests`, which are texts of ids.
        shard: One of several parts of the suite, such as `3/8`; all of it when None.
        agent: None where recorded traces are judged.
        redaction: What is redacted beside secrets.
    """

    suite: Path
    output: Output
    cases: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    shard: str | None = None
    agent: AgentSpec | None = None
    judging: Judging = field(default_factory=Judging)
    limits: Limits = field(default_factory=Limits)
    identity: Identity = field(default_factory=Identity)
    redaction: RedactionRules = NO_RULES
