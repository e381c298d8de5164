"""`agent-eval.yml` at a terminal: one file for `run`, `compare`, `gate`, `history` and `report`."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import REPOSITORY, Ended, agent_eval
from tests.fakes.models import FakeOpenAi, Step

CASE = {"case_id": "one", "input": "hi", "regex_patterns": ["yes"]}
SAYS_NO = [{"idx": 0, "actor": "agent", "type": "message", "output": "no"}]
FILE = f"""\
suites: suites/*.yaml
agent: {sys.executable} agent.py
judges: {{regex: {{}}}}
policy: {{min_pass_rate: 0.95}}
labels: {{model: small-1}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project: a suite for its agent, which passes, and one with a recorded trace, which fails."""
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites" / "live.yaml").write_text(json.dumps({"dataset_id": "shop", "cases": [CASE]}))
    recorded = {"dataset_id": "shop", "cases": [{**CASE, "trace": SAYS_NO}]}
    (tmp_path / "recorded.json").write_text(json.dumps(recorded))
    (tmp_path / "agent.py").write_text(
        "import json, sys\njson.load(sys.stdin)\njson.dump({'assistant_output': 'yes'}, sys.stdout)\n"
    )
    (tmp_path / "agent-eval.yml").write_text(FILE)
    return tmp_path


def said(place: Path, *words: str, code: int = 0) -> dict[str, Any]:
    ended = agent_eval(*words, "--format", "json", cwd=place)
    assert ended.code == code, ended
    shown: dict[str, Any] = ended.json()
    return shown


def refused(place: Path, *words: str) -> Ended:
    ended = agent_eval(*words, cwd=place)
    assert ended.code == 2
    return ended


def test_run_without_arguments_does_what_the_file_says(place: Path) -> None:
    assert said(place, "run", "--out", "a")["summary"]["passed_cases"] == 1
    config = json.loads((place / "a/run/config.json").read_text())
    assert (config["judges"][0], config["model"]) == ("regex", "small-1")


def test_a_suite_with_traces_that_is_named_is_scored_as_recorded_unless_an_agent_is(place: Path) -> None:
    assert said(place, "run", "recorded.json", "--out", "a")["summary"]["passed_cases"] == 0
    agent = ("--agent", f"{sys.executable} agent.py")
    assert said(place, "run", "recorded.json", "--out", "b", *agent)["summary"]["passed_cases"] == 1


def test_gate_has_the_files_rules_and_thresholds_given_decide_alone(place: Path) -> None:
    for out, words in (("good", ["--agent", f"{sys.executable} agent.py"]), ("bad", [])):
        said(place, "run", "recorded.json", "--out", out, *words)
    said(place, "compare", "--baseline", "good", "--candidate", "bad")
    by_file = said(place, "gate", "--compare", "bad", code=1)
    assert "min_pass_rate" in {rule["rule"] for rule in by_file["rules"]}
    literal = said(place, "gate", "--compare", "bad", "--max-regressed-cases", "1")
    assert [rule["rule"] for rule in literal["rules"]] == ["max_regressed_cases"]
    said(place, "gate", "--compare", "bad", "--set", "policy.min_pass_rate=0", code=1)
    (place / "policy.yml").write_text("max_regressed_cases: 1\n")
    said(place, "gate", "--compare", "bad", "--config", "policy.yml")


def test_set_reaches_what_has_no_flag_and_names_the_nearest_key(place: Path) -> None:
    said(place, "run", "--out", "a", "--set", "limits.attempt.seconds=60", "--set", "labels={model: large}")
    config = json.loads((place / "a/run/config.json").read_text())
    assert config["execution_config"]["attempt_limits"]["seconds"] == 60
    assert config["model"] == "large"
    assert "`limits.attempt.seconds`" in refused(place, "run", "--set", "limits.attempt.second=60").err
    assert "limits.attempt.seconds" in refused(place, "run", "--set", "limits.attempt.seconds=soon").err


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("policy: {preset: pull-reqest}", "pull-request or release"),
        ("policy: {margin: much}", "margin"),
        ("policy: {min_pass_rate: 2}", "policy.min_pass_rate"),
        ("ci: {comment: sometimes}", "ci.comment"),
    ],
)
def test_wrong_value_is_refused_by_commands_that_do_not_read_it(place: Path, wrong: str, told: str) -> None:
    (place / "agent-eval.yml").write_text(f"suites: suites/*.yaml\n{wrong}\n")
    for command in (("run",), ("plan", "demo:hr"), ("gate", "--run", "x"), ("ci",)):
        assert told in refused(place, *command).err


def test_an_endpoint_of_the_file_is_for_agents_of_its_provider(place: Path) -> None:
    keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": ""}
    with FakeOpenAi(Step(text="yes")) as service:
        (place / "agent-eval.yml").write_text(
            f"suites: suites/*.yaml\nagent: {{model: openai:small, base_url: {service.base_url}}}\n"
        )
        same = agent_eval("run", "--out", "a", "--agent", "openai:large", cwd=place, environ=keys)
    assert (same.code, service.requests[0]["model"], "base_url" in same.err) == (0, "large", False)
    other = agent_eval("run", "--out", "b", "--agent", "anthropic:large", cwd=place, environ=keys)
    assert "agent.base_url of the file is not used: it is that of openai" in other.err
    program = agent_eval("run", "--out", "c", "--agent", f"{sys.executable} agent.py", cwd=place)
    assert (program.code, "base_url" in program.err) == (0, False)


def test_validate_checks_the_file_and_writes_an_old_one_the_new_way(place: Path) -> None:
    assert said(place, "validate", "agent-eval.yml") == {"path": "agent-eval.yml", "passed": True}
    old = "suite: suites/*.yaml\nagent-command: python agent.py\nmax-case-cost: 0.1\nmin-pass-rate: 1\n"
    (place / "old.yml").write_text(old + "policy: gate.yml\n")
    told = said(place, "validate", "old.yml", code=1)
    (place / "new.yml").write_text(told["written_anew"])
    said(place, "validate", "new.yml")
    assert "`suite` is now `suites`" in refused(place, "run", "--config", "old.yml").err
    (place / "gate.yml").write_text("margn: 0.1\n")
    assert "margin" in said(place, "validate", "gate.yml", code=1)["error"]


def test_a_quarantine_in_the_file_is_that_of_history(place: Path) -> None:
    entry = "{case: two, reason: new, until: 2099-01-01}"
    (place / "agent-eval.yml").write_text(FILE.replace("0.95}", f"0.95, quarantine: [{entry}]}}"))
    assert agent_eval("ci", cwd=place).code == 0
    shown = said(place, "history", "show", "agent-eval-out/evidence.zip")
    assert "two" in " ".join(shown["warnings"])


# What is said of a run stands in its evidence, and what it prints in a file

GOOD, BAD = (REPOSITORY / "examples" / f"suite_{name}.json" for name in ("good", "bad"))


def test_what_was_said_of_the_run_stands_in_its_configuration(tmp_path: Path) -> None:
    said = {
        "run-id": "r-7", "agent-version": "2.1", "model": "m", "seed": "7", "prompt-hash": "p",
        "policy-hash": "q", "container-image": "i@sha256:0", "git-commit": "c", "dependency-lock-hash": "d",
    }  # fmt: skip
    flags = [part for name, value in said.items() for part in (f"--{name}", value)]
    agent_eval(
        "run", "--format", "json", "--suite", GOOD, "--out", "pack", "--judge", "policy", *flags, cwd=tmp_path
    ).json()
    config = json.loads((tmp_path / "pack/run/config.json").read_text())
    for name, value in said.items():
        assert str(config[name.replace("-", "_")]) == value
    assert config["judges"] == ["policy"]
    assert config["pinned_env"]["packages"]["pydantic"]
