"""No trick on what is compared makes a broken agent pass: tricks times presets, at the command line.

In every table 12 of 40 cases are broken by the candidate (or as many as the trick needs), and something about
the suite, the judges, the policy, the registry or the comparison hides that.
"""

import json
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from tests.e2e.scenarios.repository import Repository, broken
from tests.extent import crossed
from tests.factories import make_case, make_event, make_suite

CASES, BROKEN = 40, 12
DELTA = "now/compare/baseline_delta.json"
BOTH = ("pull-request", "release")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", "2026-01-14T10:00:00+00:00")
    return tmp_path


@pytest.fixture(params=BOTH)
def preset(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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


def broke(number: int = BROKEN, **fields: Any) -> None:
    """Judge what passes and what is broken, and compare."""
    judged("before", cases(**fields))
    judged("now", cases(broken=number, **fields))
    assert compared() == 0


def gated(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `gate`, and the decision; empty where it was refused."""
    capsys.readouterr()
    code = main(["gate", "--compare", DELTA, "--baseline", "before", *flags, "--format", "json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else {}


def in_ci(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, str]:
    """The exit code of `ci` on the suite `now.json` with the pack `before`, and everything it printed."""
    capsys.readouterr()
    judges = [word for flag, word in pairwise(flags) if flag == "--judge"]
    stated = ["--set", f"judges={json.dumps(judges)}"] if judges else []
    rest = [word for before, word in pairwise(("", *flags)) if "--judge" not in (before, word)]
    code = main(["ci", "--suite", "now.json", "--baseline", "before", "--out", "ci", *stated, *rest])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def decided() -> dict[str, Any]:
    [found] = Path("ci").glob("*/compare/gate_decision.json")
    return dict(json.loads(found.read_text()))


def policy_file(**policy: Any) -> tuple[str, str]:
    """A policy by which no drop can hide behind chance, so that nothing but the trick stands in the way."""
    Path("gate.json").write_text(json.dumps({"deterministic": True, **policy}))
    return "--set", "policy=gate.json"


def by(preset: str) -> tuple[str, str]:
    return policy_file(preset=preset)


def refuse_a_pass(preset: str, code: int, decision: dict[str, Any]) -> None:
    assert decision["gate_status"] in ("failed", "inconclusive")
    assert not decision["passed"]
    assert code != 0 or (preset != "release" and decision["gate_status"] != "failed")
    # What is not the same as on main is said first.
    assert re.search("this change|The pass rate|order-|more help", decision["sentence"])


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


@crossed(trick=[*SUITES], preset=BOTH)
def test_a_suite_that_asks_less(trick: str, preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", cases())
    judged("now", SUITES[trick](cases(broken=BROKEN)))
    code, said = in_ci(capsys, *by(preset))
    assert "Outcome: passed" not in said
    refuse_a_pass(preset, code, decided())
    for flags in ((), ("--allow-incompatible",)):
        assert compared(*flags) == 0
        refuse_a_pass(preset, *gated(capsys, *by(preset)))


LESS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "a limit is loosened": (("cost_budget",), {"cost_budget": {"max_output_tokens": 10_000, "hard": True}}),
    "a limit is taken away": (("cost_budget", "policy"), {"cost_budget": {}}),
    "the failing judge is dropped": (("policy",), {}),
}
"""Judges and their configuration."""


@crossed(less=[*LESS], way=["compare", "ci"], preset=BOTH)
def test_judges_that_ask_less(less: str, way: str, preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judges, config = LESS[less]
    strict = {"cost_budget": {"max_output_tokens": 100, "hard": True}}
    rules = {"policy": {"forbidden_tools": ["escalate"]}}
    judged("before", cases(**rules), "--judge", "cost_budget", "--judge", "policy", config=strict)
    flags = [word for judge in judges for word in ("--judge", judge)]
    judged("now", cases(broken=BROKEN, **rules), *flags, config=config)
    if way == "ci":
        code, _ = in_ci(capsys, *by(preset), *flags, "--set", "judge_config=now-judges.json")
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


@crossed(help_=["the expected output", "repairs"], preset=BOTH)
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
        shown = [{**case, "metadata": {"share_expected_output": True}} for case in asked]
        Path("asked.json").write_text(json.dumps(make_suite(*shown)))
        ran("now", shared=True)
    assert compared() == 0
    code, decision = gated(capsys, *by(preset))
    refuse_a_pass(preset, code, decision)
    if help_ == "the expected output":
        said = "4 cases were not run by main's version, and this change alters"
        assert decision["sentence"].startswith(said)
        return
    assert decision["sentence"].startswith("The agent was given more help than the base's: ")
    notices = json.loads(Path(DELTA).read_text())["behaviour"]["notices"]
    assert notices[0].startswith("The agent ran under other conditions: ")


PROGRAM = """
import json, sys
case = json.load(sys.stdin)["case"]
print(json.dumps({{"passed": {passes}, "reason": "as it is"}}))
"""
PLUG_IN = """
from agent_eval.errors import FailureKind
from agent_eval.judges.base import BaseJudge

class Strict(BaseJudge):
    judge_id = "never_escalates"

    def evaluate(self, case, trace):
        if {looks} and any(event.tool == "escalate" for event in trace.events):
            return self.failed(case, "no", FailureKind.POLICY_VIOLATION)
        return self.passed(case, "yes")
"""


@pytest.mark.parametrize("kind", ["a program", "a plug-in"])
def test_a_judge_whose_code_comes_with_the_change(kind: str, here: Path) -> None:
    """The judge of main decides, so that the case which its new code lets pass is broken all the same."""
    name = "strict_judge:Strict" if kind == "a plug-in" else "command"
    more = {} if kind == "a plug-in" else {"judge_config": "judges.json"}
    repository = Repository(here, cases=3, settings={"judges": name, **more})

    def judging(honestly: bool) -> None:
        looks = '"escalate" not in [each.get("tool") for each in case["trace"]]' if honestly else "True"
        repository.write("check.py", PROGRAM.format(passes=looks))
        repository.write("strict_judge.py", PLUG_IN.format(looks=honestly))

    config = {"command": {"command": [sys.executable, "check.py"]}}
    repository.write("judges.json", json.dumps(config))
    judging(True)
    repository.commit("judges")
    repository.main()
    repository.topic(broken(1))
    judging(False)
    repository.commit("a judge that asks less")
    job = repository.job()
    assert (job.code, job.outcome) == (1, "failed"), job.log
    assert job.sentence.startswith("1 case broke: `order-1` passed 0 of 8 times here"), job.log


def test_a_waiver_of_a_judge_excuses_no_other(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    rules = {"policy": {"forbidden_tools": ["escalate"]}}
    judged("before", cases(**rules))
    broken = cases(broken=BROKEN, **rules)
    call = make_event(0, type="tool_call", tool="escalate", input={})
    broken[0]["trace"] = [call, {**cases()[0]["trace"][-1], "idx": 1}]
    judged("now", broken)
    assert compared() == 0
    assert main(["registry", "baseline-set", "--name", "main", "--run", "before"]) == 0
    waive = ("registry", "waiver-add", "--baseline-name", "main", "--judge-id", "regex")
    assert main([*waive, "--approved-by", "ada", "--reason", "noise"]) == 0
    flags = (*by(preset), "--apply-waivers", "--baseline-name", "main")
    code, decision = gated(capsys, *flags)
    refuse_a_pass(preset, code, decision)
    # Who reads the decision sees what was let through.
    assert decision["waived_case_ids"] == [f"order-{n:02}" for n in range(1, BROKEN)]


def test_a_quarantine_of_what_is_broken(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    broke()
    apart = [{"case": f"order-{n:02}", "reason": "flaky"} for n in range(BROKEN - 1)]
    endless = policy_file(preset=preset, quarantine=apart)
    assert gated(capsys, *endless) == (2, {})
    assert in_ci(capsys, *endless)[0] == 2
    over = policy_file(preset=preset, quarantine=[{**entry, "until": "2026-01-13"} for entry in apart])
    refuse_a_pass(preset, *gated(capsys, *over))
    dated = policy_file(preset=preset, quarantine=[{**entry, "until": "2026-02-01"} for entry in apart])
    code, decision = gated(capsys, *dated)
    # The case that nobody named counts; what is apart is shown.
    assert (code, decision["regressed_cases_considered"]) == (1, 1)
    assert f"`order-{BROKEN - 1}`" in decision["sentence"]
    assert decision["quarantined_case_ids"] == [entry["case"] for entry in apart]


def test_a_quarantine_of_everything(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    broke()
    apart = [{"case": f"order-{n:02}", "reason": "flaky", "until": "2026-02-01"} for n in range(CASES)]
    flags = policy_file(preset=preset, quarantine=apart)
    code, decision = gated(capsys, *flags)
    assert (code, decision["gate_status"]) == (3 if preset == "release" else 0, "inconclusive")
    assert decision["sentence"] == "Every case is in quarantine or waived: nothing is left to decide on."


@crossed(policy=[{"margin": 0.99}, {"margin": 0.05, "alpha": 1e-9}, {"on_inconclusive": "warn"}], preset=BOTH)
def test_a_limitless_policy(policy: dict[str, Any], preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    broke(4)
    flags = policy_file(preset=preset, **policy)
    assert gated(capsys, *flags) == (2, {})
    code, said = in_ci(capsys, *flags)
    assert code == 2
    assert "passed" not in said


def test_a_misspelt_judge_of_safety(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    broke(0)
    flags = policy_file(preset=preset, safety=["promt_injection"])
    assert main(["gate", "--compare", DELTA, "--baseline", "before", *flags]) == 2
    assert "prompt_injection" in capsys.readouterr().err
    code, said = in_ci(capsys, *flags)
    assert code == 2
    assert "prompt_injection" in said


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


def test_a_baseline_that_only_the_comparison_names(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    judged("before", cases())
    judged("poor", cases(broken=BROKEN))
    judged("now", cases(broken=BROKEN))
    # The honest comparison is replaced by one with a baseline that was as poor.
    assert main(["compare", "--baseline", "poor", "--candidate", "now"]) == 0
    capsys.readouterr()
    code = main(["gate", "--compare", DELTA, *by(preset), "--format", "json"])
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
    assert main(["gate", "--compare", DELTA, *by(preset), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["named_by_comparison"] == []


def test_a_case_that_is_new_is_held_to_safety_too(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ("--judge", "policy", "--judge", "regex")
    judged("before", cases(), *flags)
    extra = answered("extra", well=True, policy={"forbidden_tools": ["lookup"]})
    judged("now", [*cases(), extra], *flags)
    code, _ = in_ci(capsys, *flags, *policy_file(preset=preset, safety=["policy"]))
    assert (code, decided()["gate_status"]) == (1, "failed")


def test_an_unchanged_agent_passes_all_the_same(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The opposite of a trick: a judge is added, a limit drawn tighter, and nothing got worse."""
    lax = {"cost_budget": {"max_output_tokens": 10_000, "hard": True}}
    judged("before", cases(broken=BROKEN), "--judge", "cost_budget", config=lax)
    flags = ("--judge", "cost_budget", "--judge", "regex")
    judged("now", cases(broken=BROKEN), *flags, config={"cost_budget": {"max_output_tokens": 100}})
    stable = by(preset)
    code, said = in_ci(capsys, *flags, "--set", "judge_config=now-judges.json", *stable)
    assert (code, decided()["gate_status"]) == (0, "passed"), said


def test_a_waiver_lets_a_case_expect_another_answer(preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor is this: the answer to one case is meant to change, and a waiver names the case."""
    judged("before", cases())
    judged("now", eased(cases(broken=1))[:1] + cases()[1:])
    stable = by(preset)
    assert main(["registry", "baseline-set", "--name", "main", "--run", "before"]) == 0
    code, _ = in_ci(capsys, *stable)
    assert (code, decided()["gate_status"]) == (3 if preset == "release" else 0, "inconclusive")
    waive = ("registry", "waiver-add", "--baseline-name", "main", "--case-id", "order-00")
    assert main([*waive, "--approved-by", "ada", "--reason", "the new wording is meant"]) == 0
    code, said = in_ci(capsys, *stable)
    assert (code, decided()["gate_status"]) == (0, "passed"), said
