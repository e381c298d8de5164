"""By whose rules a job judges: what judges and decides comes from the tip of the trusted branch.

A reviewed commit is judged by its own files. Of a change, `agent-eval.yml` says how its agent is built and
run; all else is the tip's, or the workflow's where the tip states nothing, and holds once it is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import TypeVar

from agent_eval.attestations.keys import PublicKey, parse_public_key
from agent_eval.ci.baseline import Ground, Search, find_baselines
from agent_eval.ci.config import (
    DEFAULT,
    SETTINGS,
    Settings,
    StatedValue,
    first_stated,
    gather,
    parse_value,
    read_values,
    settings_from,
    with_own_comment,
)
from agent_eval.ci.place import NAME_LIMIT, JobPlace, RuleChange, Versions, files_of_judges, rule_changes
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.sides import check_out
from agent_eval.ci.workspace import as_code
from agent_eval.config.options import SECRET, Option
from agent_eval.config.project_file import CONFIG_FILE
from agent_eval.config.rows.file import GRANTS, KEYS
from agent_eval.config.spec import Judging
from agent_eval.contracts import Case, Outcome
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Registry, Waiver
from agent_eval.errors import AgentEvalError, InvalidInput, NotEvaluable, UsageError
from agent_eval.gate.policy_file import with_keys
from agent_eval.judges.catalog import judge_case, load_judges, runs_code
from agent_eval.judges.hosted import reload_hosted_judges
from agent_eval.operations.gate import parse_policy_file
from agent_eval.operations.models import ModelAccess
from agent_eval.operations.run import configs_of
from agent_eval.registry.store import parse_registry
from agent_eval.storage.atomic import write_unsynced
from agent_eval.storage.redaction import Redactor
from agent_eval.text.escape import one_line


@dataclass(frozen=True, kw_only=True)
class JobContext:
    """One CI job, once its settings and the rules it judges by are known.

    Attributes:
        redactor: Knows the secrets; nothing that the job writes holds one.
        clock: The time to record.
        stated: The settings as they are stated, without the places of the tip's files; for people.
        place: None outside of a repository.
        settings_at: Reads the settings of another checkout, given what is the working directory there.
    """

    settings: Settings
    platform: Platform
    environ: Mapping[str, str]
    redactor: Redactor
    rules: Rules
    clock: Callable[[], datetime]
    stated: Settings | None = None
    place: JobPlace | None = None
    settings_at: Callable[[Path], Settings] | None = None

    @property
    def writes_history(self) -> bool:
        """Whether the run is one of a reviewed commit, whose counts later runs rely on."""
        return (self.place is None or self.place.is_reviewed) and not self.platform.run.from_fork

    def timestamp(self) -> str:
        """The time to record, as ISO 8601 with its offset."""
        return self.clock().isoformat()


_VALUE_LIMIT = 60
T = TypeVar("T")

OF_THE_AGENT = frozenset(
    {
        *("agent", "agent-command", "agent-url", "keep-agent-alive", "repair-command", "setup-command"),
        *("system-prompt", "model", "base-url"),
    }
)
"""Keys that a change states for itself: how its agent is built and run."""

_ADDRESSES = frozenset({"agent-url", "base-url"})
LOWERED = ("limits.attempt", "limits.trial")
"""Parts of the limits that a change may lower for itself; what it raises holds once it is merged."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a job judges and decides by.

    Attributes:
        policy: Of the gate, with the limits of the job's inputs.
        registry_path: The registry's file; paths in the registry are relative to it.
        waivers: Those for the baseline that the settings name.
        baseline_key: The key with which a baseline must have been signed; None where it need not be.
        own_policy: The policy that the change would have; None where it is the same, or there is no change.
        own_judging: How the change would judge; None where there is no change.
        changes: Files of the rules that the change alters.
        pending: What it says otherwise there, such as "`margin` 0.05 → 0.25".
        named_first: Sentences that stand before the decision's own: by which rules it was made.
        unusable: As `named_first`, of a rule of main that does not work: the job used the change's, which
            is no ground for a release.
        warnings: What a user should know of how the rules were read.
    """

    policy: GatePolicy
    registry: Registry
    registry_path: Path
    waivers: list[Waiver]
    baseline_key: PublicKey | None = None
    own_policy: GatePolicy | None = None
    own_judging: Judging | None = None
    changes: list[RuleChange] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    named_first: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Held:
    """A job's settings with the keys of `agent-eval.yml` in the version that counts; sentences as in `Rules`.

    Attributes:
        own: Of a change, the values by its own file, by input; None where these are the ones that count.
        own_settings: Made of `own`; None without it.
        values: Of a change, the values that count, by input.
        is_adoption: Whether the change brings the first rules there are.
    """

    settings: Settings
    named_first: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    own: Mapping[str, StatedValue] | None = None
    own_settings: Settings | None = None
    values: Mapping[str, StatedValue] = field(default_factory=dict)
    is_adoption: bool = False


def hold(
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    file: Path | None,
    versions: Versions,
    has_evidence: Callable[[], bool],
) -> Held:
    """Read a job's settings, each key of `agent-eval.yml` in the version that counts.

    `flags` has the command line's values by input name; `has_evidence` tells whether a reviewed commit left
    evidence: this is no first adoption. The change's own file must be right too.
    """
    own_data = versions.own(file) if file is not None else None
    own_file = file if own_data is not None else None
    own_values = gather(flags, environ, own_file, content=own_data)
    tip_data = versions.tips(file) if versions.is_change and file is not None else None
    if not versions.is_change or file is None:
        return Held(settings_from(own_values))
    # What is wrong is wrong now, not when main has it.
    is_moved = own_data is None and tip_data is not None
    in_force = Held(settings_from(own_values, complete=not is_moved))
    if not is_moved:
        in_force.own, in_force.own_settings = own_values, in_force.settings
    if tip_data is None and own_data is not None:
        in_force.is_adoption = _is_adoption(own_values, versions, file) and not has_evidence()
        if in_force.is_adoption:
            if versions.from_fork:
                _refuse_grants(read_values(file, own_data)[0], SETTINGS)
            return in_force
    raw: Mapping[str, str] = {}
    try:
        if tip_data is not None:
            raw, ignored = read_values(file, tip_data, lenient=True)
            if ignored:
                named = ", ".join(f"`{one_line(name, limit=80)}`" for name in ignored)
                in_force.warnings.append(f"Keys of main's `{file}` that this version does not know: {named}.")
    except AgentEvalError as error:
        in_force.unusable.append(f"main's `{file}` cannot be read, so this change's rules decided.")
        in_force.warnings.append(error.message)
        _refuse_grants(read_values(file, own_data, lenient=True)[0] if own_data is not None else {}, SETTINGS)
        return in_force
    own, _ = read_values(file, own_data, lenient=True) if own_data is not None else (raw, [])
    # Keys and cases would go where the change says.
    elsewhere = {name: own[name] for name in _ADDRESSES & own.keys() if own[name] != raw.get(name)}
    _refuse_grants(elsewhere, SETTINGS)
    if own and not _ADDRESSES & own.keys():
        raw = {name: text for name, text in raw.items() if name not in _ADDRESSES}
    if is_moved and not versions.is_reported:
        in_force.named_first.append(f"`{file}` moved; main's rules decided.")
    stated = {row.name: _value_in_force(row, flags, environ, raw, own, in_force) for row in SETTINGS}
    values = with_own_comment(stated, flags, environ)
    redaction = in_force.settings.redaction
    settings, in_force.values = settings_from(values), values
    if not is_moved and not versions.is_altered(file):
        # As nothing of it is the change's, the tip's holds once merged, too.
        in_force.own, in_force.own_settings = values, settings
    # What either wants hidden is hidden at once.
    in_force.settings = replace(settings, redaction=settings.redaction | redaction)
    return in_force


def _refuse_grants(own: Mapping[str, str], rows: Iterable[Option]) -> None:
    """Refuse to take from a change who gets a secret, or what is trusted."""
    named = [KEYS[row.name] for row in rows if row.name in GRANTS and own.get(row.name)]
    if named:
        raise NotEvaluable(
            f"`{named[0]}` counts once it is on main, so this change was not evaluated.",
            remedy=f"Merge `{CONFIG_FILE}` first, or give it as an input of the CI file.",
        )


def _is_adoption(own: Mapping[str, StatedValue], versions: Versions, file: Path) -> bool:
    """Whether neither the tip nor the default branch has rules."""
    if versions.tips(file, default_branch=True) is not None:
        return False
    paths = [Path(own[name].text) for name in ("policy", "registry-path") if own[name].text]
    return all(
        versions.where(path) is None
        or (versions.tips(path) is None and versions.tips(path, default_branch=True) is None)
        for path in paths
    )


def _value_in_force(
    row: Option,
    flags: Mapping[str, str],
    environ: Mapping[str, str],
    raw: Mapping[str, str],
    own: Mapping[str, str],
    in_force: Held,
) -> StatedValue:
    """Choose the value of an input for a change.

    `raw` has what main's file states, `own` what the change's does: in place of what of main cannot be read.
    """
    key, mine = KEYS.get(row.name, row.name), first_stated(row, {}, {}, own, CONFIG_FILE)
    tip = first_stated(row, {}, {}, raw, f"main's {CONFIG_FILE}")
    try:
        parse_value(row, tip)
    except UsageError as error:
        in_force.unusable.append(f"main's `{key}` cannot be read, so this change's decided.")
        in_force.warnings.append(error.message)
        _refuse_grants(own, [row])
        tip = mine
    if row.name in OF_THE_AGENT and row.name not in GRANTS:
        return first_stated(row, flags, environ, own, CONFIG_FILE)
    outside = first_stated(row, flags, environ, {}, CONFIG_FILE)
    is_outside = outside.source != DEFAULT
    stated = tip if tip.source != DEFAULT else outside
    if is_outside and outside.text != stated.text:
        in_force.warnings.append(f"{outside.source} is not used: main's `{CONFIG_FILE}` says `{key}`.")
    if row.part in LOWERED and not is_outside and mine.source != DEFAULT:
        limit, wish = parse_value(row, stated), parse_value(row, mine)
        if limit is None or wish < limit:
            return mine
    return stated


def left_evidence(platform: Platform, versions: Versions) -> bool:
    """Tell whether a run of a trusted branch left evidence, also where that is gone or cannot be read."""
    if versions.place is None:
        return False
    ground = Ground(place=versions.place, wanted=(), remedy=platform.spec.remedies.read_runs)
    search = find_baselines(platform.earlier_runs, ground)
    return bool(search.lost or search.withheld or search.outage) or search.gone is not None


def rules_of(in_force: Held, versions: Versions) -> Rules:
    """Read policy, registry and keys in the version that counts."""
    settings = in_force.settings
    of_tip = versions.is_change and not in_force.is_adoption

    def in_version_that_counts(path: Path | None, parse: Callable[[bytes, str], T]) -> T | None:
        if path is None or not of_tip:
            return _own(path, parse, versions)
        try:
            return parse(data, str(path)) if (data := versions.tips(path)) is not None else None
        except InvalidInput as error:
            in_force.unusable.append(f"main's {as_code(str(path))} cannot be read, so this change's decided.")
            in_force.warnings.append(error.message)
            return _own(path, parse, versions)

    policy = in_version_that_counts(settings.policy, parse_policy_file)
    if settings.policy is not None and policy is None:
        if not of_tip:
            raise _no_policy(settings.policy)
        in_force.warnings.append(f"Main has no `{settings.policy}`: the preset alone holds.")
    registry = in_version_that_counts(settings.registry_path, parse_registry) or Registry()
    key = in_version_that_counts(
        settings.baseline_public_key, lambda data, name: parse_public_key(data, source=name)
    )
    if settings.baseline_public_key is not None and key is None:
        raise InvalidInput(
            f"The public key {settings.baseline_public_key} does not exist.",
            remedy="Correct `baseline.public_key`, and commit the key to the base branch.",
            file=str(settings.baseline_public_key),
            field="baseline-public-key",
        )
    rules = Rules(
        policy=_with_inputs(policy or GatePolicy(), settings),
        registry=registry,
        registry_path=settings.registry_path,
        waivers=[waiver for waiver in registry.waivers if waiver.baseline_name == settings.baseline_name],
        baseline_key=key,
        named_first=in_force.named_first,
        unusable=in_force.unusable,
        warnings=in_force.warnings,
    )
    if not of_tip:
        return rules
    own, own_policy = in_force.own_settings, None
    if own is not None:
        # The policy that the change would have must hold once merged.
        if own.policy is None:
            mine = GatePolicy()
        elif own.policy == settings.policy and not versions.is_altered(own.policy):
            mine = policy or GatePolicy()
        elif (read := _own(own.policy, parse_policy_file, versions)) is not None:
            mine = read
        else:
            raise _no_policy(own.policy)
        own_policy = _with_inputs(mine, own)
        own_policy = own_policy if own_policy != rules.policy else None
    by_key, judging = (Path(CONFIG_FILE), settings.policy), settings.judging
    others = (settings.registry_path, judging.judge_config, settings.baseline_public_key, judging.llm.script)
    named = {path: "" for path in (*by_key, *others) if path is not None}
    changes = rule_changes(versions, {**files_of_judges(judging, versions), **named})
    # What these two say otherwise is told key by key; of the others, that they differ.
    files = [change.title for change in changes if change.file not in by_key]
    return replace(
        rules,
        own_policy=own_policy,
        own_judging=own.judging if own is not None else None,
        changes=changes,
        pending=[*_stated_otherwise(in_force, rules.policy, own_policy), *files],
    )


def _own(path: Path | None, parse: Callable[[bytes, str], T], versions: Versions) -> T | None:
    data = versions.own(path) if path is not None else None
    return parse(data, str(path)) if data is not None else None


def _no_policy(path: Path) -> InvalidInput:
    return InvalidInput(
        f"The policy {path} does not exist.",
        remedy="Correct `policy`, or leave it out for the preset alone.",
        file=str(path),
        field="policy",
    )


def _with_inputs(policy: GatePolicy, settings: Settings) -> GatePolicy:
    """Copy a policy with what `agent-eval.yml` and the job's inputs state in place of its own."""
    if settings.own_policy:
        policy = with_keys(policy, settings.own_policy, source=CONFIG_FILE)
    if settings.preset is not None:
        policy = policy.model_copy(update={"preset": settings.preset})
    return policy.with_thresholds(settings.thresholds)


