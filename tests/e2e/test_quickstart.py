"""The Quickstart as it is written in the specification, command by command."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from tests.e2e.program import REPOSITORY, agent_eval

QUICKSTART = (
    "agent-eval init --out .",
    "agent-eval run --suite examples/suite_good.json --out runs/baseline --run-id baseline-1",
    "agent-eval run --suite examples/suite_bad.json --out runs/candidate --run-id candidate-1",
    "agent-eval compare --baseline runs/baseline --candidate runs/candidate"
    " --out runs/candidate/compare/baseline_delta.json",
)
GATE = (
    "agent-eval gate --compare runs/candidate/compare/baseline_delta.json --min-pass-rate 0.95"
    " --max-hard-fail-increase 0.00 --max-regressed-cases 0 --max-new-hard-fail-cases 0"
)
REPORT = (
    "agent-eval report markdown --compare runs/candidate/compare/baseline_delta.json"
    " --gate runs/candidate/compare/gate_decision.json --out runs/candidate/compare/report.md"
    ' --title "Release Eval Report"'
)
VALIDATE = "agent-eval schema validate --input suites/starter_suite.json --strict --require-version 1.0.0"

LAYOUT = {
    "manifest.json",
    "run/config.json",
    "run/summary.json",
    "run/events.jsonl",
    "judges/tool_contract.json",
    "judges/policy.json",
    "judges/regex.json",
    "judges/json_schema.json",
    "compare/baseline_delta.json",
    "compare/gate_decision.json",
    "cases/book-train/trajectory.json",
    "cases/book-train/verdicts.json",
}
"""What the specification lists of a pack."""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the Quickstart was run up to the gate."""
    here = tmp_path_factory.mktemp("quickstart")
    shutil.copytree(REPOSITORY / "examples", here / "examples")
    for line in QUICKSTART:
        program, *arguments = shlex.split(line)
        assert program == "agent-eval"
        ended = agent_eval(*arguments, cwd=here)
        assert (ended.code, ended.err) == (0, ""), line
    ended = agent_eval(*shlex.split(GATE)[1:], cwd=here)
    assert (ended.code, ended.err) == (1, "")
    assert json.loads(ended.out)["gate_status"] == "failed"
    return here


def test_the_pack_holds_every_file_that_the_specification_lists(workplace: Path) -> None:
    for name in LAYOUT:
        assert (workplace / "runs" / "candidate" / name).is_file(), name


def test_the_comparison_has_every_section_that_the_specification_lists(workplace: Path) -> None:
    comparison = json.loads((workplace / "runs/candidate/compare/baseline_delta.json").read_text())
    for section in ("case_regressions", "overview", "top_regressed_judges", "failure_clusters"):
        assert comparison[section], section
    assert comparison["failure_clusters"]["delta_ranked"]
    assert comparison["triage"]["top_clusters"]
    assert comparison["release_impact"]["recommendation"]
    assert comparison["compatibility"]["passed"] is True
    assert {row["case_id"] for row in comparison["case_regressions"] if row["regressed"]} == {
        "book-train",
        "quote-change",
    }


def test_the_decision_carries_status_and_delta(workplace: Path) -> None:
    decision = json.loads((workplace / "runs/candidate/compare/gate_decision.json").read_text())
    assert decision["gate_status"] == "failed"
    assert decision["regression_delta"] == pytest.approx(1 / 3 - 1)
    assert len(decision["failures"]) == 4


def test_the_packs_still_verify(workplace: Path) -> None:
    for name in ("baseline", "candidate"):
        assert agent_eval("pack", "verify", "--run", f"runs/{name}", cwd=workplace).code == 0


def test_the_report_command_of_the_specification_without_the_replay(workplace: Path) -> None:
    ended = agent_eval(*shlex.split(REPORT)[1:], cwd=workplace)
    assert ended.json() == {"markdown_report": "runs/candidate/compare/report.md"}
    text = (workplace / "runs/candidate/compare/report.md").read_text()
    assert text.startswith("## ❌ 1 of 3 passed (33.3%), below min_pass_rate 95%.\n\nRelease Eval Report\n")
    assert "quote\\-change" in text or "quote-change" in text
    assert agent_eval("pack", "verify", "--run", "runs/candidate", cwd=workplace).code == 0


