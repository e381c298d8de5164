"""Which earlier run's evidence `agent-eval ci` compares with, and which it does not."""

import hashlib
import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci.earlier import MAX_ARCHIVE_BYTES
from agent_eval.cli.main import main
from agent_eval.storage.archive import DEFAULT_ARCHIVE_LIMITS
from tests.e2e.program import agent_eval
from tests.e2e.runner import BASE_SHA, PULL, Runner, Step, orders, unzipped, zipped
from tests.extent import crossed
from tests.fakes.github import FakeGitHub, sha


@pytest.fixture
def evidence(runner: Runner, github: FakeGitHub, left_on_main: Callable[..., Step]) -> Step:
    """The evidence of run 400, of the merge base; not uploaded yet. The suite's second case is worse now."""
    github.add_run(400, head_sha=BASE_SHA)
    runner.write_suite(*orders(bad=(2,)))
    return left_on_main()


def test_merge_base__comes_before_newer_runs_on_main(runner: Runner, evidence: Step) -> None:
    runner.upload(evidence, 400)
    runner.upload(evidence, runner.github.add_run(450))
    assert runner.pull_request().outputs["baseline-run-id"] == "400"


def test_nearest_commit__before_the_base_where_that_has_no_run(runner: Runner, github: FakeGitHub) -> None:
    runner.write_suite(*orders())
    for number in (394, 397):
        runner.upload(runner.push(run_id=number, commit=sha(f"commit {number}")), number)
    github.add_run(399)
    github.add_run(450)
    github.add_run(398, status="in_progress")
    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request()
    assert step.outputs["baseline-run-id"] == "397"
    assert step.outputs["baseline-sha"] == sha("commit 397")
    assert "3 commits before the base" in github.bodies(PULL)[0]
    assert "2 days" in github.bodies(PULL)[0]
    assert "Run 399 left no artifact" in step.log


def test_fork__whose_branch_is_called_main_is_no_baseline(runner: Runner, evidence: Step) -> None:
    runner.write_suite(*orders())
    poisoned = runner.push(run_id=480)  # evidence in which everything passes
    del runner.github.runs[480]
    for run_id, event in ((490, "pull_request"), (491, "push")):
        runner.upload(poisoned, runner.github.add_run(run_id, event=event, fork=True, head_sha=BASE_SHA))
    runner.upload(poisoned, runner.github.add_run(492, event="pull_request", head_sha=BASE_SHA))
    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request()
    assert (step.code, step.outcome) == (0, "no-baseline")
    assert "Run 490 was passed over" in runner.github.bodies(PULL)[0]
    assert runner.github.downloads == []


def test_expired__is_passed_over_and_said(runner: Runner, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400, expired=True)
    runner.upload(evidence, github.add_run(390, head_sha=BASE_SHA))
    step = runner.pull_request()
    assert (step.code, step.outputs["baseline-run-id"]) == (1, "390")
    assert "The artifact of run 400 has expired" in github.bodies(PULL)[0]


@pytest.mark.parametrize("when", ["listed", "between listing and download"])
def test_expired__and_nothing_else_is_never_green(runner: Runner, evidence: Step, when: str) -> None:
    runner.upload(evidence, 400, expired=when == "listed")
    runner.github.fail("GET", "/zip$", 410)
    step = runner.pull_request()
    assert (step.code, step.outcome) == (3, "inconclusive")
    assert "Nothing to compare with: main's evidence expired. Run main again" in runner.github.bodies(PULL)[0]
    assert "✅" not in runner.github.bodies(PULL)[0]


def test_download__goes_to_the_storage_without_the_token(runner: Runner, evidence: Step) -> None:
    runner.upload(evidence, 400)
    runner.pull_request()
    assert [seen.authorized for seen in runner.github.downloads] == [False]
    assert all(seen.authorized for seen in runner.github.requests)


def tampered(evidence: Step, change: str) -> bytes:
    files = unzipped(evidence.archive)
    if change == "verdict changed":
        name = next(name for name in files if name.endswith("verdicts.json"))
        files[name] = files[name].replace(b'"passed": true', b'"passed": false')
    elif change == "file added":
        files["shop/run/extra.txt"] = b"x"
    elif change == "manifest is no JSON":
        files["shop/manifest.json"] = b"{"
    return zipped({"evidence.zip": zipped(files)})


@pytest.mark.parametrize("change", ["verdict changed", "manifest is no JSON"])
def test_tampered__gives_way(runner: Runner, github: FakeGitHub, evidence: Step, change: str) -> None:
    github.add_artifact(400, tampered(evidence, change))
    runner.upload(evidence, github.add_run(390, head_sha=BASE_SHA))
    step = runner.pull_request()
    assert (step.code, step.outputs["baseline-run-id"]) == (1, "390")
    assert any("does not verify" in line for line in step.annotations)
    assert "does not verify" in github.bodies(PULL)[0]


def bomb(evidence: Step) -> bytes:
    files = unzipped(evidence.archive)
    files["shop/run/events.jsonl"] = bytes(300 << 20)
    inner = zipped(files)
    assert len(inner) < 2 << 20
    return zipped({"evidence.zip": inner})