def _stated_otherwise(in_force: Held, policy: GatePolicy, own: GatePolicy | None) -> list[str]:
    """Say which inputs and keys of the policy the change states otherwise than those that hold, but for its
    agent; `own` is the policy that it would have, None where it is the same.
    """
    pairs: list[tuple[str, object, object]] = []
    if in_force.own is not None and in_force.values:
        # What the file says of the policy is told with the policy.
        of_policy = {f"policy.{key}" for key in GatePolicy.model_fields}
        for row in SETTINGS:
            is_told_elsewhere = row.part == "own_policy" or KEYS.get(row.name) in of_policy
            if row.name not in OF_THE_AGENT and row.kind not in SECRET and not is_told_elsewhere:
                texts = (in_force.values[row.name].text, in_force.own[row.name].text)
                pairs.append((KEYS.get(row.name, row.name), *texts))
    if own is not None:
        before, now = policy.to_json(), own.to_json()
        if policy.preset == own.preset:
            before["margin"], now["margin"] = policy.effective_margin, own.effective_margin
        pairs += [(key, before[key], now[key]) for key in before]
    sentences = []
    for name, *values in pairs:
        was, is_now = (
            "none" if value in (None, "") else one_line(str(value), limit=_VALUE_LIMIT) for value in values
        )
        if values[0] != values[1]:
            sentences.append(f"`{name}` {was} → {is_now}")
    return sentences


