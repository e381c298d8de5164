"""Find judges by name, configure them, and run them on a case.

A new built-in judge is one file in `builtin/` and one line in `JUDGES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from agent_eval.contracts import REPLAY_CONTRACT, Case, Outcome, Trace, Verdict
from agent_eval.contracts.verdict import ADVISORY, EXECUTION, FIELDS_NOT_JUDGED
from agent_eval.errors import AgentEvalError, FailureKind, InvalidInput, words_of
from agent_eval.judges.base import (
    EVIDENCE_LIMIT,
    AdvisoryJudge,
    EvaluationsConfig,
    Judge,
    JudgeConfig,
    clipped,
    config_of,
    fields_not_judged,
    not_judged,
    quoted,
    verdict_of,
)
from agent_eval.judges.code import CodePlace, is_installed_module
from agent_eval.judges.reading import attempt_failure, read_config

JUDGES: dict[str, str] = {
    "command": "agent_eval.judges.builtin.program:CommandJudge",
    "cost_budget": "agent_eval.judges.builtin.cost_budget:CostBudgetJudge",
    "execution": "agent_eval.judges.builtin.execution:ExecutionJudge",
    "final_output": "agent_eval.judges.builtin.final_output:FinalOutputJudge",
    "json_schema": "agent_eval.judges.builtin.json_schema:JsonSchemaJudge",
    "latency_slo": "agent_eval.judges.builtin.latency_slo:LatencySloJudge",
    "lean": "agent_eval.judges.builtin.program:LeanJudge",
    "llm": "agent_eval.judges.builtin.llm:LlmJudge",
    "loop_guard": "agent_eval.judges.builtin.loops:LoopGuardJudge",
    "policy": "agent_eval.judges.builtin.policy:PolicyJudge",
    "prompt_injection": "agent_eval.judges.builtin.prompt_injection:PromptInjectionJudge",
    "recorded": "agent_eval.judges.builtin.recorded:RecordedJudge",
    "regex": "agent_eval.judges.builtin.regex:RegexJudge",
    "repair_path": "agent_eval.judges.builtin.execution:RepairPathJudge",
    REPLAY_CONTRACT: "agent_eval.judges.builtin.replay_contract:ReplayContractJudge",
    "retry_storm": "agent_eval.judges.builtin.loops:RetryStormJudge",
    "strict": "agent_eval.judges.builtin.strict:StrictJudge",
    "tool_abuse": "agent_eval.judges.builtin.tool_abuse:ToolAbuseJudge",
    "tool_contract": "agent_eval.judges.builtin.tool_contract:ToolContractJudge",
    "trajectory_match": "agent_eval.judges.builtin.trajectory_match:TrajectoryMatchJudge",
    "trajectory_step": "agent_eval.judges.builtin.trajectory_step:TrajectoryStepJudge",
}
"""Built-in judges by name, as `module:Class`."""

VERSIONS = {
    "cost_budget": 3,
    "final_output": 4,
    "json_schema": 3,
    "latency_slo": 3,
    "loop_guard": 3,
    "policy": 2,
    "prompt_injection": 3,
    "regex": 3,
    REPLAY_CONTRACT: 3,
    "tool_abuse": 2,
    "tool_contract": 2,
    "trajectory_match": 3,
    "trajectory_step": 2,
}
"""Versions of the built-in judges that give other verdicts than they first did; all others have version 1.

