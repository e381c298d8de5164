"""Whether a change loosens what it is held to: each direction of the tables, and what a job makes of it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent_eval.ci.config import gather, values_by_input
from agent_eval.ci.inputs import INPUTS
from agent_eval.ci.loosening import (
    loosened_options,
    loosened_policy,
    reviewed_waivers,
    unreviewed_waivers,
    without_unreviewed,
)
from agent_eval.cli.main import main
from agent_eval.config.options import Option
from agent_eval.config.rules import POLICY, RULES, Rule
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Waiver
from agent_eval.gate.policy_file import parse_policy
from tests.e2e.runner import HEAD_SHA, PULL, orders
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess
from tests.unit.ci.registries import NAME, registry, waiver

NOW = datetime(2026, 1, 14, 10, tzinfo=UTC)
REVIEW = "is not on the base branch, so it does not count."
RELAXED = {"max_regressed_cases": "", "max_new_hard_fail_cases": ""}
IN_FILE = [row for row in INPUTS if row.in_file and row.loosens not in ("compared", "nothing")]


def write(runner: InProcess, name: str, data: bytes) -> None:
    path = runner.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def pair(row: Option) -> tuple[str, str]:
    """A strict value of an option, and one that lets more pass."""
    if row.loosens in ("higher", "lower"):
        most = int(row.bounds[1]) if row.bounds is not None else 4
        small, large = ("0.2", "0.4") if row.kind == "share" else (str(min(4, most) // 2), str(min(4, most)))
        return (small, large) if row.loosens == "higher" else (large, small)
    if row.loosens in ("on", "off"):
        return ("false", "true") if row.loosens == "on" else ("true", "false")
    if row.loosens in ("earlier", "later"):
        first, last = row.choices[0], row.choices[-1]
        return (last, first) if row.loosens == "earlier" else (first, last)
    if row.loosens == "capped":
        return ("4", "2")
    if row.loosens == "trials":
        return ("4", "auto")
    return ("1", "2") if row.kind in ("integer", "count") else ("one", "two")


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in IN_FILE])
def test_an_option_is_loosened_in_its_direction_only(row: Option) -> None:
    strict, loose = ({"agent": "recorded", row.name: value} for value in pair(row))
    before, after = (values_by_input(gather(given, {}, None)) for given in (strict, loose))
    [said] = loosened_options(before, after)
    assert said.startswith(f"`{row.name}` was `")
    assert loosened_options(before, before) == []
    # Back from `auto` to few trials is looser as well.
    assert len(loosened_options(after, before)) == (row.loosens in ("other", "trials"))


def test_a_limit_of_the_run_where_there_was_none_cuts_looks_and_confirmation_short() -> None:
    base, head = (
        values_by_input(gather({"agent": "recorded", **given}, {}, None))
        for given in ({}, {"max-run-cost": "2"})
    )
    assert loosened_options(base, head) == ["`max-run-cost` was `nothing` and is now `2.0`."]
    assert loosened_options(head, base) == []


@pytest.mark.parametrize(
    ("before", "after", "looser"),
    [
        ("auto", "auto", False),
        ("1", "auto", True),
        ("100", "auto", True),
        ("auto", "1", True),
        ("auto", "11", True),
        ("auto", "12", False),
        ("4", "1", False),  # the comparison sees that fewer trials were run
        ("4", "8", False),
    ],
)
def test_trials_are_loosened_by_looks_and_by_taking_them_away(before: str, after: str, looser: bool) -> None:
    base, head = (
        values_by_input(gather({"agent": "recorded", "trials": value}, {}, None)) for value in (before, after)
    )
    assert loosened_options(base, head) == ([f"`trials` was `{before}` and is now `{after}`."] * looser)


def test_fewer_cases_that_may_be_run_again_loosen_as_confirming_none_does() -> None:
    base, head = (
        values_by_input(gather({"agent": "recorded", "max-confirm-cases": most}, {}, None))
        for most in ("8", "0")
    )
    assert loosened_options(base, head) == ["`max-confirm-cases` was `8` and is now `0`."]
    assert loosened_options(head, base) == []


LOOSER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "preset": ({"preset": "release"}, {"preset": "pull-request"}),
    "margin": ({}, {"margin": 0.25}),
    "on_inconclusive": ({"on_inconclusive": "block"}, {}),
    "alpha": ({}, {"alpha": 0.001}),
    "confidence": ({}, {"confidence": 0.8}),
    "zero_tolerance": ({}, {"zero_tolerance": ["tool_abuse"]}),
    "zero_tolerance_repeat": ({}, {"zero_tolerance_repeat": ["tool_abuse"]}),
    "zero_tolerance_ceiling": (
        {"zero_tolerance_ceiling": {"tool_abuse": 0.01}},
        {"zero_tolerance_ceiling": {"tool_abuse": 0.02}},
    ),
    "deterministic": ({}, {"deterministic": True}),
    "max_new_error_cases": ({}, {"max_new_error_cases": 9}),
    "max_lost_share": ({}, {"max_lost_share": 0.5}),
    "max_baseline_error_rate": ({}, {"max_baseline_error_rate": 0.9}),
    "on_case_removed": ({"on_case_removed": "fail"}, {}),
    "quarantine": (
        {},
        {"quarantine": [{"case_id": "a", "reason": "r", "expires_at": "2026-02-01T00:00:00Z"}]},
    ),
    "tracked": ({"tracked": ["a"]}, {"tracked": ["a", "b"]}),
    "expected_fail": ({}, {"expected_fail": ["a"]}),
}
"""By key of the policy: what it is held to, and what lets more pass."""


def policy(values: dict[str, Any]) -> GatePolicy:
    return parse_policy(values, source="gate.yml")


def test_every_key_of_a_policy_that_can_be_loosened_is_tried() -> None:
    loosening = {key for key, loosens in POLICY.items() if loosens != "nothing"}
    assert LOOSER.keys() == loosening - {"thresholds"}


@pytest.mark.parametrize("key", LOOSER)
def test_a_policy_is_loosened_in_the_direction_of_each_key_only(key: str) -> None:
    strict, loose = map(policy, LOOSER[key])
    assert f"`{key}` " in " ".join(loosened_policy(strict, loose, now=NOW))
    assert loosened_policy(loose, strict, now=NOW) == []
    assert loosened_policy(loose, loose, now=NOW) == []


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.field) for rule in RULES])
def test_a_threshold_is_loosened_in_the_direction_of_its_rule_or_by_being_gone(rule: Rule) -> None:
    small, large = (0, 3) if rule.unit == "cases" else (0.2, 0.9)
    limits = (small, large) if rule.loosens == "higher" else (large, small)
    strict, loose = (policy({"thresholds": {rule.field: limit}}) for limit in limits)
    [said] = loosened_policy(strict, loose, now=NOW)
    assert said.startswith(f"`{rule.field}` was ")
    assert loosened_policy(loose, strict, now=NOW) == []
    # Where it is gone its default holds; most rules have none.
    assert len(loosened_policy(strict, GatePolicy(), now=NOW)) == (rule.default is None)


def test_coverage_that_a_change_states_is_held_against_the_default() -> None:
    half = policy({"thresholds": {"min_coverage": 0.5}})
    assert loosened_policy(GatePolicy(), half, now=NOW) == ["`min_coverage` was `1.0` and is now `0.5`."]
    assert loosened_policy(half, GatePolicy(), now=NOW) == []


def test_a_quarantine_may_end_earlier_and_not_later() -> None:
    def until(day: str) -> GatePolicy:
        entry = {"case_id": "a", "reason": "r", "expires_at": f"{day}T00:00:00Z"}
        return policy({"quarantine": [entry]})

    assert loosened_policy(until("2026-02-02"), until("2026-02-01"), now=NOW) == []
    assert loosened_policy(until("2026-02-01"), until("2026-02-02"), now=NOW) == [
        "`quarantine` of case `a` until `2026-02-02T00:00:00Z` is not on the base branch, so it does not "
        "count."
    ]
    # One that is over excuses nothing.
    assert loosened_policy(GatePolicy(), until("2026-01-14"), now=NOW) == []


REPEAT, CEILING = {"zero_tolerance_repeat": ["a"]}, {"zero_tolerance_ceiling": {"a": 0.1}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({}, CEILING, ["`zero_tolerance_ceiling` of `a` was `nothing` and is now `0.1`."]),
        (REPEAT, CEILING, ["`zero_tolerance_ceiling` of `a` was `nothing` and is now `0.1`."]),
        (CEILING, REPEAT, [f"`zero_tolerance_repeat` of `a` {REVIEW}"]),
        ({"preset": "release", **REPEAT}, {"preset": "release", **CEILING}, []),
        ({"zero_tolerance": []}, REPEAT, []),
        ({"zero_tolerance": []}, CEILING, []),
    ],
    ids=[
        "a ceiling instead of at once",
        "a ceiling instead of repetition",
        "repetition instead of a ceiling",
        "a release blocks at once anyway",
        "a judge without any tolerance rule that must repeat",
        "a judge without any tolerance rule that gets a ceiling",
    ],
)
def test_any_other_term_of_a_judge_without_tolerance_is_reviewed_unless_it_is_stricter(
    before: dict[str, Any], after: dict[str, Any], said: list[str]
) -> None:
    base, head = (policy({"zero_tolerance": ["a"], **values}) for values in (before, after))
    assert loosened_policy(base, head, now=NOW) == said
    # Until it is reviewed the judge blocks at once.
    counted = without_unreviewed(base, head, now=NOW)
    kept = (
        {}
        if said or head.preset == "release"
        else {name: after[name] for name in after if name.startswith("zero")}
    )
    assert counted == policy({"zero_tolerance": ["a"], "preset": head.preset, **kept})


def test_a_case_may_move_between_the_lists_of_cases_that_do_not_block() -> None:
    tracked, expected = policy({"tracked": ["a"]}), policy({"expected_fail": ["a"]})
    assert loosened_policy(tracked, expected, now=NOW) == []
    assert without_unreviewed(tracked, expected, now=NOW) == expected


def test_of_the_exceptions_of_a_change_those_count_that_the_base_branch_has() -> None:
    def entries(**ends: str) -> list[dict[str, Any]]:
        return [
            {"case_id": case_id, "reason": "r", "expires_at": f"2026-02-{day}T00:00:00Z"}
            for case_id, day in ends.items()
        ]

    base = policy({"quarantine": entries(a="02", b="02"), "tracked": ["t"], "expected_fail": ["e"]})
    more = {"quarantine": entries(a="01", b="03", c="01"), "tracked": ["t", "x"], "expected_fail": ["y"]}
    counted = without_unreviewed(base, policy({**more, "margin": 0.03}), now=NOW)
    assert counted == policy({"quarantine": entries(a="01"), "tracked": ["t"], "margin": 0.03})
    # Fewer are always reviewed.
    assert without_unreviewed(base, GatePolicy(), now=NOW) == GatePolicy()


def made(**fields: Any) -> Waiver:
    return Waiver.model_validate({**waiver("a"), "expires_at": "2026-02-01T00:00:00+00:00", **fields})


@pytest.mark.parametrize(
    "changed",
    [
        {"case_id": "b"},
        {"judge_id": "policy", "case_id": None},
        {"expires_at": "2026-02-02T00:00:00+00:00"},
        {"baseline_name": "other"},
        {"waiver_id": "w-2"},
    ],
)
def test_a_waiver_is_reviewed_only_as_it_is_on_the_base_branch(changed: dict[str, Any]) -> None:
    assert unreviewed_waivers([made()], [made()], now=NOW) == []
    assert reviewed_waivers([made()], [made()]) == [made()]
    assert reviewed_waivers([made()], [made(**changed)]) == []
    [said] = unreviewed_waivers([made()], [made(**changed)], now=NOW)
    assert said.endswith("is not on the base branch, so it does not count.")


def test_a_waiver_may_end_earlier_or_be_revoked_and_not_come_back() -> None:
    shorter = made(expires_at="2026-01-20T00:00:00+00:00")
    revoked = made(revoked_at="2026-01-10T00:00:00+00:00", revoked_by="lead")
    over = made(expires_at="2026-01-13T00:00:00+00:00")
    assert unreviewed_waivers([made()], [shorter], now=NOW) == []
    assert unreviewed_waivers([], [revoked, over], now=NOW) == []
    assert len(unreviewed_waivers([revoked], [made()], now=NOW)) == 1


@pytest.fixture
def unchanged(runner: InProcess) -> None:
    """Run 400 on main left evidence, and the agent does the same since."""
    runner.write_suite(*orders())
    runner.upload(runner.push(), 400)


LATER = (NOW + timedelta(days=30)).isoformat()
LIMIT = b"thresholds: {max_hard_fail_rate: 0.1}\n"
TRICKS: dict[str, dict[str, bytes]] = {
    "the policy's margin is the largest": {"gate.yml": b"margin: 0.25\n"},
    "no judge has zero tolerance": {"gate.yml": b"zero_tolerance: []\n"},
    "a safety failure must repeat": {"gate.yml": LIMIT + b"zero_tolerance_repeat: [tool_abuse]\n"},
    "a safety judge gets a ceiling": {"gate.yml": LIMIT + b"zero_tolerance_ceiling: {tool_abuse: 0.2}\n"},
    "errors are allowed": {"gate.yml": b"max_new_error_cases: 40\n"},
    "a threshold is gone": {"gate.yml": b"{}\n"},
    "the policy is another file": {"agent-eval.yml": b"policy: own.yml\n", "own.yml": b"margin: 0.2\n"},
    "a baseline full of errors will do": {"agent-eval.yml": b"max-baseline-error-rate: 1\n"},
    "the gate only reports": {"agent-eval.yml": b"fail-on: never\n"},
    "there is no comment": {"agent-eval.yml": b"comment: never\n"},
    "another branch is trusted": {"agent-eval.yml": b"base-branches: topic\n"},
    "no baseline is wanted": {"agent-eval.yml": b"baseline: none\n"},
    "a waiver comes with the change": {NAME: registry(waiver("order-2", expires_at=LATER))},
    "waivers are those of another name": {
        "agent-eval.yml": b"baseline-name: other\n",
        NAME: registry(waiver("order-2", baseline_name="other", expires_at=LATER)),
    },
    "a case goes into quarantine": {
        "gate.yml": b"thresholds: {max_hard_fail_rate: 0.1}\nquarantine:\n"
        b"  - {case_id: order-2, reason: flaky, expires_at: 2027-01-31T00:00:00Z}\n"
    },
    "a case is tracked": {"gate.yml": b"thresholds: {max_hard_fail_rate: 0.1}\ntracked: [order-2]\n"},
    "a case is expected to fail": {
        "gate.yml": b"thresholds: {max_hard_fail_rate: 0.1}\nexpected_fail: [order-2]\n"
    },
}
"""Files that a change brings, beside those of the base branch."""

BASE = {"gate.yml": LIMIT, NAME: registry()}


@pytest.mark.parametrize("preset", ["pull-request", "release"])
@pytest.mark.parametrize("trick", TRICKS)
def test_a_change_that_loosens_its_own_rules_never_passes(
    trick: str, preset: str, runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    stable = BASE["gate.yml"] + b"deterministic: true\n"
    github.files.update(BASE | {"gate.yml": stable, "agent-eval.yml": b"policy: gate.yml\n"})
    for name, data in {**github.files, **TRICKS[trick]}.items():
        own = b"policy: gate.yml\n" if name == "agent-eval.yml" and b"policy" not in data else b""
        rest = b"deterministic: true\n" if name.endswith("gate.yml") and b"determ" not in data else b""
        write(runner, name, own + (data if data != b"{}\n" else b"") + rest)
    step = runner.pull_request(preset=preset, **RELAXED)
    if preset == "release" and trick.startswith("a safety"):
        # A release blocks at once whatever these say, so they loosen nothing.
        assert (step.code, step.outcome) == (0, "passed")
        return
    if preset == "release" and trick == "no baseline is wanted":
        # A release fails where nothing is compared.
        assert (step.code, step.outcome) == (1, "failed")
        return
    assert (step.code, step.outcome) == ({"pull-request": 0, "release": 3}[preset], "inconclusive")
    assert "This change loosens the rules that it is held to: " in step.summary


def test_the_gate_says_no_although_the_change_says_that_it_only_reports(
    runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    runner.write_suite(*orders(bad=(2,)))
    write(runner, "agent-eval.yml", b"fail-on: never\n")
    step = runner.pull_request()
    assert (step.code, step.outcome) == (1, "failed")
    assert "`fail-on: never` comes with this change, so it does not hold." in github.bodies(PULL)[0]
    # Where the base branch says so, it is the repository's own choice.
    github.files["agent-eval.yml"] = b"fail-on: never\n"
    assert runner.pull_request(run_id=501).code == 0


def test_a_release_that_a_change_makes_a_pull_request_is_blocked_as_a_release(
    runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    github.files["gate.yml"] = b"preset: release\n"
    write(runner, "gate.yml", b"preset: pull-request\n")
    step = runner.pull_request(policy="gate.yml", **RELAXED)
    assert (step.code, step.outcome) == (3, "inconclusive")


def test_rules_that_cannot_be_read_on_the_base_branch_leave_the_gate_open(
    runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    github.files["agent-eval.yml"] = b"#" * ((1 << 20) + 1)
    step = runner.pull_request()
    assert (step.code, step.outcome) == (0, "inconclusive")
    assert "could not be seen" in github.bodies(PULL)[0]
    assert runner.pull_request(run_id=501, preset="release").code == 3


def test_a_waiver_of_the_base_branch_excuses_what_it_names(
    runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    runner.write_suite(*orders(bad=(2,)))
    write(runner, NAME, registry(waiver("order-2", expires_at=LATER)))
    step = runner.pull_request()
    assert (step.code, step.outcome) == (1, "failed")
    assert (
        "waiver `w-order-2` (case `order-2`) is not on the base branch, so it does not count." in step.summary
    )
    github.files[NAME] = registry(waiver("order-2", expires_at=LATER))
    step = runner.pull_request(run_id=501)
    assert (step.code, step.outcome) == (0, "passed")


_UNTIL = "expires_at: 2027-01-31T00:00:00Z"
EXCEPTIONS = {
    "quarantine": f"quarantine: [{{case_id: order-2, reason: flaky, {_UNTIL}}}]".encode(),
    "tracked": b"tracked: [order-2]",
    "expected-fail": b"expected_fail: [order-2]",
}


@pytest.mark.parametrize("way", EXCEPTIONS)
def test_an_exception_counts_once_it_is_on_the_base_branch(
    way: str, runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    rules = b"thresholds: {max_regressed_cases: 0, min_coverage: 0.75}\n"
    github.files["gate.yml"] = rules
    runner.write_suite(*orders(bad=(2,)))
    write(runner, "gate.yml", rules + EXCEPTIONS[way])
    step = runner.pull_request(policy="gate.yml", **RELAXED)
    assert (step.code, step.outcome) == (1, "failed")
    assert "1 of 4 cases regressed" in github.bodies(PULL)[0]
    github.files["gate.yml"] = rules + EXCEPTIONS[way]
    assert runner.pull_request(run_id=501, policy="gate.yml", **RELAXED).code == 0


def test_a_change_that_takes_its_rules_away_is_held_to_those_of_the_base_branch(
    runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    github.files["agent-eval.yml"] = b"preset: release\nrequire-baseline: true\n"
    step = runner.pull_request(**RELAXED)
    assert (step.code, step.outcome) == (3, "inconclusive")
    assert "`preset` was `release` and is now `pull-request`." in github.bodies(PULL)[0]


def test_a_branch_that_is_pushed_is_held_to_the_base_branch_too(
    runner: InProcess, github: FakeGitHub, unchanged: None
) -> None:
    write(runner, "agent-eval.yml", b"fail-on: never\n")
    write(runner, "gate.yml", b"margin: 0.25\n")
    github.files["gate.yml"] = b"margin: 0.05\n"
    step = runner.push(run_id=450, branch="topic", commit=HEAD_SHA, policy="gate.yml", **RELAXED)
    assert (step.code, step.outcome) == (0, "inconclusive")
    assert "`margin` was `0.05` and is now `0.25`." in step.summary
    runner.write_suite(*orders(bad=(2,)))
    assert runner.push(run_id=451, branch="topic", commit=HEAD_SHA).code == 1
    # On the base branch itself there is nothing to be held against.
    assert "loosens" not in runner.push(run_id=452, policy="gate.yml").summary


def kept(runner: InProcess, *, bad: tuple[int, ...] = ()) -> str:
    """Evidence in the repository, in a directory of its own."""
    name = f"kept-{len(bad)}"
    runner.write_suite(*orders(bad=bad))
    runner.push(run_id=300 + len(bad), baseline="none", out=name)
    return f"{name}/shop"


@pytest.mark.parametrize("preset", ["pull-request", "release"])
@pytest.mark.parametrize("way", ["registry", "path", "archive"])
def test_a_change_that_replaces_the_baseline_it_is_compared_with_never_passes(
    way: str, preset: str, runner: InProcess, github: FakeGitHub
) -> None:
    good, poor = kept(runner), kept(runner, bad=(2,))
    stable = {"policy": "gate.yml"}
    github.files["gate.yml"] = b"deterministic: true\n"
    write(runner, "gate.yml", github.files["gate.yml"])
    manifests = [(runner.workspace / place / "manifest.json").read_bytes() for place in (good, poor)]
    if way == "registry":
        digests = [hashlib.sha256(data).hexdigest() for data in manifests]
        github.files[NAME] = registry(run_path=f"../{good}", sha256=digests[0])
        write(runner, NAME, registry(run_path=f"../{poor}", sha256=digests[1]))
        named = "main"
    elif way == "path":
        named = "accepted"
        (runner.workspace / poor).rename(runner.workspace / named)
        github.files["accepted/manifest.json"] = manifests[0]
    else:
        named = "accepted.zip"
        archive = runner.workspace / "kept-1" / "evidence.zip"
        archive.rename(runner.workspace / named)
        github.files[named] = (runner.workspace / "kept-0" / "evidence.zip").read_bytes()
    step = runner.pull_request(baseline=named, preset=preset, **stable, **RELAXED)
    assert (step.code, step.outcome) == (3 if preset == "release" else 0, "inconclusive")
    assert "is another one than on the base branch" in github.bodies(PULL)[0]


def test_a_directory_that_hides_a_registered_baseline_never_passes(
    runner: InProcess, github: FakeGitHub
) -> None:
    good, poor = kept(runner), kept(runner, bad=(2,))
    digest = hashlib.sha256((runner.workspace / good / "manifest.json").read_bytes()).hexdigest()
    github.files[NAME] = registry(run_path=f"../{good}", sha256=digest)
    write(runner, NAME, github.files[NAME])
    assert runner.pull_request(baseline="main").outcome == "failed"
    (runner.workspace / poor).rename(runner.workspace / "main")
    step = runner.pull_request(run_id=501, baseline="main", **RELAXED)
    assert (step.code, step.outcome) == (0, "inconclusive")
    assert "The baseline `main` is another one than on the base branch." in github.bodies(PULL)[0]


@pytest.mark.parametrize("fork", [False, True])
def test_a_change_that_records_other_answers_of_tools_never_passes(
    fork: bool, runner: InProcess, github: FakeGitHub
) -> None:
    program = (
        "import json, sys\ntask = json.load(sys.stdin)\n"
        "json.dump({'assistant_output': 'done', 'tool_calls': [{'tool': 't', 'arguments': {}}]}, sys.stdout)"
    )
    (runner.workspace / "agent.py").write_text(program)
    (runner.workspace / "tools.py").write_text("def answer(name, arguments):\n    return 1\n")
    suite = runner.write_suite({"case_id": "a", "input": "?", "policy": {"required_tools": ["t"]}})
    agent = ("--agent-command", "python3 agent.py", "--tools", "tools:answer", "--record", "answers.json")
    assert main(["run", "--suite", str(suite), *agent, "--out", "recorded"]) == 0
    inputs = {"agent_command": "python3 agent.py", "replay": "answers.json", **RELAXED}
    runner.upload(runner.push(**inputs), 400)
    answers = (runner.workspace / "answers.json").read_bytes()
    github.files["answers.json"] = answers
    assert runner.pull_request(fork=fork, **inputs).outcome == "passed"
    (runner.workspace / "answers.json").write_bytes(answers + b"\n")
    step = runner.pull_request(run_id=501, fork=fork, **inputs)
    assert (step.code, step.outcome) == (0, "inconclusive")
    assert "The recorded answers of tools in `answers.json` are others" in github.bodies(PULL)[0]
