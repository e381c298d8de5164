"""Packs that an earlier version wrote are read, verified, compared, gated, reported and judged as it did.

The packs are never written anew (`tests/fixtures/packs/0.1.0/README.md` says why); everything here goes
through the command line, so that no move of a module touches it. What is expected of them is a golden file:
UPDATE_GOLDEN=1 accepts what there is now.
"""

import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.cli.main import main
from agent_eval.contracts import SCHEMA_VERSION
from tests.e2e.program import agent_eval, tree

OLD = Path(__file__).parents[1] / "fixtures" / "packs" / "0.1.0"
CURRENT = OLD.with_name("1.2.0")
FOLDERS = sorted(path.name for path in (OLD / "packs").iterdir() if path.is_dir())
PACKS = [*FOLDERS, "evidence.zip"]
COMPLETE = [name for name in PACKS if name != "stopped"]

COMPARED, REPLAYED = "2026-01-14T10:00:00+02:00", "2026-01-16T10:00:00+00:00"
"""The clock under which 0.1.0 compared, and under which what is expected otherwise was made."""

RECORDED_JUDGES = (
    *("tool_contract", "policy", "trajectory_step", "regex", "json_schema"),
    *("final_output", "cost_budget", "latency_slo", "prompt_injection"),
)
LOOP_JUDGES = ("policy", "regex", "retry_storm", "repair_path")
DEFAULT_JUDGES = RECORDED_JUDGES[:5]
LOOP = (*LOOP_JUDGES, "execution")
JUDGED_BY = {
    "baseline": RECORDED_JUDGES, "candidate": RECORDED_JUDGES, "merged": DEFAULT_JUDGES,
    "shard-1": DEFAULT_JUDGES, "shard-2": DEFAULT_JUDGES, "agent": LOOP, "agent-without-repairs": LOOP,
    "function": (*DEFAULT_JUDGES, "execution"), "rejudged": ("regex", "loop_guard"),
    "evidence.zip": ("policy", "regex", "json_schema", "prompt_injection"),
}  # fmt: skip
"""Judges of every pack on which something can be decided."""

CONFIGURED = {"baseline", "candidate", "agent", "agent-without-repairs", "evidence.zip"}
"""Packs whose judges were configured."""

COMPARISON = ("baseline_delta.json", "gate_decision.json", "report.md")
"""What `compare`, `gate` and `report` write."""

TODAYS_POLICY = """
preset: release
margin: 0.04
safety: [tool_abuse]
min_pass_rate: 0.1
max_regressed_cases: 5
quarantine:
  - {case: weather, reason: the forecast changes, owner: desk, until: 2027-01-31}
  - {case: discount, reason: was known once, owner: desk, until: 2026-01-01}
"""
"""What `gate.yml` of that time says, in today's keys."""

Command = Callable[..., Any]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the old packs; commands run in its `inputs/`, where 0.1.0 ran."""
    copy = tmp_path / "old"
    shutil.copytree(OLD, copy)
    monkeypatch.chdir(copy / "inputs")
    for name in ("GITHUB_SHA", "SOURCE_DATE_EPOCH", "AGENT_EVAL_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AGENT_EVAL_CLOCK", REPLAYED)
    return copy


@pytest.fixture
def command(place: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process: its output as JSON; on stderr where it fails."""

    def run(*arguments: str, code: int = 0) -> Any:
        left = main([*arguments, "--format", "json"])
        printed = capsys.readouterr()
        assert left == code, printed.err or printed.out
        return json.loads(printed.out or printed.err)

    return run


def expect(name: str, now: bytes, sealed: str = "") -> None:
    """Hold bytes against `expected/`, or against a file of a sealed pack where that has none of this name."""
    file = OLD / "expected" / name
    kept = file if file.is_file() or not sealed else OLD / "packs" / sealed
    before = kept.read_bytes() if kept.is_file() else b""
    if now == before:
        return
    if os.environ.get("UPDATE_GOLDEN") == "1":
        file.write_bytes(now)
        return
    lines = [text.decode().splitlines(keepends=True) for text in (before, now)]
    difference = "".join(difflib.unified_diff(*lines, str(kept.relative_to(OLD)), "now"))
    remedy = "UPDATE_GOLDEN=1 writes tests/fixtures/packs/0.1.0/expected/ anew; the packs are never changed."
    pytest.fail(f"{difference}\n\n{remedy}", pytrace=False)