def resealed(evidence: Step) -> bytes:
    """Its summary has other numbers."""
    files = unzipped(evidence.archive)
    numbers = {"passed_cases": 0, "failed_cases": 4, "pass_rate": 0.0}
    data = json.dumps(json.loads(files["shop/run/summary.json"]) | numbers).encode()
    files["shop/run/summary.json"] = data
    manifest = json.loads(files["shop/manifest.json"])
    for entry in manifest["files"]:
        if entry["path"] == "run/summary.json":
            entry |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    files["shop/manifest.json"] = json.dumps(manifest).encode()
    derived = ("shop/derived.json", "shop/compare/")
    return zipped({name: data for name, data in files.items() if not name.startswith(derived)})


def leading_out(evidence: Step) -> bytes:
    return zipped({**unzipped(evidence.archive), "../../escaped.txt": b"x"})


UNVERIFIED: dict[str, Callable[[Step], bytes]] = {
    "empty": lambda _: b"", "a bomb, in bounded memory": bomb, "with a name that leads out": leading_out,
    "with a summary of other numbers": resealed,
    "of something else": lambda _: zipped({"readme.txt": b"hello"}),
}  # fmt: skip
RECORDED: dict[str, tuple[dict[str, Any], str]] = {
    "made by another repository's code": ({"workflow_run": {"head_repository_id": 1}}, "another repository"),
    "too large": ({"size_in_bytes": MAX_ARCHIVE_BYTES + 1}, "too large"),
    "with another digest": ({"digest": "sha256:" + "0" * 64}, "digest differs"),
}


@pytest.mark.parametrize("what", [*UNVERIFIED, *RECORDED])
def test_artifact__altered_is_refused(runner: Runner, github: FakeGitHub, evidence: Step, what: str) -> None:
    if what in UNVERIFIED:
        github.add_artifact(400, UNVERIFIED[what](evidence))
        said = "does not verify"
    else:
        runner.upload(evidence, 400)
        fields, said = RECORDED[what]
        [(_, row, _)] = github.artifacts.values()
        row |= {**fields, "workflow_run": {**row["workflow_run"], **fields.get("workflow_run", {})}}
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert said in github.bodies(PULL)[0]
    assert any(said in line for line in step.annotations)
    assert not list(runner.root.rglob("escaped.txt"))
    assert what != "too large" or github.downloads == []