def with_files_of_tip(in_force: Held, versions: Versions) -> Settings:
    """Let the files that judge be those of the tip, and judges that a change adds be advisory.

    Judges that are code, and what they are configured by, come from a checkout of the tip, which is made only
    where something of it is read. Raises `CannotCheckOut` where it cannot be checked out whole.
    """
    settings, place = in_force.settings, versions.place
    if place is None or not versions.is_change or versions.is_reported or in_force.is_adoption:
        return settings
    judging, agent = settings.judging, settings.agent
    baseline = Path(settings.baseline) if Path(settings.baseline).exists() else None
    of_agent = (agent.cassette, agent.user_prompt) if agent is not None else ()
    read = [judging.judge_config, judging.llm.script, baseline, *of_agent]
    is_code = any(":" in name for name in judging.judges)
    advisory = None
    if in_force.own_settings is not None:
        # What only the change's own file names is shown, and counts once it is merged.
        own = in_force.own_settings.judging
        new = tuple(name for name in own.judges if name not in judging.judges)
        advisory = Judging(judges=new, judge_config=own.judge_config, configs=own.configs) if new else None
    reads_nothing = not judging.configs and not is_code
    if reads_nothing and not any(path is not None and versions.where(path) is not None for path in read):
        return replace(settings, judging=replace(judging, advisory=advisory))
    top, tree = place.clone.top, place.clone.home / "tip" / place.clone.top.name
    check_out(place.clone, place.tip, tree)

    def of_tip(path: Path | None) -> Path | None:
        where = versions.where(path) if path is not None else None
        if where is None:
            return path
        if not (tree / where).exists() and path is not None and path.exists():
            in_force.warnings.append(
                f"Main has no `{one_line(where, limit=NAME_LIMIT)}`: it holds once merged."
            )
            return None
        return tree / where

    judging = replace(
        judging,
        judge_config=of_tip(judging.judge_config),
        llm=replace(judging.llm, script=of_tip(judging.llm.script)),
        directory=tree / Path.cwd().resolve().relative_to(top.resolve()),
        advisory=advisory,
    )
    if agent is not None:
        agent = replace(agent, cassette=of_tip(agent.cassette), user_prompt=of_tip(agent.user_prompt))
    if (at_tip := of_tip(baseline)) is not None and at_tip.exists():
        # A path comes before the name of a baseline, which a change could hide by it.
        settings = replace(settings, baseline=str(at_tip))
    return replace(settings, judging=judging, agent=agent)


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
        job.rules.unusable.append(f"Model {as_code(model)} does not exist any more; this change's was used.")
        judging = replace(judging, llm=replace(judging.llm, model=own.llm.model))
    return replace(job, settings=replace(job.settings, judging=judging))