def pretty(value: Any) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


@pytest.mark.parametrize("pack", PACKS)
def test_an_old_pack_verifies_and_is_said_to_hold_what_it_held(pack: str, command: Command) -> None:
    expect(f"verify/{pack}.json", pretty(command("pack", "verify", "--run", f"../packs/{pack}")))


@pytest.mark.parametrize("into", ["compact", "expand"])
@pytest.mark.parametrize("pack", PACKS)
def test_old_pack_converts_to_the_same_bytes(pack: str, into: str, command: Command, place: Path) -> None:
    converted = command("pack", into, "--run", f"../packs/{pack}", "--out", "../converted")
    expect(f"{into}/{pack}.json", pretty(converted))  # The digest of the manifest stands for every file.
    assert command("pack", "verify", "--run", "../converted")["left_behind"] == []
    if pack in FOLDERS and converted["layout"] == layout_of(place / "packs" / pack):
        assert run_part(place / "converted") == run_part(place / "packs" / pack)


def test_an_old_pack_comes_back_from_the_other_layout(command: Command, place: Path) -> None:
    for name, there, back in (("agent", "compact", "expand"), ("baseline", "expand", "compact")):
        command("pack", there, "--run", f"../packs/{name}", "--out", f"../{name}-there")
        command("pack", back, "--run", f"../{name}-there", "--out", f"../{name}-back")
        assert tree(place / f"{name}-back") == tree(place / "packs" / name)


def layout_of(pack: Path) -> str:
    return "files" if (pack / "judges").is_dir() else "compact"


def run_part(pack: Path) -> dict[str, str]:
    """Every file of a pack but those that were derived later."""
    return {name: what for name, what in tree(pack).items() if not name.startswith(("compare", "derived"))}


