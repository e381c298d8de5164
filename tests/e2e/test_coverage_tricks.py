"""No trick on what is compared makes a broken agent pass: tricks times presets, at the command line.

In every table 12 of 40 cases are broken by the candidate (or as many as the trick needs), and something about
the suite, the judges, the policy, the registry or the comparison hides that.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from tests.extent import WHOLE_JOB
from tests.factories import make_case, make_suite

CASES, BROKEN = 40, 12
DELTA = "now/compare/baseline_delta.json"
PRESETS = pytest.mark.parametrize("preset", ["pull-request", "release"])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-01-14T10:00:00+00:00")
    return tmp_path


Cases = list[dict[str, Any]]


def answered(case_id: str, *, well: bool, **fields: Any) -> dict[str, Any]:
    """A case whose agent answers well, or with an apology and ten times the tokens."""
    case = make_case(case_id, output="done" if well else "sorry", **{"regex_patterns": ["done"], **fields})
    case["trace"][-1]["attributes"] = {"input_tokens": 1, "output_tokens": 90 if well else 900}
    return case


def cases(*, broken: int = 0, **fields: Any) -> Cases:
    return [answered(f"order-{n:02}", well=n >= broken, **fields) for n in range(CASES)]


def judged(name: str, suite: Cases, *flags: str, config: dict[str, Any] | None = None) -> None:
    """Judge a suite into the pack `name`."""
    Path(f"{name}.json").write_text(json.dumps(make_suite(*suite)))
    if config is not None:
        Path(f"{name}-judges.json").write_text(json.dumps(config))
        flags = (*flags, "--judge-config", f"{name}-judges.json")
    assert main(["run", "--suite", f"{name}.json", "--out", name, "--run-id", name, *flags]) == 0


def compared(*flags: str) -> int:
    return main(["compare", "--baseline", "before", "--candidate", "now", *flags])


def gated(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `gate`, and the decision; empty where it was refused."""
    capsys.readouterr()
    code = main(["gate", "--compare", DELTA, "--baseline", "before", *flags])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else {}