A run's configuration records them, so that a verdict that changed without the agent is traced to its judge.
"""

DEFAULT_JUDGES = ("tool_contract", "policy", "trajectory_step", "regex", "json_schema", "final_output")
"""Judges of a run that names none. `replay_contract` always runs before them."""

ENTRY_POINT_GROUP = "agent_eval.judges"
"""Entry points under which installed packages offer judges of their own."""


def load_judges(
    names: Sequence[str],
    configs: Mapping[str, Any] | None = None,
    *,
    allow_plugins: bool = True,
    directory: Path | None = None,
) -> list[Judge]:
    """Find and configure judges, in the order of `names`.

    A judge that is named `module:Class`, or that an editable install offers, runs in a child process
    (`hosted`). One of a package that was installed runs in this process, as built-in ones do.

    Args:
        names: Built-in names, names from the entry point group `agent_eval.judges`, or `module:Class`.
        configs: By name (or by `judge_id`, for `module:Class`). Entries for known judges that are not in
            `names` are allowed, so that one file can serve several runs. An entry for `replay_contract` adds
            that judge.
        allow_plugins: False finds built-in judges only, and refuses those that run a command; use it for
            names and configurations that come from an evidence pack.
        directory: Where judges' code is imported from and their commands run, in place of the working
            directory.

    Raises:
        InvalidInput: A name, key or value is wrong, or a plug-in cannot be imported or is no judge.
        NotEvaluable: The process of a judge ended while the judge was loaded.
    """
    configs = dict(configs or {})
    names = list(names)
    if REPLAY_CONTRACT in configs and REPLAY_CONTRACT not in names:
        names.insert(0, REPLAY_CONTRACT)
    judges: dict[str, Judge] = {}
    used_keys: set[str] = set()
    place = CodePlace.of_directory(directory)
    for name in names:
        factory = _find(name, allow_plugins=allow_plugins)
        judge: Judge
        if isinstance(factory, str):
            from agent_eval.judges.hosted import hosted_judge  # most runs have no such judge

            # Its process says which of the configurations is its own.
            own = {key: config for key, config in configs.items() if key not in JUDGES}
            judge = hosted_judge(factory, own, place)
            used_keys.add(judge.key)
        else:
            key = config_key(name, getattr(factory, "judge_id", name), configs)
            judge = build_judge(name, factory, configs.get(key))
            used_keys.add(key)
            if getattr(judge, "runs_commands", False):
                judge.place = place  # type: ignore[attr-defined]  # every judge that runs commands has one
        if name not in JUDGES and judge.judge_id in JUDGES:
            problem = f"judge {quoted(name)} calls itself {quoted(judge.judge_id)}, which is a built-in judge"
            raise InvalidInput(problem, remedy="Give it a judge_id of its own.", field="judges")
        if judge.judge_id in judges:
            problem = f"judge {quoted(judge.judge_id)} is named twice"
            remedy = "Name every judge once; two plug-ins need different judge_ids."
            raise InvalidInput(problem, remedy=remedy, field="judges")
        judges[judge.judge_id] = judge
    for key in sorted(set(configs) - used_keys):
        if key not in JUDGES and ":" not in key and key not in known_judges(allow_plugins=allow_plugins):
            raise _unknown_judge(key, f"judge_configs.{key}", allow_plugins=allow_plugins)
    return list(judges.values())


def judge_case(judges: Sequence[Judge], case: Case, trace: Trace) -> list[Verdict]:
    """Run every judge on a case and return their verdicts, `replay_contract` first.

    An attempt that is recorded as failed is an error even if `execution` is not among the judges: whatever
    else is judged, an agent that crashed does not pass. A judge that raises, or that returns anything but its
    own verdict on this case, gets an error verdict (`judge_error`); the other verdicts are kept.
    Of a conversation whose simulated user failed nothing else is judged, and the case is inconclusive.
    The evidence of the first verdict lists the fields of the case that none of the judges looks at, and what
    advisory judges found.
    """
    # By its very type: `isinstance` of what derives from a protocol takes as long as some judges.
    ordered = [judge for judge in judges if type(judge) is not AdvisoryJudge]
    position = next((i for i, judge in enumerate(ordered) if judge.judge_id == REPLAY_CONTRACT), None)
    ordered.insert(0, _always(REPLAY_CONTRACT) if position is None else ordered.pop(position))
    user_failed = attempt_failure(case) == FailureKind.SIMULATOR_ERROR.value
    verdicts: list[Verdict] = []
    for judge in ordered:
        if user_failed and judge.judge_id not in (REPLAY_CONTRACT, EXECUTION):
            words = "not judged: the simulated user failed"
            verdicts.append(not_judged(judge, case, words, outcome=Outcome.SKIPPED))
        else:
            verdicts.append(verdict_of(judge, case, trace))
    verdicts = with_threshold(ordered, verdicts)
    first = verdicts[0]
    if "attempt_history" in case.metadata and all(judge.judge_id != EXECUTION for judge in ordered):
        # A verdict of its own would be of a judge that the run did not name, and on some cases only.
        execution = _always(EXECUTION).evaluate(case, trace)
        if (execution.outcome is Outcome.ERROR or user_failed) and first.outcome is not Outcome.ERROR:
            names = ("outcome", "passed", "score", "reason", "failure", "evidence_refs")
            first = first.model_copy(update={name: getattr(execution, name) for name in names})
    beside: dict[str, Any] = {}
    if unseen := fields_not_judged(ordered, case):
        beside[FIELDS_NOT_JUDGED] = unseen[:EVIDENCE_LIMIT]
    if advisory := [judge.finding(case, trace) for judge in judges if type(judge) is AdvisoryJudge]:
        beside[ADVISORY] = advisory[:EVIDENCE_LIMIT]
    if beside:
        first = first.model_copy(update={"evidence": {**first.evidence, **beside}})
    return [first, *verdicts[1:]]


def validate_case(judges: Iterable[Judge], case: Case) -> None:
    """Refuse a case that one of these judges could never judge: an invalid pattern or schema.

    Call it for every case before anything runs or is written. Compiled patterns and schemas are cached.

    Raises:
        InvalidInput: The case cannot be judged; names case and field.
    """
    for judge in judges:
        check = getattr(judge, "check_case", None)
        if check is None:
            continue
        try:
            check(case)
        except AgentEvalError:
            raise
        # A plug-in may raise anything.
        except Exception as problem:
            words = clipped(words_of(problem), 160)
            raise InvalidInput(
                f"case {quoted(case.case_id)}: judge {quoted(judge.judge_id)} cannot check it: {words}",
                remedy="Correct the case, or the judge's check_case.",
                case_id=case.case_id,
            ) from problem


def judges_of_field(field: str) -> list[str]:
    """Name the built-in judges that read a field of a case, as `fields_not_judged` names it."""
    return [name for name in JUDGES if field in _fields_read_by(name)]


def judges_of_metadata() -> list[tuple[str, Judge]]:
    """List built-in judges beside those of every run by the member of a case's metadata that each reads."""
    return [
        (field.removeprefix("metadata."), _always(name))
        for name in JUDGES
        if name not in DEFAULT_JUDGES
        for field in sorted(_fields_read_by(name))
        if field.startswith("metadata.")
    ]


