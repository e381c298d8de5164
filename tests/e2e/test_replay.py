"""`replay`: a pack is judged again, and exit 0 means that verdicts, summary and environment are the same."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import Ended, agent_eval
from tests.extent import WHOLE_JOB
from tests.factories import make_case, make_suite
from tests.security.packs import edit

PLUGIN = """
from pathlib import Path
from agent_eval.contracts import Verdict

class Marking:
    judge_id, hard = "marking", False

    def evaluate(self, case, trace):
        Path("ran").touch()
        return Verdict(judge_id="marking", case_id=case.case_id, outcome="passed", passed=True, reason="")
"""


def judged(place: Path, *judges: str, **files: Any) -> Path:
    """A pack of two cases, of which one passes, made by these judges."""
    cases = [
        make_case("a", policy={"forbidden_tools": ["refund"]}),
        make_case("b", policy={"forbidden_tools": ["lookup"]}),
    ]
    (place / "suite.json").write_text(json.dumps(make_suite(*cases)))
    (place / "judges.json").write_text(json.dumps(files.get("config", {})))
    (place / "marking.py").write_text(PLUGIN)
    named = [word for judge in judges or ("policy",) for word in ("--judge", judge)]
    options = ("--suite", "suite.json", "--out", "p", "--run-id", "r", "--judge-config", "judges.json")
    ended = agent_eval("run", *options, *named, cwd=place, fresh=True)
    assert ended.code == 0, ended.err
    (place / "ran").unlink(missing_ok=True)
    return place / "p"


def sealed_again(pack: Path, path: str, change: Any) -> None:
    """Change a file of a pack, and list its new size and digest, as who forges a pack would."""
    edit(pack / path, change)
    data = (pack / path).read_bytes()
    manifest = json.loads((pack / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        if entry["path"] == path:
            entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    (pack / "manifest.json").write_text(json.dumps(manifest))


def replayed(place: Path, *more: str, **how: Any) -> Ended:
    return agent_eval("replay", "--run", "p", "--format", "json", *more, cwd=place, **how)


def pinned(pack: Path, **pins: Any) -> None:
    """State another environment in the pack."""
    sealed_again(pack, "run/config.json", lambda config: config["pinned_env"].update(pins))


def test_a_pack_replays_where_it_was_made_and_the_report_belongs_to_it(tmp_path: Path) -> None:
    pack = judged(tmp_path)
    report = replayed(tmp_path).json()
    assert report["replay_passed"] is report["summary_match"] is report["env_match"] is True
    assert (report["cases"], report["judges_from"]) == (2, "pack")
    assert report["saved_summary"] == report["replayed_summary"]
    assert report["pins"]["python"]
    assert report["pins"]["judges"].keys() == {"policy", "replay_contract"}
    assert json.loads((pack / "compare" / "replay_report.json").read_bytes()) == report
    assert agent_eval("verify", "p", cwd=tmp_path).code == 0
    again = replayed(tmp_path, "--out", "elsewhere.json")
    assert (again.code, json.loads((tmp_path / "elsewhere.json").read_bytes())) == (0, report)


def test_a_forged_verdict_does_not_replay_and_the_case_is_named(tmp_path: Path) -> None:
    pack = judged(tmp_path)

    def forge(config: dict[str, Any]) -> None:
        config["judge_configs"]["policy"] = {"hard": False}

    sealed_again(pack, "run/config.json", forge)
    ended = replayed(tmp_path)
    report = ended.json()
    assert (ended.code, report["replay_passed"], report["summary_match"]) == (1, False, False)
    [mismatch] = report["case_mismatches"]
    assert (mismatch["case_id"], mismatch["saved_hard_failed"], mismatch["replayed_hard_failed"]) == (
        *("b", True, False),
    )
    shown = agent_eval("replay", "--run", "p", "--format", "text", cwd=tmp_path)
    assert shown.out.startswith("The replay did not pass.\n2 cases judged again: 1 differs.\n  b: ")


def test_every_pin_that_differs_fails_the_replay_unless_it_is_allowed(tmp_path: Path) -> None:
    pack = judged(tmp_path)
    pinned(pack, python="3.0.1", packages={"orjson": "0.1"})
    ended = replayed(tmp_path)
    report = ended.json()
    assert (ended.code, report["env_match"], report["case_mismatches"]) == (1, False, [])
    differing = {pin["field"]: (pin["saved"], pin["allowed"]) for pin in report["env_mismatches"]}
    assert (differing["python"], differing["packages.orjson"]) == (("3.0.1", False), ("0.1", False))
    assert differing["packages.pydantic"] == (None, False)
    assert replayed(tmp_path, "--allow-env-drift", "python,packages.orjson").code == 1
    allowed = replayed(tmp_path, "--allow-env-drift", "python,packages")
    report = allowed.json()
    assert (allowed.code, report["replay_passed"], report["env_match"]) == (0, True, False)
    assert report["env_drift_allowed"] == ["python", "packages"]
    assert all(pin["allowed"] for pin in report["env_mismatches"])


def test_a_key_that_is_no_pin_is_refused_with_the_pins_that_there_are(tmp_path: Path) -> None:
    judged(tmp_path)
    ended = replayed(tmp_path, "--allow-env-drift", "pyhton")
    assert ended.code == 2
    assert "pyhton" in ended.error["message"]
    assert "python" in ended.error["details"]["remedy"]


def test_a_pin_without_a_value_may_be_named(tmp_path: Path) -> None:
    pinned(judged(tmp_path), gpu=None)
    assert replayed(tmp_path, "--allow-env-drift", "gpu").code == 0


def test_a_judge_that_the_run_did_not_use_is_no_pin(tmp_path: Path) -> None:
    pack = judged(tmp_path)
    pinned(pack, judges={"policy": 2, "replay_contract": 3, "of_a_later_version": 7})
    assert replayed(tmp_path).json()["replay_passed"] is True


@pytest.mark.parametrize("kind", ["plug-in", "command"])
def test_what_a_pack_names_is_not_run(kind: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "open('ran', 'w'); print('{\"passed\": true}')"]
    config = {"command": {"command": program}} if kind == "command" else {}
    judged(tmp_path, "marking:Marking" if kind == "plug-in" else "command", config=config)
    assert agent_eval("replay", "--run", "p", cwd=tmp_path, fresh=True).code == 2
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "p" / "compare").exists()


@WHOLE_JOB
def test_commands_of_a_pack_run_only_after_its_signature_verified(tmp_path: Path) -> None:
    judged(tmp_path, "marking:Marking")
    trust = ("replay", "--run", "p", "--trust-pack", "signed")

    def refused(*more: str) -> str:
        ended = agent_eval(*trust, *more, cwd=tmp_path, fresh=True)
        assert ended.code in (1, 2), ended.out
        assert not (tmp_path / "ran").exists()
        return str(ended.error["message"])

    for name in ("mine", "other"):
        assert agent_eval("keygen", "--out", name, cwd=tmp_path).code == 0
    assert "signature must be verified first" in refused()
    assert "no signature" in refused("--public-key", "mine.pub")
    assert agent_eval("attest", "--run", "p", "--key", "mine", cwd=tmp_path).code == 0
    assert "trusted key" in refused("--public-key", "other.pub")
    trusted = agent_eval(*trust, "--format", "json", "--public-key", "mine.pub", cwd=tmp_path, fresh=True)
    assert (trusted.json()["replay_passed"], trusted.json()["judges_from"]) == (True, "signed pack")
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    assert agent_eval("replay", "--run", "p", "--public-key", "mine.pub", cwd=tmp_path, fresh=True).code == 2
    assert not (tmp_path / "ran").exists()


def test_judges_that_the_user_names_may_be_anything(tmp_path: Path) -> None:
    judged(tmp_path, "marking:Marking")
    ended = replayed(tmp_path, "--judge", "marking:Marking", fresh=True)
    assert (ended.json()["replay_passed"], ended.json()["judges_from"]) == (True, "command line")
    other = replayed(tmp_path, "--judge", "policy")
    assert other.code == 1
    assert {judge["judge_id"] for judge in other.json()["case_mismatches"][0]["judges"]} == {
        "marking",
        "policy",
    }


def test_an_archive_replays_and_an_incomplete_run_does_not(tmp_path: Path) -> None:
    pack = judged(tmp_path)
    shutil.make_archive(str(tmp_path / "evidence"), "zip", tmp_path, "p")
    ended = agent_eval("replay", "--format", "json", "--run", "evidence.zip", "--out", "r.json", cwd=tmp_path)
    assert ended.json()["replay_passed"] is True
    edit(pack / "manifest.json", {"complete": False})
    refused = replayed(tmp_path)
    assert refused.code == 2
    assert "not complete" in refused.error["message"]


def test_the_report_for_people_shows_it(tmp_path: Path) -> None:
    pack = judged(tmp_path)
    shutil.copytree(pack, tmp_path / "base")
    assert agent_eval("compare", "--baseline", "base", "--candidate", "p", cwd=tmp_path).code == 0
    pinned_env = ("--allow-env-drift", "python")
    assert agent_eval("replay", "--run", "p", *pinned_env, cwd=tmp_path).code == 0
    delta, replayed = "p/compare/baseline_delta.json", "p/compare/replay_report.json"
    report = ("report", "markdown", "--compare", delta, "--replay", replayed, "--out", "r.md")
    assert agent_eval(*report, cwd=tmp_path).code == 0
    assert "✅ The replay gave the same results." in (tmp_path / "r.md").read_text()


def test_a_secret_of_the_environment_is_not_in_the_report(tmp_path: Path) -> None:
    pack = judged(tmp_path)
    pinned(pack, python="s3cret-of-the-environment")
    ended = agent_eval(
        "replay", "--run", "p", cwd=tmp_path, environ={"MY_API_TOKEN": "s3cret-of-the-environment"}
    )
    assert ended.code == 1
    assert b"s3cret" not in (pack / "compare" / "replay_report.json").read_bytes()
    assert "s3cret" not in ended.out


def test_an_llm_judge_replays_from_the_rulings_in_the_pack_and_asks_no_model(tmp_path: Path) -> None:
    case = make_case("a", "lookup")
    case["trace"][0]["input"] = {"zone": 1, "area": {"y": 1, "b": 2}}
    (tmp_path / "suite.json").write_text(json.dumps(make_suite(case)))
    (tmp_path / "judges.json").write_text(json.dumps({"llm": {"criteria": [{"criterion": "It is polite."}]}}))
    ruling = {"object": {"reasoning": "It is.", "evidence": [], "verdict": "passed"}}
    (tmp_path / "script.json").write_text(json.dumps({"kind": "model_script", "replies": [ruling]}))
    model = (
        *("--provider", "scripted", "--set", "judge_model.script=script.json"),
        *("--judge-config", "judges.json"),
    )
    options = ("--suite", "suite.json", "--out", "p", "--judge", "llm", *model)
    assert agent_eval("run", *options, cwd=tmp_path).code == 0
    (tmp_path / "script.json").unlink()
    ended = replayed(tmp_path)
    assert (ended.code, ended.json()["replay_passed"]) == (0, True)
