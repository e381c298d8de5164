"""`replay-exec`: the agent of a pack is run again, if there is a reason to, and compared."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.left import write_suite
from tests.e2e.program import REPOSITORY, Ended, agent_eval
from tests.e2e.test_replay import sealed_again

STRANGER = {"XDG_STATE_HOME": "/nowhere"}
"""Somebody who did not make the pack."""


def program(place: Path, body: str = "") -> str:
    """An agent that answers with its case, and repairs once; `body` may change `said` and `calls`."""
    usual = "said, calls = task['case_id'] + ' ' + task['mode'], [{'tool': 't', 'arguments': {'n': 1}}]\n"
    lines = "import json, os, sys\ntask = json.load(sys.stdin)\n" + usual + body
    written = lines + "\njson.dump({'assistant_output': said, 'tool_calls': calls}, sys.stdout)\n"
    (place / "agent.py").write_text(written)
    return f"{sys.executable} -S -E agent.py"


def run_loop(place: Path, command: str, *more: str, environ: dict[str, str] | None = None) -> Path:
    cases = [{"case_id": name, "regex_patterns": ["repair"]} for name in ("a", "b")]
    cases[1]["metadata"] = {"tool_responses": {"t": [1, 2]}}
    write_suite(place, *cases)
    arguments = ["--suite", "suite.json", "--out", "pack", "--propose-command", command, *more]
    assert agent_eval("run-loop", *arguments, cwd=place, environ=environ).code == 0
    return place / "pack"


def replay(place: Path, *more: str, run: str = "pack", **how: Any) -> Ended:
    return agent_eval("replay-exec", "--format", "json", "--run", run, *more, cwd=place, **how)


def digest(pack: Path) -> str:
    return hashlib.sha256((pack / "manifest.json").read_bytes()).hexdigest()


def test_an_agent_that_does_the_same_again_matches(tmp_path: Path) -> None:
    pack = run_loop(tmp_path, program(tmp_path), "--trials", "2")
    report = replay(tmp_path, "--out", "pack/compare/replay_exec_report.json", "--parallel", "2").json()
    assert report["execution_replay_passed"] is True
    assert report["replay_passed"] is True
    assert report["trusted_by"] == "made here"
    assert (report["cases"], report["summary_match"]) == (2, True)
    assert report["case_mismatches"] == report["trace_mismatches"] == report["env_mismatches"] == []
    assert report["agent"]["command"] == [sys.executable, "-S", "-E", "agent.py"]
    assert json.loads((pack / "compare" / "replay_exec_report.json").read_text()) == report
    assert agent_eval("pack", "verify", "--run", "pack", cwd=tmp_path).code == 0


def test_another_trajectory_differs_also_where_the_verdicts_agree(tmp_path: Path) -> None:
    run_loop(tmp_path, program(tmp_path))
    program(tmp_path, "if task['case_id'] == 'b': calls = [{'tool': 't', 'arguments': {'n': 2}}]")
    ended = replay(tmp_path)
    report = ended.json()
    assert ended.code == 1
    assert report["summary_match"] is True
    assert report["case_mismatches"] == []
    [mismatch] = report["trace_mismatches"]
    assert (mismatch["case_id"], mismatch["trial"]) == ("b", 0)
    assert mismatch["difference"] == 'event 1: input was {"n":1}, now {"n":2}'


def test_another_verdict_differs_and_says_which_judge(tmp_path: Path) -> None:
    run_loop(tmp_path, program(tmp_path))
    program(tmp_path, "if task['case_id'] == 'a': sys.exit(3)")
    ended = replay(tmp_path, "--format", "json")
    report = ended.json()
    assert (ended.code, report["summary_match"]) == (1, False)
    [mismatch] = report["case_mismatches"]
    assert (mismatch["saved_passed"], mismatch["replayed_passed"]) == (True, False)
    judges = {one["judge_id"]: (one["saved"], one["replayed"]) for one in mismatch["judges"]}
    assert judges["execution"] == ("skipped", "error (agent_error)")
    said = replay(tmp_path, "--format", "text")
    assert said.code == 1
    assert "2 cases run again: 1 differs." in said.out
    assert "a: regex said passed, now error (missing_output)" in said.out


def test_an_earlier_attempt_that_answers_otherwise_is_told(tmp_path: Path) -> None:
    run_loop(tmp_path, program(tmp_path))
    program(tmp_path, "if task['mode'] == 'propose': said = 'something else'")
    assert "attempt 0: the agent answered" in replay(tmp_path).json()["trace_mismatches"][0]["difference"]


def test_a_strangers_pack_is_not_obeyed(tmp_path: Path) -> None:
    pack = run_loop(tmp_path, program(tmp_path, "open('ran', 'a').write('x')"))
    (tmp_path / "ran").unlink()
    refused = replay(tmp_path, environ=STRANGER)
    assert refused.code == 2
    assert "was not made here" in refused.error["message"]
    assert refused.error["details"]["agent"]["command"][-1] == "agent.py"
    wrong = replay(tmp_path, "--trust-pack", "0" * 64, environ=STRANGER)
    assert wrong.code == 2
    assert wrong.error["details"]["manifest_sha256"] == digest(pack)
    assert not (tmp_path / "ran").exists()
    assert not (pack / "compare").exists()
    named = replay(tmp_path, "--trust-pack", digest(pack), environ=STRANGER).json()
    assert (named["replay_passed"], named["trusted_by"]) == (True, "named digest")
    assert (tmp_path / "ran").exists()


def test_the_command_line_names_the_agent_of_a_strangers_pack(tmp_path: Path) -> None:
    run_loop(tmp_path, program(tmp_path))
    (tmp_path / "agent.py").rename(tmp_path / "mine.py")
    command = f"{sys.executable} -S -E mine.py"
    report = replay(tmp_path, "--propose-command", command, environ=STRANGER).json()
    assert (report["replay_passed"], report["trusted_by"]) == (True, "command line")
    assert report["agent"]["command"][-1] == "mine.py"
    assert replay(tmp_path, "--propose-command", command, "--agent", "recorded").code == 2


def test_a_judge_of_a_strangers_pack_that_runs_a_command_is_not_obeyed(tmp_path: Path) -> None:
    command = program(tmp_path)
    checker = "import json; json.dump({'passed': True}, open('checked', 'w')); print('{\"passed\": true}')"
    config = {"command": {"command": [sys.executable, "-c", checker]}}
    (tmp_path / "judges.json").write_text(json.dumps(config))
    judges = ["--judge", "command", "--judge", "regex", "--judge-config", "judges.json"]
    run_loop(tmp_path, command, *judges)
    (tmp_path / "checked").unlink()
    refused = replay(tmp_path, "--propose-command", command, environ=STRANGER)
    assert refused.code == 2
    assert "runs a command" in refused.error["message"]
    assert not (tmp_path / "checked").exists()
    local = replay(tmp_path, "--propose-command", command, *judges, environ=STRANGER).json()
    assert local["replay_passed"] is True
    assert (tmp_path / "checked").exists()


def test_an_archive_is_run_again_and_its_report_goes_where_it_is_asked_for(tmp_path: Path) -> None:
    pack = run_loop(tmp_path, program(tmp_path))
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", pack)
    assert replay(tmp_path, run=archive).json()["replay_passed"] is True
    assert not list(tmp_path.glob("*report*"))
    assert replay(tmp_path, "--out", "report.json", run=archive).code == 0
    assert (tmp_path / "report.json").is_file()


def test_recorded_traces_have_no_agent(tmp_path: Path) -> None:
    suite = REPOSITORY / "examples" / "suite_good.json"
    assert agent_eval("run", "--suite", suite, "--out", "pack", cwd=tmp_path).code == 0
    ended = replay(tmp_path)
    assert ended.code == 2
    assert "no agent was run" in ended.error["message"]


def test_another_environment_fails_unless_it_is_to_be_ignored(tmp_path: Path) -> None:
    pack = run_loop(tmp_path, program(tmp_path))

    def otherwise(config: dict[str, Any]) -> None:
        config["pinned_env"]["python"] = "3.0.0"
        config["execution_config"]["agent"]["command"][0] = sys.executable

    sealed_again(pack, "run/config.json", otherwise)
    trusted = ["--trust-pack", digest(pack)]
    ended = replay(tmp_path, *trusted)
    [mismatch] = ended.json()["env_mismatches"]
    assert (ended.code, mismatch["field"], mismatch["saved"]) == (1, "python", "3.0.0")
    ignored = replay(tmp_path, *trusted, "--allow-env-drift", "all", "--format", "text")
    assert ignored.code == 0
    assert "do not count" in ignored.out


@pytest.mark.parametrize(
    ("change", "code", "named"),
    [
        ({"agent": None}, 2, "execution_config.agent"),
        ({"agent": {"agent": "command", "command": ["x", "[redacted]"]}}, 2, "execution_config.agent"),
        ({"cassette": "record"}, 2, "cassette"),
        ({"trials": 0}, 1, "execution_config.trials"),
        ({"attempt_limits": {"seconds": -1}}, 1, "execution_config.attempt_limits.seconds"),
    ],
)
def test_a_pack_that_does_not_say_how_its_agent_was_run_or_says_what_cannot_be_is_refused(
    tmp_path: Path, change: dict[str, Any], code: int, named: str
) -> None:
    pack = run_loop(tmp_path, program(tmp_path))
    sealed_again(pack, "run/config.json", lambda config: config["execution_config"].update(change))
    ended = replay(tmp_path, "--trust-pack", digest(pack))
    assert ended.code == code
    if code == 2:
        assert ended.error["details"]["field"] == named
    else:
        assert ended.error["code"] == "invalid_pack"
        assert named in ended.error["message"]


def test_tools_that_were_recorded_are_played_back(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("def tools(name, arguments):\n    return {'stock': 4}\n")
    run_loop(
        *(tmp_path, program(tmp_path), "--tools", "shop:tools", "--cassette", "answers.json"),
        *("--cassette-mode", "record"),
    )
    (tmp_path / "shop.py").unlink()
    assert replay(tmp_path, "--cassette", "answers.json").json()["replay_passed"] is True
    stranger = ["--agent", f"command:{sys.executable} -S -E agent.py"]
    assert replay(tmp_path, *stranger, environ=STRANGER).error["details"]["field"] == "cassette"
    assert replay(tmp_path, *stranger, "--cassette", "answers.json", environ=STRANGER).code == 0


ORDERED = """
def agent(task, call_tool):
    return {"assistant_output": f"{task['input']} {call_tool('t', {})}"}