def test_they_compare_as_they_did(command: Command, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_EVAL_CLOCK", COMPARED)
    shutil.rmtree(place / "packs" / "candidate" / "compare")
    (place / "packs" / "candidate" / "derived.json").unlink()
    part = "../packs/candidate/compare"
    delta, decision, report = (f"{part}/{name}" for name in COMPARISON)
    runs = ("--baseline", "../packs/baseline", "--candidate", "../packs/candidate")
    # The definitions of old packs differ: what keeps its input is judged twice, and the rest is left out.
    excluding = command("compare", *runs, "--out", "excluding.json")["overview"]
    assert excluding["compared_cases"] < min(
        excluding["total_baseline_cases"], excluding["total_candidate_cases"]
    )
    command("compare", *runs, "--allow-incompatible")
    # Of its policy of that time every key that is gone is refused by name.
    gate = ("gate", "--compare", delta, "--baseline", "../packs/baseline", "--config")
    assert "is gone" in command(*gate, "gate.yml", code=2)["error"]["message"]
    (place / "inputs" / "today.yml").write_text(TODAYS_POLICY)
    command(*gate, "today.yml", code=3)
    command("report", "markdown", "--compare", delta, "--gate", decision, "--out", report)
    for name in COMPARISON:
        expect(f"again-{name}", Path(part, name).read_bytes(), sealed=f"candidate/compare/{name}")
    assert command("pack", "verify", "--run", "../packs/candidate")["derived_files"] == len(COMPARISON)


DECIDED = {
    "thresholds": "--min-pass-rate 0.1 --set policy.max_hard_fail_rate=0.9 --max-hard-fail-increase 0.1 "
    "--max-regressed-cases 4 --max-new-hard-fail-cases 9",
    "waived": "--preset pull-request --apply-waivers --baseline-name main "
    "--registry-path ../registry/registry.json",
}


@pytest.mark.parametrize("name", DECIDED)
def test_old_comparison_is_decided_and_reported_as_it_was(name: str, command: Command, place: Path) -> None:
    options = DECIDED[name].split()
    compared = ("--compare", str(place / "packs" / "candidate" / "compare" / "baseline_delta.json"))
    decision, report = place / "decision.json", place / "report.md"
    if "--registry-path" not in options:
        # It does not say where its packs are; the registry finds the baseline by its digest.
        command("gate", *compared, *options, "--out", str(decision), code=2)
        options += ["--baseline", "../packs/baseline"]
    command("gate", *compared, *options, "--out", str(decision), code=1)
    command("report", "markdown", *compared, "--gate", str(decision), "--out", str(report))
    expect(f"{name}-decision.json", decision.read_bytes())
    expect(f"{name}-report.md", report.read_bytes())
    old = place / "packs" / "candidate" / "compare" / "gate_decision.json"
    command("report", "markdown", *compared, "--gate", str(old), "--out", str(report))
    expect("candidate-report.md", report.read_bytes(), sealed="candidate/compare/report.md")


@pytest.mark.parametrize(
    ("name", "baseline", "candidate", "code"),
    [
        ("agents", "../packs/agent", "../packs/agent-without-repairs", 3),
        ("archive", "main", "../packs/evidence.zip", 1),
        ("merged", "../packs/merged", "../packs/merged", 3),
    ],
)
def test_trials_archives_and_registered_baselines_compare_as_they_did(
    name: str, baseline: str, candidate: str, code: int, command: Command, place: Path
) -> None:
    delta, decision, report = (place / file for file in COMPARISON)
    registered = ("--registry-path", "../registry/registry.json")
    runs = ("--baseline", baseline, "--candidate", candidate, *registered, "--allow-incompatible")
    command("compare", *runs, "--out", str(delta))
    of = (*runs[:-1], "--preset", "release")
    command("gate", "--compare", str(delta), *of, "--out", str(decision), code=code)
    command("report", "markdown", "--compare", str(delta), "--gate", str(decision), "--out", str(report))
    # The decision names the digest of the comparison, and so holds its bytes too.
    expect(f"{name}-decision.json", decision.read_bytes())
    expect(f"{name}-report.md", report.read_bytes())


@pytest.mark.parametrize("pack", COMPLETE)
def test_an_old_pack_is_judged_as_it_was(pack: str, command: Command, place: Path) -> None:
    named = [option for judge in JUDGED_BY[pack] for option in ("--judge", judge)]
    configured = ("--judge-config", "judges.json") if pack in CONFIGURED else ()
    again = ("--run-id", "again", "--set", "evidence.layout=files", "--out", "../again")
    command("rejudge", "--run", f"../packs/{pack}", *named, *configured, *again)
    command("pack", "expand", "--run", f"../packs/{pack}", "--out", "../before")
    before, now = verdicts(with_costs_as_decimals(place / "before")), verdicts(place / "again")
    assert before
    assert without_added_fields(now, before) == before
    counts = [json.loads((place / name / "run/summary.json").read_bytes()) for name in ("before", "again")]
    assert (counts[1].pop("run_id"), counts[1].pop("schema_version")) == ("again", SCHEMA_VERSION)
    del counts[0]["run_id"], counts[0]["schema_version"]
    assert without_added_fields(counts[1], counts[0]) == counts[0]


@pytest.mark.parametrize("version", ["0.1.0", "1.2.0"])
def test_every_released_pack_replays_in_a_drifted_environment(version: str, command: Command) -> None:
    packs = COMPLETE if version == OLD.name else WRITTEN_BY
    drift = [word for key in ENVIRONMENT for word in ("--allow-env-drift", key)]
    for pack in packs:
        run = str(OLD.with_name(version) / "packs" / pack)
        report = command("replay", "--run", run, *drift, "--out", "../replay.json")
        assert (report["replay_passed"], report["summary_match"], report["case_mismatches"]) == (
            True, True, [],
        )  # fmt: skip
        assert report["cases"] == report["saved_summary"]["total_cases"] > 0
        assert all(pin["allowed"] for pin in report["env_mismatches"])


ENVIRONMENT = ("agent_eval", "python", "implementation", "platform", "machine", "packages", "judges")
"""Every pin: the packs were written elsewhere, by other versions."""


def verdicts(pack: Path) -> dict[str, Any]:
    """Every case's result as it is stored, without the words of its verdicts."""
    return {
        path.parent.name: wordless(json.loads(path.read_bytes()))
        for path in sorted(pack.glob("cases/*/verdicts.json"))
    }


def without_added_fields(now: Any, before: Any) -> Any:
    """JSON as it is now, without the fields that it did not have: a later version may add some."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {key: without_added_fields(now[key], before[key]) for key in now if key in before}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [without_added_fields(*pair) for pair in zip(now, before, strict=True)]
    return now


def wordless(value: Any) -> Any:
    """JSON without the `reason` of any verdict, which may be said in other words."""
    if isinstance(value, dict):
        return {key: wordless(inner) for key, inner in value.items() if key != "reason"}
    return [wordless(inner) for inner in value] if isinstance(value, list) else value


def test_old_shards_merge_to_the_bytes_they_merged_to(command: Command, place: Path) -> None:
    command("merge", "../packs/shard-1", "../packs/shard-2", "--out", "../files")
    command("dev", "compact", "--run", "../files", "--out", "../again")
    assert tree(place / "again") == tree(place / "packs" / "merged")


def test_an_old_pack_that_is_not_complete_is_not_decided_on(command: Command) -> None:
    runs = ("--baseline", "../packs/stopped", "--candidate", "../packs/agent")
    assert command("compare", *runs, code=2)["error"]["code"] == "invalid_pack"
    judged = ("--judge", "regex", "--out", "../again")
    assert command("rejudge", "--run", "../packs/stopped", *judged, code=2)["error"]["code"] == "invalid_pack"


def test_an_old_registry_verifies(command: Command) -> None:
    said = command("registry", "verify", "--registry-path", "../registry/registry.json")
    assert (said["passed"], said["baselines"], said["datasets"], said["changes"]) == (True, 1, 1, 3)


@pytest.mark.parametrize("pack", ["agent", "function"])
def test_the_agent_of_an_old_pack_runs_again_as_it_ran(pack: str, place: Path) -> None:
    def replay(*more: str) -> Any:
        options = ("--run", f"../packs/{pack}", "--out", "../replay.json", "--cassette", "order_tools.json")
        return agent_eval("replay-exec", *options, *more, cwd=place / "inputs", environ=PYTHON)

    refused = replay()
    assert refused.code == 2
    digest = refused.error["details"]["manifest_sha256"]
    ended = replay("--trust-pack", digest, "--allow-env-drift", "all")
    assert ended.code == 0, ended.err
    report = json.loads((place / "replay.json").read_bytes())
    del report["env_mismatches"]  # Of the machine that runs the tests.
    expect(f"replay-{pack}.json", pretty(report))


PYTHON = {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    "XDG_STATE_HOME": "/nowhere",
    "AGENT_EVAL_CLOCK": REPLAYED,
}
"""The environment of somebody who did not make the packs, with the tests' own Python as `python3`."""

CONVERSATION_JUDGES = ("--judge", "trajectory_match", "--judge", "final_output")


def judging(names: tuple[str, ...]) -> str:
    return " ".join(f"--judge {name}" for name in names) + " --judge-config judges.json"


WRITTEN_BY = {
    "baseline": (
        "2026-01-13T10:00:00+00:00",
        f"run --suite baseline.json {judging(RECORDED_JUDGES)} --agent-version 1 --git-commit {'1' * 40} "
        "--model example-large-2025-11 --run-id baseline-1 --set evidence.layout=compact",
    ),
    "candidate": (
        "2026-01-14T10:00:00+02:00",
        f"run --suite candidate.json {judging(RECORDED_JUDGES)} --agent-version 2 --seed 7 --prompt-hash p2 "
        f"--model example-small-2026-01 --git-commit {'2' * 40} --run-id 'candidate <2>' "
        "--set evidence.layout=files",
    ),
    "agent-without-repairs": (
        "2026-01-15T10:00:00+00:00",
        f"run-loop --suite orders.json --strict-side-effects {judging(LOOP_JUDGES)} --agent-version 3 "
        "--cassette order_tools.json --propose-command 'python3 -S -E order_agent.py' --trials 3 "
        "--max-repairs 0 --run-id agent-2 --set evidence.layout=compact",
    ),
    "conversation": (
        "2026-01-13T10:00:00+00:00",
        "run --suite conversation.yaml --run-id conversation-1 --set evidence.layout=files "
        + " ".join(CONVERSATION_JUDGES),
    ),
}
"""Clock and command that wrote a pack of the current schema version."""

POLICIES = {"baseline": "majority", "candidate": "majority", "agent-without-repairs": "pass_rate>=0.5"}
"""When a case with several trials passes in packs for which a command could still say that."""

BY_POLICY = """
import sys
from agent_eval.cli.main import main
from agent_eval.config.spec import Judging

Judging.__init__.__kwdefaults__["case_policy"] = sys.argv[1]
sys.exit(main(sys.argv[2:]))
"""


WRITTEN_OTHERWISE = (
    "packs are written otherwise than before. Leave out a new field where it has nothing to say; or raise "
    "SCHEMA_VERSION in agent_eval/contracts/base.py, add packs of that version beside "
    "tests/fixtures/packs/1.2.0, and hold these bytes against those."
)


@pytest.mark.parametrize("pack", WRITTEN_BY)
def test_the_same_inputs_still_give_the_same_bytes(pack: str, place: Path, command: Command) -> None:
    """Until a version means to write packs otherwise, which says so by a new schema version."""
    assert command("pack", "verify", "--run", str(CURRENT / "packs" / pack))["complete"]
    write_again(pack, place)
    config_before, before = bytes_of_the_run(CURRENT / "packs" / pack)
    config_now, now = bytes_of_the_run(place / "again")
    assert config_now == config_before, WRITTEN_OTHERWISE
    assert now == before, WRITTEN_OTHERWISE


def write_again(pack: str, place: Path) -> None:
    """Run the command that wrote a pack once more, into `again`."""
    clock, command = WRITTEN_BY[pack]
    shutil.copytree(CURRENT / "inputs", place / "inputs", dirs_exist_ok=True)
    environ = {**PYTHON, "AGENT_EVAL_CLOCK": clock}
    program = [sys.executable, "-c", BY_POLICY, POLICIES.get(pack, "all")]
    ended = subprocess.run(
        [*program, *shlex.split(command), "--out", "../again"], cwd=place / "inputs", env=environ,
        capture_output=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("pack", ["baseline", "candidate"])
def test_pack_compares_with_the_same_run_of_an_earlier_one(pack: str, command: Command, place: Path) -> None:
    """Nothing but the version and the judges' words differ, so nothing has changed."""
    now = str(CURRENT / "packs" / pack)
    command("compare", "--baseline", f"../packs/{pack}", "--candidate", now, "--out", "../delta.json")
    delta = json.loads((place / "delta.json").read_bytes())
    cases, overview = delta["cases"], delta["overview"]
    assert (delta["regressions"], delta["resolved_hard_fail_case_ids"]) == ([], [])
    assert (cases["changed"], cases["new"], cases["removed"], overview["improved_cases"]) == ([], [], [], 0)


def test_every_field_of_a_conversation_is_judged_as_it_was(command: Command, place: Path) -> None:
    pack = CURRENT / "packs" / "conversation"
    command(
        "rejudge", "--run", str(pack), *CONVERSATION_JUDGES, "--set", "evidence.layout=files", "--out",
        "../again",
    )  # fmt: skip
    before = verdicts(pack)
    assert without_added_fields(verdicts(place / "again"), before) == before


COSTS_AS_DECIMALS = {b"0.0006399999999999999": b"0.00064"}
"""Costs in the evidence of verdicts, as `cost_budget` added them and, since its version 2, adds them."""


def with_costs_as_decimals(pack: Path) -> Path:
    """Write the costs of a copied pack as they are added today. No other byte of the packs changed."""
    for path in [*pack.glob("judges/*.json"), *pack.glob("cases/**/verdicts*.json*")]:
        data = path.read_bytes()
        for before, now in COSTS_AS_DECIMALS.items():
            data = data.replace(before, now)
        path.write_bytes(data)
    return pack


def bytes_of_the_run(pack: Path) -> tuple[Any, dict[str, str]]:
    """The configuration without the machine, and every other file but the manifest, which has its digest."""
    config = json.loads((pack / "run" / "config.json").read_bytes())
    assert config.pop("pinned_env")
    files = run_part(pack)
    del files["run/config.json"], files["manifest.json"]
    return config, files
