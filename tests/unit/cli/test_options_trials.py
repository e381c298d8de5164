"""Recorded trials through `run`, `compare`, `gate`, `stability-check`; agents that are run repeatedly."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_eval.config.spec import Judging, Output, RunSpec
from agent_eval.operations.run import run_suite
from tests.factories import make_case, make_suite, make_trace
from tests.unit.cli.shell import Shell

pytestmark = pytest.mark.usefixtures("pinned")

AGENT = """
import json, pathlib, sys
case = json.load(sys.stdin)["case_id"]
count = pathlib.Path(sys.argv[1]) / case
number = int(count.read_text()) if count.exists() else 0
count.write_text(str(number + 1))
calls = [{"tool": "escalate", "input": {}, "output": {}}] if case == "moody" and number % 2 else []
print(json.dumps({"assistant_output": "done", "tool_calls": calls}))
"""


def case(case_id: str, *bad: bool) -> dict[str, Any]:
    """A case with a trial for each of `bad`, which escalates where it is true."""
    traces = [make_trace("lookup", *(["escalate"] * escalates)) for escalates in bad]
    trials = [{"trace": trace} for trace in traces[1:]]
    made = make_case(case_id, policy={"forbidden_tools": ["escalate"]}) | {"trace": traces[0]}
    return made | ({"trials": trials} if trials else {})


def write(*cases: dict[str, Any], name: str = "suite.json") -> str:
    Path(name).write_text(json.dumps(make_suite(*cases)))
    return name


MIXED = (case("good", False, False, False), case("flaky", False, True, False), case("bad", True, True, True))


def test_run__a_case_passes_where_all_its_trials_do(cli: Shell) -> None:
    run = ("run", "--suite", write(*MIXED), "--out", "pack")
    said = cli.json(*run)["summary"]
    assert (said["passed_cases"], said["flaky_cases"]) == (1, 1)
    assert [round(point["pass_hat_k"], 3) for point in said["pass_curve"]] == [0.556, 0.444, 0.333]
    shown = " ".join(cli.out(*run).split())
    assert "1 case is flaky." in shown
    assert "All of k trials pass, k = 1 to 3: 0.556, 0.444, 0.333; one of them: 0.556, 0.667, 0.667" in shown


def test_gate__blames_no_case_that_three_recorded_trials_cannot_tell(cli: Shell) -> None:
    cli.json("run", "--suite", write(*MIXED), "--out", "before")
    now = (case("good", False, True, False), *MIXED[1:])
    cli.json("run", "--suite", write(*now), "--out", "now")
    cli.json("compare", "--baseline", "before", "--candidate", "now")
    delta = "now/compare/baseline_delta.json"
    decision = cli.json("gate", "--compare", delta, "--preset", "pull-request")
    assert (decision["gate_status"], decision["cases"]) == ("passed", [])
    [regressed] = json.loads(Path(delta).read_text())["case_regressions"]
    assert regressed["judges"][0]["reason"].startswith("forbidden tool escalate")
    gate = "now/compare/gate_decision.json"
    cli.json("report", "markdown", "--compare", delta, "--gate", gate, "--out", "report.md")
    text = Path("report.md").read_text(encoding="utf-8")
    assert "2 cases gave different results in different trials." in text
    assert "3: 0%." in text


def test_gate__a_case_that_fails_eight_trials_after_passing_eight_broke(here: Path, cli: Shell) -> None:
    for name, bad in (("before", False), ("now", True)):
        cases = [case(f"c{number}", *[bad and number == 3] * 8) for number in range(6)]
        cli.json("run", "--suite", write(*cases), "--out", name)
    cli.json("compare", "--baseline", "before", "--candidate", "now")
    gate = ("gate", "--compare", "now", "--preset", "pull-request")
    decision = cli.json(*gate, code=1)
    [broke] = decision["cases"]
    assert (broke["case_id"], broke["answer"], broke["first"]) == ("c3", "broke", {"passed": 0, "trials": 8})
    assert broke["on_main"] == {"passed": 8, "trials": 8}
    assert "passed 8 of 8 recorded trials on main, and 0 of 8 here" in broke["reason"]


def test_compare__judges_both_runs_by_either_case_policy_and_says_that_they_differ(cli: Shell) -> None:
    """Runs of earlier versions passed a case by other policies than that all its trials must pass."""
    suite = Path(write(*MIXED))
    for name in ("all", "any"):
        spec = RunSpec(suite=suite, output=Output(pack=Path(name)), judging=Judging(case_policy=name))
        run_suite(spec, environ={})
    flags = ("compare", "--baseline", "all", "--candidate", "any")
    said = cli.out(*flags)
    delta = json.loads(Path("any/compare/baseline_delta.json").read_text())
    assert (delta["case_regressions"], delta["overview"]["regressed_cases"]) == ([], 0)
    told = "A case with several trials passed by case policy all"
    assert any(line.startswith(told) for line in said.splitlines())


def test_gate__explains_a_fall_that_no_single_case_explains(here: Path, cli: Shell) -> None:
    for name, bad in (("before", False), ("now", True)):
        cases = [case(f"c{number}", False, False, bad and number < 6) for number in range(12)]
        suite = write(*cases, name=f"{name}.json")
        cli.json("run", "--suite", suite, "--out", name)
    said = cli.out("compare", "--baseline", "before", "--candidate", "now")
    assert "c0: 3 of 3 → 2 of 3 trials" in said
    comparison = "now/compare/baseline_delta.json"
    said = cli.out("gate", "--compare", comparison, "--baseline", "before", "--preset", "release", code=1)
    assert len(said.splitlines()) <= 16
    why = "36 of 36 passed on main and 30 of 36 here (chance: 1 in 64). No single case explains it."
    assert why in " ".join(said.split())
    suite = json.loads(Path("now/compare/gate_decision.json").read_text())["suite"]
    assert (suite["answer"], suite["p_value"]) == ("worse", 2**-6)
    assert (suite["base"], suite["change"]) == ({"passed": 36, "trials": 36}, {"passed": 30, "trials": 36})


def test_stability__of_recorded_trials(cli: Shell) -> None:
    check = ("stability-check", "--suite", write(*MIXED))
    report = cli.json(*check, "--out", "stability.json", code=1)
    assert report == json.loads(Path("stability.json").read_text())
    assert report["flaky_case_ids"] == report["quarantine_recommended_case_ids"] == ["flaky"]
    assert report["consistently_failing_case_ids"] == ["bad"]
    assert (report["runs"], report["execution_mode"], report["notes"]) == (3, "trace_score", [])
    shown = cli.out(*check, code=1)
    assert "1 of 3 cases is flaky; 1 always fails." in shown


def test_stability__one_recording_says_nothing_of_the_agent(cli: Shell) -> None:
    check = ("stability-check", "--suite", write(case("a", False), MIXED[0]), "--runs", "10")
    report = cli.json(*check)
    assert report["flaky_case_ids"] == []
    assert [row["runs"] for row in report["case_stability"]] == [10, 3]
    assert "1 of 2 cases were recorded once" in report["notes"][0]
    assert "recorded once" in cli.out(*check)


def test_stability__of_an_agent_that_is_run(here: Path, cli: Shell) -> None:
    Path("agent.py").write_text(AGENT)
    Path("counts").mkdir()
    cases = [case(name, False) for name in ("calm", "moody")]
    command = shlex.join([sys.executable, str(here / "agent.py"), str(here / "counts")])
    check = ("stability-check", "--suite", write(*cases), "--propose-command", command)
    report = cli.json(*check, "--runs", "3", code=1)  # nothing is repaired, or all would be steady
    assert report["flaky_case_ids"] == ["moody"]
    assert report["execution_mode"] == "propose_execute_repair"
    assert {row["case_id"]: row["pass_count"] for row in report["case_stability"]} == {"calm": 3, "moody": 2}
    assert Path("counts/calm").read_text() == "3"


def test_stability__of_an_agent_that_is_ended_by_a_limit_is_no_report(cli: Shell) -> None:
    quick = "import json, sys, time; time.sleep(60 if json.load(sys.stdin)['case_id'] != 'c-0' else 0)"
    suite = write(*(case(f"c-{number}", False) for number in range(5)))
    check = ("stability-check", "--suite", suite, "--agent", shlex.join([sys.executable, "-c", quick]))
    check += ("--set", "limits.run.seconds=3", "--max-repairs", "0")
    assert "ended early" in cli.err(*check, code=4)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--runs", "1"), "--runs"),
        (("--execution-mode", "propose_execute_repair"), "needs --agent"),
        (("--execution-mode", "trace_score", "--propose-command", "x"), "runs no agent"),
        (
            ("--set", "limits.attempt.steps=3"),
            "--set limits.attempt.steps is for running an agent, and none is named",
        ),
        (("--propose-command", "true", "--resume"), "--resume"),
        (("--judge", "regexx"), "regex"),
    ],
)
def test_stability__what_makes_no_sense_is_refused(flags: tuple[str, ...], said: str, cli: Shell) -> None:
    assert said in cli.err("stability-check", "--suite", write(*MIXED), *flags, code=2)


def test_stability__nothing_measured_is_no_report(cli: Shell) -> None:
    for suite in (write(), write(make_case("a"), name="skipped.json")):
        found = cli.err("stability-check", "--suite", suite, "--judge", "regex", code=2)
        assert "nothing" in found
    doubled = write(MIXED[0], MIXED[0])
    assert "occurs twice" in cli.err("stability-check", "--suite", doubled, code=2)


def test_secrets_stand_in_no_trial(cli: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "hunter2-hunter2")
    flaky = case("leaky", False, True)
    flaky["policy"] = {"forbidden_tools": ["hunter2-hunter2"]}
    flaky["trials"][0]["trace"] = make_trace("hunter2-hunter2")
    cli.json("run", "--suite", write(flaky), "--out", "pack", "--set", "evidence.layout=compact")
    assert all(b"hunter2" not in path.read_bytes() for path in Path("pack").rglob("*") if path.is_file())
    cli.json("pack", "verify", "--run", "pack")