def live(tool, arguments):
    return {"z": 1, "y": {"b": 2, "a": 3}}
"""


@pytest.mark.parametrize("metadata", [{}, {"tool_responses": {"t": {"z": 1, "y": 2}}}])
def test_an_agent_that_prints_what_it_is_given_says_the_same_again(metadata: Any, tmp_path: Path) -> None:
    (tmp_path / "ordered.py").write_text(ORDERED)
    case = {"case_id": "a", "input": {"q": 1, "p": 2}, "metadata": metadata, "regex_patterns": ["'z': 1"]}
    write_suite(tmp_path, case)
    arguments = ["run", "--suite", "suite.json", "--out", "pack", "--agent", "python:ordered:agent"]
    recorded = ["--tools", "ordered:live", "--cassette", "tools.json", "--cassette-mode", "record"]
    assert agent_eval(*arguments, *recorded, cwd=tmp_path).code == 0
    report = replay(tmp_path, "--cassette", "tools.json").json()
    assert (report["trace_mismatches"], report["saved_summary"]["passed_cases"]) == ([], 1)


def test_a_recording_is_replayed_without_trust(tmp_path: Path) -> None:
    suite = REPOSITORY / "examples" / "suite_good.json"
    assert agent_eval("run", "--suite", suite, "--out", "pack", "--agent", "recorded", cwd=tmp_path).code == 0
    config = json.loads((tmp_path / "pack" / "run" / "config.json").read_text())["execution_config"]
    assert config["agent"] == {"agent": "recorded"}
    report = replay(tmp_path, environ=STRANGER).json()
    assert (report["replay_passed"], report["trusted_by"]) == (True, "nothing run")