def in_ci(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """The exit code of `ci` on the suite `now.json` with the pack `before`, and everything it printed."""
    capsys.readouterr()
    code = main(["ci", "--suite", "now.json", "--baseline", "before", "--out", "ci", *flags])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def decided() -> dict[str, Any]:
    [found] = Path("ci").glob("*/compare/gate_decision.json")
    return dict(json.loads(found.read_text()))


def policy_file(**policy: Any) -> tuple[str, str]:
    """A policy by which no drop can hide behind chance, so that nothing but coverage stands in the way."""
    Path("gate.json").write_text(json.dumps({"deterministic": True, **policy}))
    return "--policy", "gate.json"


def by(preset: str) -> tuple[str, str]:
    return policy_file(preset=preset)


def refuse_a_pass(preset: str, code: int, decision: dict[str, Any]) -> None:
    assert decision.get("gate_status") != "passed"
    assert not decision.get("passed")
    if preset == "release":
        assert code != 0
    if decision and decision["gate_status"] == "inconclusive":
        # What was lost is said in the first line.
        assert decision["steps"][0]["status"] == "inconclusive"
        assert " of what the baseline judged is compared: " in decision["explanation"][0]


def touched(suite: Cases) -> Cases:
    return [{**case, "input": f"{case['input']} Please."} for case in suite]


def eased(suite: Cases) -> Cases:
    return [{**case, "regex_patterns": []} for case in suite]


SUITES: dict[str, Callable[[Cases], Cases]] = {
    "every definition is touched": touched,
    "every expectation is dropped": lambda suite: [{**case, "regex_patterns": ["."]} for case in suite],
    "the failing cases are touched": lambda suite: touched(suite[:BROKEN]) + suite[BROKEN:],
    "the failing cases expect less": lambda suite: eased(suite[:BROKEN]) + suite[BROKEN:],
    "the failing cases are renamed": lambda suite: (
        [{**case, "case_id": f"new-{case['case_id']}"} for case in eased(suite[:BROKEN])] + suite[BROKEN:]
    ),
    "the failing cases are deleted": lambda suite: suite[BROKEN:],
    "one case is left": lambda suite: suite[-1:],
}


@PRESETS
@pytest.mark.parametrize("trick", SUITES)
def test_a_suite_that_asks_less(trick: str, preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", cases())
    judged("now", SUITES[trick](cases(broken=BROKEN)))
    code, said = in_ci(capsys, *by(preset))
    assert "Outcome: passed" not in said
    refuse_a_pass(preset, code, decided())
    for flags in ((), ("--allow-incompatible",)):
        assert compared(*flags) == 0
        refuse_a_pass(preset, *gated(capsys, *by(preset)))
        # Thresholds alone have the same floor.
        code, decision = gated(capsys, "--max-regressed-cases", "0", "--max-pass-rate-drop", "0")
        assert (code, decision["gate_status"]) == (1, "failed")


@PRESETS
@pytest.mark.parametrize("way", ["compare", "ci"])
@pytest.mark.parametrize(
    ("judges", "config"),
    [
        (("cost_budget",), {"cost_budget": {"max_output_tokens": 10_000, "hard": True}}),
        (("cost_budget", "policy"), {"cost_budget": {}}),
        (("policy",), {}),
    ],
    ids=["a limit is loosened", "a limit is taken away", "the failing judge is dropped"],
)
def test_judges_that_ask_less(
    judges: tuple[str, ...], config: dict[str, Any], way: str, preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    strict = {"cost_budget": {"max_output_tokens": 100, "hard": True}}
    rules = {"policy": {"forbidden_tools": ["escalate"]}}
    judged("before", cases(**rules), "--judge", "cost_budget", "--judge", "policy", config=strict)
    flags = [word for judge in judges for word in ("--judge", judge)]
    judged("now", cases(broken=BROKEN, **rules), *flags, config=config)
    if way == "ci":
        code, _ = in_ci(capsys, *by(preset), *flags, "--judge-config", "now-judges.json")
        refuse_a_pass(preset, code, decided())
        return
    assert compared() == 0
    refuse_a_pass(preset, *gated(capsys, *by(preset)))


def with_trials(suite: Cases, others: Cases) -> Cases:
    """Cases with three further trials."""
    return [
        {**case, "trials": [{"trace": other["trace"]}] * 3} for case, other in zip(suite, others, strict=True)
    ]


@PRESETS
def test_one_chosen_trial_of_four(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", with_trials(cases(), cases()))
    # The agent fails three trials of four in the broken cases; the one that passes is kept.
    judged("now", cases())
    code, _ = in_ci(capsys, *by(preset))
    refuse_a_pass(preset, code, decided())
    assert compared() == 0
    refuse_a_pass(preset, *gated(capsys, *by(preset)))


@PRESETS
@pytest.mark.parametrize("way", ["compare", "ci"])
def test_a_policy_of_one_trial_that_passes(preset: str, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", with_trials(cases(), cases()))
    judged("now", with_trials(cases(), cases(broken=BROKEN)), "--case-policy", "any")
    if way == "ci":
        code, _ = in_ci(capsys, *by(preset), "--case-policy", "any")
        refuse_a_pass(preset, code, decided())
        return
    for allowed in ((), ("--allow-incompatible",)):
        assert compared(*allowed) == 0
        refuse_a_pass(preset, *gated(capsys, *by(preset)))


@PRESETS
def test_a_baseline_that_errored_on_the_failing_cases(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # Without a count of tokens, the budget cannot be judged.
    broken_before = cases()
    for case in broken_before[:7]:
        del case["trace"][-1]["attributes"]
    flags = ("--judge", "cost_budget")
    strict = {"cost_budget": {"max_output_tokens": 100, "hard": True}}
    judged("before", broken_before, *flags, config=strict)
    judged("now", cases(broken=7), *flags, config=strict)
    code, _ = in_ci(capsys, *by(preset), *flags, "--judge-config", "now-judges.json")
    refuse_a_pass(preset, code, decided())
    assert compared() == 0
    refuse_a_pass(preset, *gated(capsys, *by(preset)))


def regressed() -> None:
    judged("before", cases())
    judged("now", cases(broken=BROKEN))
    assert compared() == 0


@PRESETS
@pytest.mark.parametrize("way", ["compare", "ci"])
def test_an_agent_that_does_nothing_where_a_judge_would_look(
    way: str, preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--judge", "tool_abuse", "--judge", "regex")
    judged("before", cases(), *flags)
    lazy = [make_case(f"order-{n:02}", output="done", regex_patterns=["done"]) for n in range(BROKEN)]
    for case in lazy:
        # No tool is called; the answer is what the pattern asks for.
        case["trace"] = [{**case["trace"][-1], "idx": 0}]
    judged("now", lazy + cases()[BROKEN:], *flags)
    if way == "ci":
        code, _ = in_ci(capsys, *by(preset), *flags)
        refuse_a_pass(preset, code, decided())
        return
    assert compared() == 0
    refuse_a_pass(preset, *gated(capsys, *by(preset)))


AGENT = """
import json, sys
task = json.load(sys.stdin)
knows = task.get("expected_output") if {shared} else {repaired} and task["mode"] == "repair"
print(json.dumps({{"output": "done" if knows or {good} else "sorry"}}))
"""


def ran(name: str, *flags: str, shared: bool = False, repaired: bool = False) -> None:
    """Run a program over the suite `asked.json`; it answers well only with the help that is named, if any."""
    good = not (shared or repaired)
    Path(f"{name}.py").write_text(AGENT.format(shared=shared, repaired=repaired, good=good))
    command = ("run", "--suite", "asked.json", "--agent-command", f"{sys.executable} {name}.py")
    assert main([*command, "--judge", "regex", "--out", name, "--run-id", name, *flags]) == 0


@PRESETS
@pytest.mark.parametrize("help_", ["the expected output", "repairs"])
def test_an_agent_that_is_helped(help_: str, preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [
        {"case_id": f"order-{n}", "input": "?", "expected_output": "done", "regex_patterns": ["done"]}
        for n in range(4)
    ]
    Path("asked.json").write_text(json.dumps(make_suite(*asked)))
    ran("before")
    if help_ == "repairs":
        ran("now", "--max-repairs", "1", repaired=True)
    else:
        ran("now", "--share-expected-output", shared=True)
    assert compared() == 0
    code, decision = gated(capsys, *by(preset))
    refuse_a_pass(preset, code, decision)
    assert "the agent was helped in 4 cases" in " ".join(decision["explanation"])
    notices = json.loads(Path(DELTA).read_text())["behaviour"]["notices"]
    assert notices[0].startswith("The agent ran under other conditions: ")


PROGRAM = """
import json, sys
case = json.load(sys.stdin)
print(json.dumps({{"passed": {passes}, "reason": "as it is"}}))
"""
PLUG_IN = """
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge

class Strict(BaseJudge):
    judge_id = "answer_is_done"

    def evaluate(self, case, trace):
        return self.passed(case, "yes") if {passes} else self.failed(case, "no", FailureKind.POLICY_VIOLATION)
"""


@PRESETS
@pytest.mark.parametrize("way", ["compare", "ci"])
@pytest.mark.parametrize("kind", ["a program", "a program in a shell", "a plug-in"])
@WHOLE_JOB
def test_a_judge_whose_code_comes_with_the_change(
    kind: str, way: str, preset: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path.cwd()))
    command = (
        ["sh", "-c", f"{sys.executable} -S check.py"] if "shell" in kind else [sys.executable, "check.py"]
    )
    flags = ("--judge", "strict_judge:Strict") if kind == "a plug-in" else ("--judge", "command")
    config = None if kind == "a plug-in" else {"command": {"command": command}}

    def judging(honestly: bool) -> None:
        program = 'case["final_output"] == "done"' if honestly else "True"
        plug_in = "trace.final_output == 'done'" if honestly else "True"
        Path("check.py").write_text(PROGRAM.format(passes=program))
        Path("strict_judge.py").write_text(PLUG_IN.format(passes=plug_in))
        sys.modules.pop("strict_judge", None)
        importlib.invalidate_caches()

    judging(True)
    judged("before", cases()[:14], *flags, config=config)
    judging(False)
    judged("now", cases(broken=BROKEN)[:14], *flags, config=config)
    if way == "ci":
        more = ("--judge-config", "now-judges.json") if config else ()
        code, _ = in_ci(capsys, *by(preset), *flags, *more)
        refuse_a_pass(preset, code, decided())
        return
    assert compared() == 0
    refuse_a_pass(preset, *gated(capsys, *by(preset)))


@PRESETS
def test_a_waiver_of_a_whole_judge(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    regressed()
    promote = ("registry", "baseline-set", "--name", "main", "--run", "before")
    waive = ("registry", "waiver-add", "--baseline-name", "main", "--judge-id", "regex")
    assert main([*promote]) == 0
    assert main([*waive, "--approved-by", "ada", "--reason", "noise"]) == 0
    flags = (*by(preset), "--apply-waivers", "--baseline-name", "main")
    refuse_a_pass(preset, *gated(capsys, *flags))


@PRESETS
@pytest.mark.parametrize("number", [BROKEN, CASES])
def test_a_quarantine_of_what_is_broken(number: int, preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    regressed()
    apart = [{"case_id": f"order-{n:02}", "reason": "flaky"} for n in range(number)]
    endless = policy_file(preset=preset, quarantine=apart)
    assert gated(capsys, *endless) == (2, {})
    assert in_ci(capsys, *endless)[0] == 2
    with_end = [{**entry, "expires_at": "2026-02-01T00:00:00+00:00"} for entry in apart]
    flags = policy_file(preset=preset, quarantine=with_end)
    refuse_a_pass(preset, *gated(capsys, *flags))
    code, _ = in_ci(capsys, *flags)
    refuse_a_pass(preset, code, decided())
    # What is apart falsifies no figure.
    evidence = decided()["evidence"]
    assert (evidence["drop"], evidence["compared"]) == (0, CASES - number)


@PRESETS
@pytest.mark.parametrize(
    "policy", [{"margin": 0.99}, {"margin": 0.99, "alpha": 1e-9}, {"margin": 0.3, "confidence": 0.5}]
)
def test_a_policy_that_allows_anything(
    policy: dict[str, Any], preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judged("before", cases())
    judged("now", cases(broken=4))
    assert compared() == 0
    flags = policy_file(preset=preset, **policy)
    refuse_a_pass(preset, *gated(capsys, *flags))
    code, said = in_ci(capsys, *flags)
    assert code == 2
    assert "passed" not in said


@PRESETS
@pytest.mark.parametrize("where", ["the policy", "a flag"])
def test_a_policy_that_only_warns(preset: str, where: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", cases())
    judged("now", cases(broken=1))
    assert compared() == 0
    stated = {"preset": preset} if where == "the policy" else {}
    flags = (*policy_file(on_inconclusive="warn", **stated), *(("--preset", preset) if not stated else ()))
    code, decision = gated(capsys, *flags)
    assert (code, decision["gate_status"]) == (3 if preset == "release" else 0, "inconclusive")
    code, _ = in_ci(capsys, *flags)
    assert (code, decided()["gate_status"]) == (3 if preset == "release" else 0, "inconclusive")


@PRESETS
def test_a_misspelt_judge_with_zero_tolerance(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", cases())
    judged("now", cases())
    assert compared() == 0
    flags = policy_file(preset=preset, zero_tolerance=["promt_injection"])
    assert main(["gate", "--compare", DELTA, "--baseline", "before", *flags]) == 2
    assert "prompt_injection" in capsys.readouterr().err
    code, said = in_ci(capsys, *flags)
    assert code == 2
    assert "prompt_injection" in said


@PRESETS
def test_a_comparison_that_was_edited_by_hand(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", cases())
    judged("now", cases())
    assert compared("--out", "clean.json") == 0
    judged("now", cases(broken=BROKEN))
    assert compared("--out", "delta.json") == 0
    honest, forged = (json.loads(Path(name).read_text()) for name in ("delta.json", "clean.json"))
    # Every figure and list of the run without a regression, with the digests of the broken one.
    forged["candidate"]["manifest_sha256"] = honest["candidate"]["manifest_sha256"]
    Path("forged.json").write_text(json.dumps(forged))
    flags = ("--baseline", "before", "--candidate", "now", *by(preset))
    capsys.readouterr()
    assert main(["gate", "--compare", "delta.json", *flags]) == 1
    capsys.readouterr()
    assert main(["gate", "--compare", "forged.json", *flags]) == 2
    assert "does not follow" in capsys.readouterr().err
    # Without the packs nothing is decided either.
    assert main(["gate", "--compare", "forged.json", *by(preset)]) == 2


@PRESETS
def test_a_baseline_that_only_the_comparison_names(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", cases())
    judged("poor", cases(broken=BROKEN))
    judged("now", cases(broken=BROKEN))
    # The honest comparison is replaced by one with a baseline that was as poor.
    assert main(["compare", "--baseline", "poor", "--candidate", "now"]) == 0
    capsys.readouterr()
    code = main(["gate", "--compare", DELTA, *by(preset)])
    captured = capsys.readouterr()
    if preset == "release":
        assert (code, captured.out) == (2, "")
        assert f"a release is not decided on a baseline that only {DELTA} names" in captured.err
    else:
        assert json.loads(captured.out)["named_by_comparison"] == ["baseline"]
    # The name of the baseline in the registry, or a flag, pins it.
    assert main(["registry", "baseline-set", "--name", "main", "--run", "before"]) == 0
    assert gated(capsys, *by(preset)) == (2, {})
    assert compared() == 0
    capsys.readouterr()
    assert main(["gate", "--compare", DELTA, *by(preset)]) == 1
    assert json.loads(capsys.readouterr().out)["named_by_comparison"] == []


@PRESETS
def test_a_case_that_is_new_has_zero_tolerance_too(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--judge", "policy", "--judge", "regex")
    judged("before", cases(), *flags)
    extra = answered("extra", well=True, policy={"forbidden_tools": ["lookup"]})
    judged("now", [*cases(), extra], *flags)
    code, _ = in_ci(capsys, *flags, *policy_file(preset=preset, zero_tolerance=["policy"]))
    assert (code, decided()["gate_status"]) == (1, "failed")


@PRESETS
def test_an_unchanged_agent_passes_whatever_was_added(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The opposite of a trick: a judge is added, a limit drawn tighter, and nothing got worse."""
    lax = {"cost_budget": {"max_output_tokens": 10_000, "hard": True}}
    judged("before", cases(broken=BROKEN), "--judge", "cost_budget", config=lax)
    flags = ("--judge", "cost_budget", "--judge", "regex")
    judged("now", cases(broken=BROKEN), *flags, config={"cost_budget": {"max_output_tokens": 100}})
    stable = by(preset)
    code, said = in_ci(capsys, *flags, "--judge-config", "now-judges.json", *stable)
    assert (code, decided()["gate_status"]) == (0, "passed"), said


@PRESETS
def test_a_reviewed_waiver_lets_a_case_expect_something_else(
    preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is this: the answer to one case is meant to change, and a waiver names the case."""
    judged("before", cases())
    judged("now", eased(cases(broken=1))[:1] + cases()[1:])
    stable = by(preset)
    assert main(["registry", "baseline-set", "--name", "main", "--run", "before"]) == 0
    code, _ = in_ci(capsys, *stable)
    assert decided()["gate_status"] == ("failed" if preset == "release" else "inconclusive")
    waive = ("registry", "waiver-add", "--baseline-name", "main", "--case-id", "order-00")
    assert main([*waive, "--approved-by", "ada", "--reason", "the new wording is meant"]) == 0
    code, said = in_ci(capsys, *stable)
    assert (code, decided()["gate_status"]) == (0, "passed"), said


def in_git(*words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], check=True, capture_output=True
    )


@PRESETS
@pytest.mark.parametrize("own", ["fail-on: never", "comment: never", "policy: own.yml"])
def test_a_branch_that_loosens_its_rules_on_any_platform(
    own: str, preset: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judged("before", cases())
    judged("now", cases())
    Path("gate.json").write_text(json.dumps({"deterministic": True, "preset": preset}))
    in_git("init", "-q", "-b", "main")
    in_git("add", "gate.json")
    in_git("commit", "-q", "-m", "rules")
    in_git("checkout", "-q", "-b", "topic")
    Path("own.yml").write_text(f"{{deterministic: true, preset: {preset}, margin: 0.25}}")
    rest = "" if "policy" in own else "policy: gate.json\n"
    Path("agent-eval.yml").write_text(f"{own}\n{rest}")
    code, said = in_ci(capsys)
    assert "This change loosens the rules that it is held to: " in said
    assert decided()["gate_status"] == "inconclusive"
    assert code == (3 if preset == "release" else 0)