def _is_mended(name: str, job: JobContext, search: Search) -> bool:
    """Whether a judge of the tip errs and the change's does not, whose files then stand in its place."""
    place, directory = job.place, job.settings.judging.directory
    if place is None or directory is None or job.stated is None:
        return False
    if not _errs(name, job.settings.judging, search):
        return False
    versions = Versions(place)
    replaced: dict[Path, tuple[bytes, bytes]] = {}
    for path, judge in files_of_judges(job.stated.judging, versions).items():
        where = versions.where(path)
        changed = place.clone.file(where, place.head) if where is not None else None
        if changed is not None and judge == name and not path.is_absolute():
            replaced[directory / path] = (changed, (directory / path).read_bytes())
    for version in (0, 1) if replaced else ():
        for file, contents in replaced.items():
            write_unsynced(file, contents[version])
        reload_hosted_judges()
        if version == 0 and not _errs(name, job.settings.judging, search):
            return True
    return False


def _errs(name: str, judging: Judging, search: Search) -> bool:
    """Whether a judge cannot be loaded, or errs twice in a row on a case of the baseline."""
    try:
        configs = configs_of(judging)
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

    def fails(case: Case) -> bool:
        verdicts = judge_case([judge], case, case.recorded)
        return any(row.judge_id == judge.judge_id and row.outcome is Outcome.ERROR for row in verdicts)

    return any(fails(case) and fails(case) for case in islice(cases, MOST_TRIED))


def _is_gone(judging: Judging, environ: Mapping[str, str]) -> bool:
    """Whether the provider says that there is no such model; one that is busy or down says nothing."""
    from agent_eval.models.base import Message, ModelFailure, ModelRequest

    question = Message("user", ("Are you there?",))
    request = ModelRequest("judge", "Answer with one word.", (question,), max_tokens=16)
    try:
        ModelAccess(replace(judging.llm, cassette=None), environ)().complete(request)
    except ModelFailure as failure:
        return failure.is_unknown_model
    except AgentEvalError:
        return False
    return False