def _fields_read_by(name: str) -> frozenset[str]:
    return getattr(import_judge(JUDGES[name]), "reads", None) or frozenset()


@cache
def _always(name: str) -> Judge:
    return build_judge(name, import_judge(JUDGES[name]), None)


def runs_code(name: str) -> bool:
    """Tell whether a judge that is named so comes from a project's files, or runs a program."""
    return ":" in name or bool(name in JUDGES and getattr(import_judge(JUDGES[name]), "runs_commands", False))


def _find(name: str, *, allow_plugins: bool) -> Callable[..., Any] | str:
    """Find a judge: what builds it, or for one that runs in a child process its `module:Class`."""
    if name in JUDGES:
        factory = import_judge(JUDGES[name])
        if not allow_plugins and getattr(factory, "runs_commands", False):
            raise InvalidInput(
                f"judge {quoted(name)} runs a command, and here only built-in checks may run",
                remedy="Leave it out, or configure it in a policy of your own.",
                field="judges",
            )
        return factory
    if allow_plugins:
        if ":" in name:
            return name
        for entry in _entry_points():
            if entry.name == name:
                is_installed = is_installed_module(entry.value.partition(":")[0])
                return import_judge(entry.value) if is_installed else str(entry.value)
    raise _unknown_judge(name, "judges", allow_plugins=allow_plugins)


def config_key(name: str, judge_id: str, configs: Mapping[str, Any]) -> str:
    """Return the one of a judge's two names that `configs` has an entry for; `name` if it has neither."""
    keys = [key for key in dict.fromkeys((name, judge_id)) if key in configs] or [name]
    if len(keys) > 1:
        raise InvalidInput(
            f"judge {quoted(name)} is configured twice, as {quoted(keys[0])} and as {quoted(keys[1])}",
            remedy="Keep one of the two entries.",
            field=f"judge_configs.{keys[1]}",
        )
    return keys[0]


def _unknown_judge(name: str, field: str, *, allow_plugins: bool) -> InvalidInput:
    known = known_judges(allow_plugins=allow_plugins)
    near = get_close_matches(name, known, n=1)
    hint = f"Did you mean {near[0]}? " if near else ""
    return InvalidInput(
        f"there is no judge {quoted(name)}",
        remedy=f"{hint}Known judges: {', '.join(known)}" + ("; or module:Class." if allow_plugins else "."),
        field=field,
    )


def known_judges(*, allow_plugins: bool = True) -> list[str]:
    """List the names of all judges that can be named: built-in ones and those of installed packages."""
    plugins = [entry.name for entry in _entry_points()] if allow_plugins else []
    return sorted({*JUDGES, *plugins})


@cache
def _entry_points() -> list[Any]:
    """List what installed packages offer: once, so that what the set-up of a change installs adds nothing."""
    # Imported here: reading the metadata of every installed package is slow and rarely needed.
    from importlib.metadata import entry_points

    return list(entry_points(group=ENTRY_POINT_GROUP))


