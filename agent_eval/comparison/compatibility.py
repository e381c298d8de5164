"""Compatibility of two runs: conditions for comparing them, and the cases that may be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from agent_eval.comparison.facts import Outcomes, RunView, case_policies
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
from agent_eval.text.escape import cut
from agent_eval.text.numbers import verb

EXAMPLES = 20
"""Maximum case ids that a check names; it counts all of them."""
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


@dataclass(frozen=True)
class Partition:
    """Case ids of two runs, sorted into those in both, those of them that changed, new and removed ones."""

    common: list[str]
    changed: list[str]
    new: list[str]
    removed: list[str]


def partition(baseline: RunView, candidate: RunView) -> Partition:
    """Sort the case ids of both runs into common, changed (also common), new and removed."""
    old, new = baseline.index, candidate.index
    common = sorted(old.keys() & new.keys())
    return Partition(
        common=common,
        changed=[name for name in common if old[name]["definition_digest"] != new[name]["definition_digest"]],
        new=sorted(new.keys() - old.keys()),
        removed=sorted(old.keys() - new.keys()),
    )


def check(
    baseline: RunView,
    candidate: RunView,
    parts: Partition,
    outcomes: tuple[Outcomes, Outcomes],
    *,
    allow_incompatible: bool = False,
) -> Compatibility:
    """Check every condition for comparing two runs.

    Differences in case set, definitions and case policy are enforced only where all common cases are
    compared; else those cases are left out. Conditions on trials are checked where a case has several.
    """
    checks = [
        *_cases(baseline, candidate, parts, enforced=allow_incompatible),
        *_judges(baseline.config, candidate.config),
        *_execution(baseline.config, candidate.config),
        *_trials((baseline, candidate), parts.common, outcomes, enforced=allow_incompatible),
    ]
    return Compatibility(
        passed=all(condition.passed for condition in checks if condition.enforced),
        checks=checks,
        failures=[condition for condition in checks if not condition.passed],
    )


def _condition(
    name: str, same: str, differs: str | None, details: dict[str, Any], *, enforced: bool = False
) -> CompatibilityCheck:
    """Make a check; `differs` says what breaks the condition, None or empty where it holds."""
    message = differs or same
    return CompatibilityCheck(
        name=name, passed=not differs, enforced=enforced, message=message, details=details
    )


def _cases(
    baseline: RunView, candidate: RunView, parts: Partition, *, enforced: bool
) -> Iterator[CompatibilityCheck]:
    before, now = baseline.config.dataset_id, candidate.config.dataset_id
    details: dict[str, Any] = {"baseline_dataset_id": before, "candidate_dataset_id": now}
    differs = "the datasets differ" if before != now else None
    yield _condition("dataset_id_match", "same dataset", differs, details, enforced=True)
    new, removed, changed = len(parts.new), len(parts.removed), len(parts.changed)
    differs = f"{new} {verb(new, 'case is', 'cases are')} only in the candidate, "
    differs += f"{removed} only in the baseline"
    details = {
        "missing_in_baseline": parts.new[:EXAMPLES],
        "missing_in_baseline_count": new,
        "missing_in_candidate": parts.removed[:EXAMPLES],
        "missing_in_candidate_count": removed,
    }
    any_differ = differs if new or removed else None
    yield _condition("case_id_set_match", "same cases", any_differ, details, enforced=enforced)
    differs = f"{changed} {verb(changed, 'case is', 'cases are')} defined differently" if changed else None
    details = {"changed": parts.changed[:EXAMPLES], "changed_count": changed}
    same = "same definition of every common case"
    yield _condition("case_definition_match", same, differs, details, enforced=enforced)


def _judges(before: RunConfig, now: RunConfig) -> Iterator[CompatibilityCheck]:
    added = sorted(set(now.judges) - set(before.judges))
    dropped = sorted(set(before.judges) - set(now.judges))
    differs = [f"{', '.join(dropped)} judged only the baseline"] * bool(dropped)
    differs += [f"{', '.join(added)} judged only the candidate"] * bool(added)
    details = {"only_in_baseline": dropped, "only_in_candidate": added}
    yield _condition("judges_match", "same judges", "; ".join(differs), details)
    differ = _differ(before.judge_configs, now.judge_configs)
    # Runs of older versions do not record the code of their judges.
    old, new = (run.execution_config.judge_code or {} for run in (before, now))
    code = sorted(judge_id for judge_id, digested in old.items() if digested != new.get(judge_id, digested))
    differs = [f"{', '.join(differ)} configured differently"] * bool(differ)
    differs += [f"the code of {', '.join(code)} changed"] * bool(code)
    details = {"changed": sorted({*differ, *code})}
    yield _condition("judge_config_match", "same configuration of judges", "; ".join(differs), details)


def _execution(before: RunConfig, now: RunConfig) -> Iterator[CompatibilityCheck]:
    """Check that agents ran under the same conditions, with the same users.

    Recorded traces have no conditions but the help. How well a conversation goes depends on who plays the
    user, and how.
    """
    old, new = before.execution_config, now.execution_config
    differ = [name for name in _CONDITIONS if getattr(old, name) != getattr(new, name)]
    are_agents = old.agent is not None and new.agent is not None
    if differ and (are_agents or is_helped(before, now)):
        words = (_differing(_CONDITIONS[name], getattr(old, name), getattr(new, name)) for name in differ)
        message = f"the agent ran under other conditions: {'; '.join(words)}"
        yield _condition("execution_match", "", message, {"changed": differ})
    was, now_is = old.simulator, new.simulator
    if was is not None and now_is is not None:
        changed = _differ(was, now_is)
        words = (f"{key}: {was.get(key)} in the baseline, {now_is.get(key)} now" for key in changed)
        differs = f"users were played differently ({'; '.join(words)})" if changed else None
        details = {"changed": changed, "baseline": was, "candidate": now_is} if changed else {}
        yield _condition("simulated_user_match", "the same simulated users", differs, details, enforced=True)


def _differ(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    names = before.keys() | now.keys()
    return sorted(name for name in names if digest(before.get(name)) != digest(now.get(name)))


def is_helped(before: RunConfig, now: RunConfig) -> bool:
    """Tell whether a run's agent was given what the baseline's was not: the answers, or what judges said."""
    old, new = before.execution_config, now.execution_config
    is_shown = new.share_expected_output and not old.share_expected_output
    return is_shown or new.max_repairs > old.max_repairs


def _differing(words: str, before: Any, now: Any) -> str:
    if isinstance(before, Contract) and isinstance(now, Contract):
        pairs = {name: (getattr(before, name), getattr(now, name)) for name in type(now).model_fields}
        differ = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
        return "; ".join(_differing(f"{words}, {name}", *pair) for name, pair in differ.items())
    return f"{words} ({_stated(before)} in the baseline, {_stated(now)} now)"


def _stated(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:,.12g}" if isinstance(value, float) else cut(str(value), 80)


def _trials(
    runs: tuple[RunView, RunView],
    common: Sequence[str],
    outcomes: tuple[Outcomes, Outcomes],
    *,
    enforced: bool,
) -> Iterator[CompatibilityCheck]:
    """Check what only cases with several trials have: the case policy and the number of trials."""
    numbers = [[side[case_id].trials for case_id in common] for side in outcomes]
    if max(chain(*numbers), default=1) == 1:
        return
    # Row by row: the rows of a large run are built on access, and together would fill the memory.
    before, now = (case_policies(run.results[case_id] for case_id in common) for run in runs)
    differs = f"a case with several trials passed by case policy {', '.join(before)} and passes by "
    differs += f"{', '.join(now)} now"
    # A run of single trials has no policy that could differ.
    known = differs if before and now and before != now else None
    details: dict[str, Any] = {"baseline_case_policies": before, "candidate_case_policies": now}
    yield _condition("case_policy_match", "same case policy", known, details, enforced=enforced)
    changed = sum(was != is_now for was, is_now in zip(*numbers, strict=True))
    ranges = [(min(side), max(side)) for side in numbers]
    was, is_now = (f"{least}" if least == most else f"{least} to {most}" for least, most in ranges)
    differs = f"{changed} {verb(changed, 'case has', 'cases have')} another number of trials ({was} in "
    differs += f"the baseline, {is_now} now), which changes what it takes to pass; pass rates can be compared"
    details = {"baseline_trials": was, "candidate_trials": is_now, "changed_count": changed}
    yield _condition("trial_count_match", "same number of trials", differs if changed else None, details)


def select(
    compatibility: Compatibility,
    parts: Partition,
    baseline: Outcomes,
    *,
    allow_incompatible: bool = False,
    judged_twice: Iterable[str] = (),
) -> tuple[list[str], CaseSets]:
    """Select the ids to compare, sorted, and report the cases of either run that are not compared.

    Those of `judged_twice` can be compared although their definition changed.

    Raises:
        IncompatibleRuns: An enforced condition does not hold.
        NothingMeasured: The runs share no case, and all of them were to be compared.
    """
    broken = [condition for condition in compatibility.failures if condition.enforced]
    if broken and not allow_incompatible:
        raise IncompatibleRuns(
            f"baseline and candidate cannot be compared: {'; '.join(each.message for each in broken)}",
            remedy="Evaluate both on the same suite in the same way; or set --allow-incompatible.",
            checks=[{"name": each.name, "message": each.message, **each.details} for each in broken],
        )
    if allow_incompatible and not parts.common:
        raise NothingMeasured(
            "baseline and candidate share no case id, so there is nothing to compare",
            remedy="Compare runs of the same suite.",
        )
    twice = set(parts.changed).intersection(judged_twice)
    not_comparable = [case_id for case_id in parts.changed if case_id not in twice]
    left_out = set(() if allow_incompatible else not_comparable)
    compared = [case_id for case_id in parts.common if case_id not in left_out]
    sets = CaseSets(
        compared=len(compared),
        new=parts.new,
        changed=not_comparable,
        judged_twice=sorted(twice),
        removed=parts.removed,
        removed_failing=[case_id for case_id in parts.removed if not baseline[case_id].passed],
    )
    return compared, sets


def judge_ids(names: Iterable[str], named: Iterable[str], *seen: Iterable[str]) -> frozenset[str]:
    """Find the ids under which judges give verdicts.

    `names` are the judges that are wanted, as a run names them, out of all that it names (`named`); `seen`
    are ids of the judges that have given verdicts.
    """
    ids = frozenset(chain.from_iterable(seen))
    by_name = ids.intersection(names)
    if by_name.issuperset(names):
        return by_name
    # A plug-in that is named by its class has an id of its own, which no name says.
    return by_name | (ids - set(named) - {REPLAY_CONTRACT, EXECUTION})