def test_named_run__is_the_baseline(runner: Runner, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    runner.upload(evidence, github.add_run(333))
    assert runner.pull_request(baseline="run:333").outputs["baseline-run-id"] == "333"


@pytest.mark.parametrize(
    ("prepare", "said"),
    [
        ("fork", "There is no run 333 of this repository"),
        ("tampered", "added after the pack was sealed"),
        ("other suite", "no evidence of"),
    ],
)
def test_named_run__of_no_use_is_an_error(
    runner: Runner, github: FakeGitHub, evidence: Step, prepare: str, said: str
) -> None:
    github.add_run(333, fork=prepare == "fork")
    if prepare == "tampered":
        github.add_artifact(333, tampered(evidence, "file added"))
    if prepare == "other suite":
        runner.upload(evidence, 333)
        runner.write_suite(*orders(), dataset_id="another")
    step = runner.pull_request(baseline="run:333")
    assert (step.code, step.outcome) == (2, "error")
    assert said in " ".join(step.annotations)


def test_other_workflow_branch_and_artifact(runner: Runner, github: FakeGitHub, evidence: Step) -> None:
    github.files["agent-eval.yml"] = b"baseline: {branches: release}\n"
    github.branches["release"] = BASE_SHA
    run = github.add_run(350, head_branch="release", head_sha=BASE_SHA)
    runner.upload(evidence, run, name="agent-eval-evidence-tools")
    step = runner.pull_request(into="release", baseline_workflow="nightly.yml", comment_id="tools")
    assert step.outputs["baseline-run-id"] == "350"
    assert "[evidence](" in github.bodies(PULL)[0]


def test_missing_permission__is_an_error_that_names_it(runner: Runner, evidence: Step) -> None:
    runner.upload(evidence, 400)
    runner.github.permissions.discard("actions: read")
    step = runner.pull_request()
    assert (step.code, step.outcome) == (4, "error")
    assert any("actions: read" in line for line in step.annotations)
    assert "actions: read" in runner.github.bodies(PULL)[0]


def test_rate_limit__is_waited_for(runner: Runner, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    github.fail("GET", "/actions/runs/500$", 429, headers={"Retry-After": "1"})
    step = runner.pull_request()
    assert (step.code, step.outputs["baseline-run-id"]) == (1, "400")
    assert github.count("GET", "/actions/runs/500$") == 2


RATE_LIMITS = {
    "primary": {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4102444800"},
    "secondary": {"Retry-After": "600"},
}


@crossed(
    limit=[*RATE_LIMITS],
    call=["/actions/runs/500$", "/commits/", "/runs$", "/artifacts$", "/zip$"],
    preset=["pull-request", "release"],
)
def test_rate_limit__that_outlasts_the_job_is_no_missing_baseline(
    runner: Runner, github: FakeGitHub, evidence: Step, limit: str, call: str, preset: str
) -> None:
    runner.upload(evidence, 400)
    github.fail("GET", call, 403, times=99, headers=RATE_LIMITS[limit], message="API rate limit exceeded")
    step = runner.pull_request(preset=preset, min_pass_rate="0.1")
    assert (step.code, step.outcome) == (4, "error")
    assert "limits requests until" in "\n".join(github.bodies(PULL)[0].splitlines()[:6])
    assert "actions: read" not in github.bodies(PULL)[0] + " ".join(step.annotations)


def test_storage__that_refuses_gives_way_to_older(runner: Runner, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    runner.upload(evidence, github.add_run(390, head_sha=BASE_SHA))
    github.fail_storage(403, times=99, artifact=9000)
    step = runner.pull_request()
    assert (step.code, step.outputs["baseline-run-id"]) == (1, "390")
    assert "The evidence of run 400 could not be read" in github.bodies(PULL)[0]


def test_storage__that_refuses_everything_is_an_outage(runner: Runner, evidence: Step) -> None:
    runner.upload(evidence, 400)
    runner.upload(evidence, runner.github.add_run(390, head_sha=BASE_SHA))
    runner.github.fail_storage(403, times=99)
    step = runner.pull_request(preset="release", min_pass_rate="0.1")
    assert (step.code, step.outcome) == (4, "error")
    first = runner.github.bodies(PULL)[0].partition("<details")[0]
    assert "with HTTP 403" in first
    assert "Nor could that of 1 other run." in first
    assert f"`{runner.github.storage_url.removeprefix('http://')}`" in first


def test_enterprise_server__lives_below_a_path(runner: Runner, github: FakeGitHub, evidence: Step) -> None:
    runner.upload(evidence, 400)
    github.below = "/api/v3"
    step = runner.pull_request()
    assert (step.code, step.outputs["baseline-run-id"]) == (1, "400")
    assert github.count("GET", "^/user$") == 1
    assert len(github.bodies(PULL)) == 1


# The archive that `ci` leaves: the next `ci` reads it whatever the agent said; none of an altered pack


def test_repetitive_agent_is_compared_with_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = {"idx": 0, "actor": "agent", "type": "final_output", "output": "I cannot do that. " * 400}
    fields = {"trace": [answer], "regex_patterns": ["cannot"]}
    cases = [{"case_id": f"c{number}", "input": number, **fields} for number in range(200)]
    Path("suite.json").write_text(json.dumps({"dataset_id": "d", "cases": cases}))
    first = ["ci", "--suite", "suite.json", "--out", "first", "--min-pass-rate", "1"]
    then = ["ci", "--suite", "suite.json", "--baseline", "first/evidence.zip", "--max-regressed-cases", "0"]
    for arguments in (first, then):
        assert main(arguments) == 0
    with zipfile.ZipFile("first/evidence.zip") as archive:
        events = archive.getinfo("d/run/events.jsonl")
    assert events.file_size > 200 * events.compress_size  # that it is dense is the point


def test_what_is_downloaded_is_what_is_read() -> None:
    assert DEFAULT_ARCHIVE_LIMITS.max_packed_bytes == MAX_ARCHIVE_BYTES


AGENT = """
import hashlib, json, pathlib, sys
json.load(sys.stdin)
pack = pathlib.Path("results/shop").resolve()
if pack.exists():
    for verdicts in pack.glob("cases/*/verdicts.json"):
        verdicts.write_bytes(verdicts.read_bytes().replace(b'"reason": "', b'"reason": "Surely, '))
    manifest = json.loads((pack / "manifest.json").read_bytes())
    for entry in manifest["files"]:
        data = (pack / entry["path"]).read_bytes()
        entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    (pack / "manifest.json").write_text(json.dumps(manifest))
print(json.dumps({"final_output": "Refunded."}))
"""


def test_the_job_ends_with_an_error_that_names_the_file_and_archives_nothing(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT.replace('"results/shop"', repr(str(tmp_path / "results/shop"))))
    for name in ("shop", "travel"):
        case = {"case_id": "one", "input": "Refund it.", "expected_output": "Refunded."}
        (tmp_path / f"{name}.json").write_text(json.dumps({"dataset_id": name, "cases": [case]}))
    ended = agent_eval(
        "ci", "--suite", "shop.json", "--suite", "travel.json", "--set", "judges=final_output",
        "--min-pass-rate", "0", "--out", "results", "--agent-command",
        f"{sys.executable} {tmp_path / 'agent.py'}", cwd=tmp_path,
    )  # fmt: skip
    assert ended.code == 4
    assert "A sealed pack was altered while the job ran: `shop/cases/one/verdicts.json`." in ended.out
    assert not list((tmp_path / "results").glob("*.zip"))
