"""Generated suites: the same bytes for the same request, varied, and judged as they say."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from agent_eval.benchmarks import ARCHETYPES, SuiteRequest, generate_suite
from agent_eval.cli.main import main
from agent_eval.operations.packs import open_to_show
from agent_eval.suites.validate import validate_suite
from tests.extent import examples

PUBLIC = Path(__file__).parents[3] / "benchmarks" / "public"
AGENTS = "python:agent_eval.benchmarks.agents"

archetypes = pytest.mark.parametrize("archetype", list(ARCHETYPES))


def cases(archetype: str, number: int, **how: Any) -> list[dict[str, Any]]:
    return list(generate_suite(SuiteRequest(archetype, number, **how))["cases"])


@archetypes
def test_a_committed_suite_is_what_the_command_generates(archetype: str, tmp_path: Path) -> None:
    name = f"{archetype}_50.json"
    assert main(["benchmark-generate", "--archetype", archetype, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_bytes() == (PUBLIC / name).read_bytes()


@archetypes
def test_the_good_agent_passes_each_case_and_the_careless_one_fails_those_with_a_trap(
    archetype: str, tmp_path: Path
) -> None:
    suite, number = tmp_path / "suite.json", examples(60)
    request = ["benchmark-generate", "--archetype", archetype, "--cases", str(number), "--seed", "3"]
    assert main([*request, "--out", str(suite)]) == 0
    passed: dict[str, set[str]] = {}
    for agent in ("good_agent", "careless_agent"):
        out = tmp_path / agent
        how = ["--agent", f"{AGENTS}:{agent}", "--strict-side-effects", "--out", str(out)]
        assert main(["run", str(suite), *how]) == 0
        results = open_to_show(out).results_by_id()
        assert len(results) == number
        passed[agent] = {name for name, row in results.items() if row["passed"]}
    written = json.loads(suite.read_text())["cases"]
    trapped = {case["case_id"] for case in written if case["metadata"]["benchmark"]["trap"]}
    everything = {case["case_id"] for case in written}
    assert passed == {"good_agent": everything, "careless_agent": everything - trapped}
    assert trapped < everything


@archetypes
def test_cases_differ_in_what_they_are_made_of(archetype: str) -> None:
    made = cases(archetype, 200)
    shapes = {
        (
            case["metadata"]["benchmark"]["scenario"],
            *case["metadata"]["benchmark"]["twists"],
            *(row["tool"] for row in case["metadata"]["tool_response_cassette"]),
        )
        for case in made
    }
    assert len(shapes) > 80
    twists = {twist for case in made for twist in case["metadata"]["benchmark"]["twists"]}
    assert twists == {"outage", "injection", "two_tasks"}
    assert len({case["input"] for case in made[:50]}) == 50
    assert len({case["metadata"]["benchmark"]["trap"] for case in made}) > 8


@archetypes
def test_recorded_traces_pass_and_the_suite_is_valid(archetype: str, tmp_path: Path) -> None:
    suite = tmp_path / "suite.jsonl"
    request = ["benchmark-generate", "--archetype", archetype, "--cases", "20", "--with-traces"]
    assert main([*request, "--out", str(suite)]) == 0
    assert validate_suite(suite, strict=True).passed
    judges = ["final_output", "policy", "trajectory_match", "tool_abuse", "prompt_injection", "strict"]
    flags = [flag for judge in judges for flag in ("--judge", judge)]
    assert main(["run", str(suite), *flags, "--out", str(tmp_path / "run")]) == 0
    rows = open_to_show(tmp_path / "run").results_by_id()
    assert [name for name, row in rows.items() if not row["passed"]] == []


def test_a_longer_suite_begins_like_a_shorter_one_and_another_seed_gives_other_cases() -> None:
    assert cases("ops_agent", 30)[:10] == cases("ops_agent", 10)
    assert cases("ops_agent", 10) != cases("ops_agent", 10, seed=-4)


def test_traces_do_not_change_what_is_asked() -> None:
    plain, recorded = cases("research_agent", 40), cases("research_agent", 40, with_traces=True)
    assert [{**case, "trace": None} for case in plain] == [{**case, "trace": None} for case in recorded]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--archetype", "poet", "--out", "x.json"], "poet"),
        (["--archetype", "ops_agent", "--out", "x.yaml"], "written as .json or .jsonl"),
        (["--archetype", "ops_agent", "--cases", "0", "--out", "x.json"], "0"),
        (["--archetype", "ops_agent", "--fault-rate", "0.5", "--out", "x.json"], "--fault-rate is gone"),
    ],
)
def test_a_wrong_request_is_refused(wrong: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark-generate", *wrong]) == 2
    assert words in json.loads(capsys.readouterr().err)["error"]["message"]


def test_a_scripted_agent_refuses_cases_that_were_not_generated() -> None:
    from agent_eval.benchmarks.agents import good_agent
    from agent_eval.errors import InvalidInput

    for case_id in ("refund-7", "ops_agent-0-0000-not_its_name"):
        with pytest.raises(InvalidInput, match="was not generated"):
            good_agent({"case_id": case_id}, lambda *_: None)


def test_the_command_that_is_proposed_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    request = ["benchmark-generate", "--archetype", "ops_agent", "--cases", "20"]
    for name, more in (("a suite.json", []), ("traces.jsonl", ["--with-traces"])):
        assert main([*request, *more, "--out", name, "--format", "json"]) == 0
        program, *words = shlex.split(json.loads(capsys.readouterr().out)["next"])
        assert program == "agent-eval"
        assert main(words) == 0
        capsys.readouterr()