def import_judge(spec: str) -> Callable[..., Any]:
    """Import what builds a judge, named `module:Class`, into this process."""
    module_name, _, path = spec.partition(":")
    try:
        factory: Any = importlib.import_module(module_name)
        for part in path.split("."):
            factory = getattr(factory, part)
    # A plug-in's own module may fail in any way when it is imported.
    except Exception as problem:
        words = clipped(words_of(problem), 160)
        raise InvalidInput(
            f"judge {quoted(spec)} cannot be loaded: {words}",
            remedy="Write module:Class, and make sure that the module can be imported from here.",
            field="judges",
        ) from problem
    if not callable(factory):
        raise _not_a_judge(spec, "it is not a class")
    return factory  # type: ignore[no-any-return]


def build_judge(name: str, factory: Callable[..., Any], raw_config: Any) -> Judge:
    """Build a judge with its configuration."""
    config_class = getattr(factory, "Config", None)
    try:
        if isinstance(config_class, type) and issubclass(config_class, JudgeConfig):
            judge = factory(read_config(name, config_class, raw_config))
        elif raw_config:
            raise InvalidInput(
                f"judge {quoted(name)} takes no configuration",
                remedy="Remove its entry, or give the judge a Config derived from JudgeConfig.",
                field=f"judge_configs.{name}",
            )
        else:
            judge = factory()
    except InvalidInput:
        raise
    # A plug-in's constructor may raise anything.
    except Exception as problem:
        raise _not_a_judge(name, f"building it raised {words_of(problem)}") from problem
    if not isinstance(judge, Judge) or not isinstance(judge.judge_id, str) or not judge.judge_id:
        raise _not_a_judge(name, "it needs judge_id, hard and evaluate(case, trace)")
    return judge


def _not_a_judge(name: str, problem: str) -> InvalidInput:
    words, remedy = f"{quoted(name)} is not a judge: {problem}", "Derive it from agent_eval.judges.BaseJudge."
    return InvalidInput(clipped(words), remedy=remedy, field="judges")


def load_advisory(
    names: Iterable[str], configs: Mapping[str, Any], directory: Path | None
) -> list[AdvisoryJudge]:
    """Load judges whose verdicts are shown and count nowhere. One that cannot be loaded is an error verdict.

    None of them gets a variable that its configuration names in `env`: that may be a secret.

    `directory` is where their code is; None for the working directory.
    """
    without = {
        name: {key: value for key, value in config.items() if key != "env"}
        for name, config in configs.items()
        if isinstance(config, Mapping)
    }
    without.pop(REPLAY_CONTRACT, None)  # an entry for it would add it
    loaded = []
    for name in names:
        try:
            (judge,) = load_judges([name], without, directory=directory)
        except AgentEvalError as problem:
            loaded.append(AdvisoryJudge(name, None, problem.message))
        else:
            loaded.append(AdvisoryJudge(judge.judge_id, judge))
    return loaded


def with_threshold(judges: Sequence[Judge], verdicts: list[Verdict]) -> list[Verdict]:
    """Pass the failed verdicts of judges of evaluations where enough of these passed, by weight.

    The lowest `pass_threshold` of these judges counts. One that could not be decided did not pass, and errors
    stay errors.
    """
    limits = {
        judge.judge_id: config.pass_threshold
        for judge in judges
        if isinstance(config := config_of(judge), EvaluationsConfig)
    }
    limit = min(limits.values(), default=100.0)
    if limit >= 100:
        return verdicts
    evaluations: list[Mapping[str, Any]] = [
        each
        for verdict in verdicts
        if verdict.judge_id in limits
        for member in ("evaluations", "criteria")
        for each in verdict.evidence.get(member, ())
        if not each.get("advisory")
    ]
    total = sum(each.get("weight", 1.0) for each in evaluations)
    passed = sum(each.get("weight", 1.0) for each in evaluations if each["outcome"] == "passed")
    if not total or passed / total * 100 < limit:
        return verdicts
    words = f"{passed / total * 100:.0f} % of the evaluations passed, and {limit:g} % suffice"
    facts = {"outcome": Outcome.PASSED, "passed": True, "failure": None}
    return [
        verdict.model_copy(update={**facts, "reason": clipped(f"{words}; {verdict.reason}")})
        if verdict.judge_id in limits and verdict.outcome is Outcome.FAILED
        else verdict
        for verdict in verdicts
    ]
