"""Compatibility of two runs: conditions for comparing them, and the cases that may be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

from agent_eval.comparison.facts import CaseOutcome, RunView, cut
from agent_eval.comparison.trials import case_policies, has_trials, trials_of
from agent_eval.contracts import (
    REPLAY_CONTRACT,
    CaseSets,
    Compatibility,
    CompatibilityCheck,
    RunConfig,
    digest,
)
from agent_eval.contracts.base import Contract
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.errors import IncompatibleRuns, NothingMeasured
from agent_eval.text.numbers import verb

Changed = Literal["refuse", "exclude", "include"]
"""What to do about cases that differ between the runs.

`refuse`: any difference stops the comparison. `exclude`: compare the cases whose definition is unchanged
and list the others. `include`: compare every case id that both runs have.
"""

EXAMPLES = 20
"""Maximum case ids that a check names; it counts all of them."""


@dataclass(frozen=True)
class Partition:
    """Case ids of two runs, sorted into those in both, those of them that changed, new and removed ones."""

    common: list[str]
    changed: list[str]
    new: list[str]
    removed: list[str]


def partition(baseline: RunView, candidate: RunView) -> Partition:
    """Sort the case ids of both runs into common, changed (also common), new and removed."""
    common = sorted(baseline.index.keys() & candidate.index.keys())
    return Partition(
        common=common,
        changed=[
            case_id
            for case_id in common
            if baseline.index[case_id]["definition_digest"] != candidate.index[case_id]["definition_digest"]
        ],
        new=sorted(candidate.index.keys() - baseline.index.keys()),
        removed=sorted(baseline.index.keys() - candidate.index.keys()),
    )


def check(baseline: RunView, candidate: RunView, parts: Partition, changed: Changed) -> Compatibility:
    """Check every condition for comparing two runs.

    With `exclude`, differences in case set and definitions are not enforced, because those cases are left
    out. Nor is the case policy, which is reported only. Conditions on trials are checked where a case has
    several.
    """
    same_cases_needed = changed != "exclude"
    checks = [
        _dataset(baseline, candidate),
        _case_set(parts, enforced=same_cases_needed),
        _definitions(parts, enforced=same_cases_needed),
        _judges(baseline.config.judges, candidate.config.judges),
        _judge_configs(baseline.config, candidate.config),
        *_execution(baseline.config, candidate.config),
        *_simulated_user(baseline.config, candidate.config),
        *_trials(baseline, candidate, parts, enforced=same_cases_needed),
    ]
    return Compatibility(
        passed=all(condition.passed for condition in checks if condition.enforced),
        checks=checks,
        failures=[condition for condition in checks if not condition.passed],
    )


def select(
    compatibility: Compatibility,
    parts: Partition,
    baseline: Mapping[str, CaseOutcome],
    changed: Changed,
    *,
    judged_twice: Iterable[str] = (),
) -> tuple[list[str], CaseSets]:
    """Select the ids to compare, sorted, and report the cases of either run that are not compared.

    Args:
        compatibility: The conditions.
        parts: The cases of both runs.
        baseline: Outcomes of the baseline.
        changed: What to do about cases that differ.
        judged_twice: Ids of cases whose definition changed and that can be compared all the same.

    Raises:
        IncompatibleRuns: An enforced condition does not hold, and `changed` is not `include`.
        NothingMeasured: `changed` is `include`, and the runs share no case.
    """
    broken = [condition for condition in compatibility.failures if condition.enforced]
    if broken and changed != "include":
        raise IncompatibleRuns(
            "baseline and candidate cannot be compared: "
            + "; ".join(condition.message for condition in broken),
            remedy="Evaluate both on the same suite in the same way; or set --allow-incompatible.",
            checks=[
                {"name": condition.name, "message": condition.message, **condition.details}
                for condition in broken
            ],
        )
    if changed == "include" and not parts.common:
        raise NothingMeasured(
            "baseline and candidate share no case id, so there is nothing to compare",
            remedy="Compare runs of the same suite.",
        )
    not_comparable = [case_id for case_id in parts.changed if case_id not in set(judged_twice)]
    left_out = set(not_comparable if changed == "exclude" else ())
    compared = [case_id for case_id in parts.common if case_id not in left_out]
    sets = CaseSets(
        compared=len(compared),
        new=parts.new,
        changed=not_comparable,
        judged_twice=sorted(set(parts.changed).intersection(judged_twice)),
        removed=parts.removed,
        removed_failing=[case_id for case_id in parts.removed if not baseline[case_id].passed],
    )
    return compared, sets


def _dataset(baseline: RunView, candidate: RunView) -> CompatibilityCheck:
    before, now = baseline.config.dataset_id, candidate.config.dataset_id
    return CompatibilityCheck(
        name="dataset_id_match",
        passed=before == now,
        message="same dataset" if before == now else "the datasets differ",
        details={"baseline_dataset_id": before, "candidate_dataset_id": now},
    )


def _case_set(parts: Partition, *, enforced: bool) -> CompatibilityCheck:
    differ = bool(parts.new or parts.removed)
    message = f"{len(parts.new)} {verb(len(parts.new), 'case is', 'cases are')} only in the candidate, "
    message += f"{len(parts.removed)} only in the baseline"
    return CompatibilityCheck(
        name="case_id_set_match",
        passed=not differ,
        enforced=enforced,
        message=message if differ else "same cases",
        details={
            "missing_in_baseline": parts.new[:EXAMPLES],
            "missing_in_baseline_count": len(parts.new),
            "missing_in_candidate": parts.removed[:EXAMPLES],
            "missing_in_candidate_count": len(parts.removed),
        },
    )


def _definitions(parts: Partition, *, enforced: bool) -> CompatibilityCheck:
    count = len(parts.changed)
    return CompatibilityCheck(
        name="case_definition_match",
        passed=not count,
        enforced=enforced,
        message=f"{count} {verb(count, 'case is', 'cases are')} defined differently"
        if count
        else "same definition of every common case",
        details={"changed": parts.changed[:EXAMPLES], "changed_count": count},
    )


def _judges(before: list[str], now: list[str]) -> CompatibilityCheck:
    added = sorted(set(now) - set(before))
    dropped = sorted(set(before) - set(now))
    differences = [f"{', '.join(dropped)} judged only the baseline"] * bool(dropped)
    differences += [f"{', '.join(added)} judged only the candidate"] * bool(added)
    return CompatibilityCheck(
        name="judges_match",
        passed=not differences,
        enforced=False,
        message="; ".join(differences) or "same judges",
        details={"only_in_baseline": dropped, "only_in_candidate": added},
    )


def changed_code(before: RunConfig, now: RunConfig) -> frozenset[str]:
    """Collect the ids of the judges whose code changed. Runs of older versions do not record it."""
    old, new = (run.execution_config.judge_code or {} for run in (before, now))
    return frozenset(judge_id for judge_id, code in old.items() if code != new.get(judge_id, code))


def judge_ids(names: Iterable[str], named: Iterable[str], *seen: Iterable[str]) -> frozenset[str]:
    """Find the ids under which judges give verdicts.

    Args:
        names: The judges that are wanted, as a run names them.
        named: Every judge that a run names.
        seen: Ids of the judges that have given verdicts.
    """
    ids = frozenset(chain.from_iterable(seen))
    by_name = ids.intersection(names)
    if by_name.issuperset(names):
        return by_name
    # A plug-in that is named by its class has an id of its own, which no name says.
    return by_name | (ids - set(named) - {REPLAY_CONTRACT, EXECUTION})


def _differ(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return sorted(
        name for name in before.keys() | now.keys() if digest(before.get(name)) != digest(now.get(name))
    )


def _judge_configs(before: RunConfig, now: RunConfig) -> CompatibilityCheck:
    differ = _differ(before.judge_configs, now.judge_configs)
    code = sorted(changed_code(before, now))
    differences = [f"{', '.join(differ)} configured differently"] * bool(differ)
    differences += [f"the code of {', '.join(code)} changed"] * bool(code)
    return CompatibilityCheck(
        name="judge_config_match",
        passed=not differences,
        enforced=False,
        message="; ".join(differences) or "same configuration of judges",
        details={"changed": sorted({*differ, *code})},
    )


def is_helped(before: RunConfig, now: RunConfig) -> bool:
    """Tell whether a run's agent was given what the baseline's was not: the answers, or what judges said."""
    old, new = before.execution_config, now.execution_config
    is_shown = new.share_expected_output and not old.share_expected_output
    return is_shown or new.max_repairs > old.max_repairs


_CONDITIONS = {
    "share_expected_output": "whether the agent is handed the expected output",
    "max_repairs": "repairs after what the judges said",
    "strict_side_effects": "whether a tool call without an answer fails",
    "attempt_limits": "the limits of an attempt",
    "case_limits": "the limits of a case",
    "tool_server": "the live tools",
    "cassette": "how recorded answers of tools are used",
}
"""Fields of `execution_config` that say under which conditions the agent ran."""


def _execution(before: RunConfig, now: RunConfig) -> list[CompatibilityCheck]:
    """Check that two runs of an agent had the same conditions. Recorded traces have none but the help."""
    old, new = before.execution_config, now.execution_config
    differ = [name for name in _CONDITIONS if getattr(old, name) != getattr(new, name)]
    are_agents = old.agent is not None and new.agent is not None
    if not differ or not (are_agents or is_helped(before, now)):
        return []
    words = "; ".join(
        _differing(_CONDITIONS[name], getattr(old, name), getattr(new, name)) for name in differ
    )
    return [
        CompatibilityCheck(
            name="execution_match",
            passed=False,
            enforced=False,
            message=f"the agent ran under other conditions: {words}",
            details={"changed": differ},
        )
    ]


def _simulated_user(before: RunConfig, now: RunConfig) -> list[CompatibilityCheck]:
    """Check that the users of conversations were the same: success depends on who plays them, and how."""
    old, new = before.execution_config.simulator, now.execution_config.simulator
    if old is None or new is None:
        return []
    changed = _differ(old, new)
    details = {"changed": changed, "baseline": old, "candidate": new}
    words = "; ".join(f"{name}: {old.get(name)} in the baseline, {new.get(name)} now" for name in changed)
    return [
        CompatibilityCheck(
            name="simulated_user_match",
            passed=not changed,
            enforced=True,
            message=f"users were played differently ({words})" if changed else "the same simulated users",
            details=details if changed else {},
        )
    ]


def _differing(words: str, before: Any, now: Any) -> str:
    if isinstance(before, Contract) and isinstance(now, Contract):
        limits = [name for name in type(now).model_fields if getattr(before, name) != getattr(now, name)]
        return "; ".join(
            _differing(f"{words}, {name}", getattr(before, name), getattr(now, name)) for name in limits
        )
    return f"{words} ({_stated(before)} in the baseline, {_stated(now)} now)"


def _stated(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,.12g}" if isinstance(value, float) else cut(str(value), 80)


def _trials(
    baseline: RunView, candidate: RunView, parts: Partition, *, enforced: bool
) -> list[CompatibilityCheck]:
    """Check what only cases with several trials have: the case policy and the number of trials."""
    runs = (baseline.results, candidate.results)
    # Row by row: the rows of a large run are built on access, and together would fill the memory.
    if not any(has_trials(run[case_id]) for case_id in parts.common for run in runs):
        return []
    before, now = (case_policies(run[case_id] for case_id in parts.common) for run in runs)
    numbers = [tuple(len(trials_of(run[case_id])) for run in runs) for case_id in parts.common]
    return [_case_policy(before, now, enforced), _trial_number(numbers)]


def _case_policy(before: list[str], now: list[str], enforced: bool) -> CompatibilityCheck:
    # A run of single trials has no policy that could differ.
    same = not before or not now or before == now
    return CompatibilityCheck(
        name="case_policy_match",
        passed=same,
        enforced=enforced,
        message="same case policy"
        if same
        else f"a case with several trials passed by case policy {', '.join(before)} and passes by "
        f"{', '.join(now)} now",
        details={"baseline_case_policies": before, "candidate_case_policies": now},
    )


def _trial_number(numbers: Sequence[tuple[int, ...]]) -> CompatibilityCheck:
    differ = sum(before != now for before, now in numbers)
    was, is_now = (_range([pair[side] for pair in numbers]) for side in (0, 1))
    return CompatibilityCheck(
        name="trial_count_match",
        passed=not differ,
        enforced=False,
        message=f"{differ} {verb(differ, 'case has', 'cases have')} another number of trials ({was} in "
        f"the baseline, {is_now} now), which changes what it takes to pass; pass rates can be compared"
        if differ
        else "same number of trials",
        details={"baseline_trials": was, "candidate_trials": is_now, "changed_count": differ},
    )


def _range(numbers: Sequence[int]) -> str:
    fewest, most = min(numbers), max(numbers)
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"