def test_the_starter_suite_validates_as_written(workplace: Path) -> None:
    report = agent_eval(*shlex.split(VALIDATE)[1:], cwd=workplace).json()
    assert (report["passed"], report["warnings"]) == (True, [])


def test_the_starter_suite_passes_its_own_gate(workplace: Path) -> None:
    runs = workplace / "starter"
    for name in ("before", "after"):
        ended = agent_eval(
            *("run", "--suite", "suites/starter_suite.json", "--judge-config", "config/judges.json"),
            *("--out", runs / name),
            cwd=workplace,
        )
        assert ended.json()["summary"]["pass_rate"] == 1
    agent_eval("compare", "--baseline", runs / "before", "--candidate", runs / "after", cwd=workplace).json()
    ended = agent_eval(
        *("gate", "--compare", runs / "after/compare/baseline_delta.json", "--policy", "config/gate.yml"),
        cwd=workplace,
    )
    assert ended.code == 0
    assert ended.json()["passed"] is True


def test_init_refuses_to_overwrite_and_writes_nothing(workplace: Path) -> None:
    (workplace / "config" / "gate.yml").write_text("mine")
    (workplace / "suites" / "starter_suite.json").unlink()
    ended = agent_eval("init", "--out", ".", cwd=workplace)
    assert ended.code == 2
    assert "config/gate.yml" in ended.error["message"]
    assert not (workplace / "suites" / "starter_suite.json").exists()
    assert (workplace / "config" / "gate.yml").read_text() == "mine"
    written = agent_eval("init", "--out", ".", "--force", cwd=workplace).json()["written"]
    assert {
        "suites/starter_suite.json",
        "config/judges.json",
        "config/gate.yml",
        "agent-eval.yml",
        ".github/workflows/agent-eval.yml",
        ".gitlab-ci.yml",
        ".buildkite/pipeline.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
    } <= set(written)
    assert (workplace / "config" / "gate.yml").read_text() != "mine"


def test_the_same_commands_give_the_same_bytes(workplace: Path, tmp_path: Path) -> None:
    suite = workplace / "examples" / "suite_bad.json"
    for name in ("one", "two"):
        agent_eval("run", "--suite", suite, "--out", name, "--run-id", "same", cwd=tmp_path).json()
    one, two = tmp_path / "one", tmp_path / "two"
    assert (one / "manifest.json").read_bytes() == (two / "manifest.json").read_bytes()


def test_a_run_with_failed_cases_exits_0_and_prints_its_summary(workplace: Path, tmp_path: Path) -> None:
    suite = workplace / "examples" / "suite_bad.json"
    ended = agent_eval(
        *("run", "--suite", suite, "--out", "pack", "--run-id", "r"),
        cwd=tmp_path,
    )
    assert ended.code == 0
    printed = ended.json()
    assert set(printed) == {"run_id", "summary", "pack"}
    assert printed["summary"]["pass_rate"] == pytest.approx(1 / 3)
    assert json.loads((tmp_path / "pack/run/summary.json").read_text()) == printed["summary"]


def test_what_was_said_of_the_run_stands_in_its_configuration(workplace: Path, tmp_path: Path) -> None:
    said = {
        "run-id": "r-7",
        "agent-version": "2.1",
        "model": "m",
        "seed": "7",
        "prompt-hash": "p",
        "policy-hash": "q",
        "container-image": "i@sha256:0",
        "git-commit": "c",
        "dependency-lock-hash": "d",
    }
    flags = [part for name, value in said.items() for part in (f"--{name}", value)]
    suite = workplace / "examples" / "suite_good.json"
    agent_eval("run", "--suite", suite, "--out", "pack", "--judge", "policy", *flags, cwd=tmp_path).json()
    config = json.loads((tmp_path / "pack/run/config.json").read_text())
    for name, value in said.items():
        assert str(config[name.replace("-", "_")]) == value
    assert config["judges"] == ["policy"]
    assert config["pinned_env"]["packages"]["pydantic"]


def test_one_case_can_be_run_again(workplace: Path, tmp_path: Path) -> None:
    suite = workplace / "examples" / "suite_bad.json"
    printed = agent_eval(
        "run", "--suite", suite, "--case", "book-train", "--out", "evidence/reproduce", cwd=tmp_path
    ).json()
    assert printed["summary"]["total_cases"] == 1
    config = json.loads((tmp_path / "evidence/reproduce/run/config.json").read_text())
    assert config["execution_config"] == {"selected_cases": ["book-train"]}
