"""Every way in which GitHub can withhold a baseline ends in an error that names it, and never in a pass.

The ways are those in which an answer differs from "there is none": a limit, a refusal, a failure or silence
of the API; the same of the storage that artifacts are redirected to; and evidence that is not what was
stored. The first kind ends the search, as no other run would fare better; of the others each concerns one
run, and an older one stands in for it. `tests/e2e/test_ci_baseline.py` has the usual ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent_eval.http.retry import Patience
from tests.e2e.runner import BASE_SHA, PULL, Step, orders
from tests.extent import crossed
from tests.fakes.github import FakeGitHub
from tests.unit.ci.conftest import InProcess

Way = Callable[[FakeGitHub], None]
NEWEST, ALWAYS = 9000, 999
IMPATIENT = Patience(attempts=2, read_timeout=0.2, transfer_timeout=0.5)
PRIMARY = {
    "status": 403,
    "headers": {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "4102444800"},
    "message": "API rate limit exceeded for installation ID 7.",
}


def api(path: str = "/actions/", **fields: object) -> Way:
    return lambda github: github.fail("GET", path, **{"status": 200, "times": ALWAYS, **fields})  # type: ignore[arg-type]


def storage(artifact: int = NEWEST, **fields: object) -> Way:
    return lambda github: github.fail_storage(times=ALWAYS, artifact=artifact, **fields)  # type: ignore[arg-type]


def empty_lists(github: FakeGitHub) -> None:
    github.empty_lists = True


OF_THE_API: dict[str, tuple[Way, str]] = {
    "limit that only the body names": (
        api(status=403, message="API rate limit exceeded"),
        "limits requests and does not say until when",
    ),
    "too many requests": (api(status=429), "limits requests and does not say until when"),
    "too many requests until a date": (
        api(status=429, headers={"Retry-After": "Fri, 01 Jan 2100 00:00:00 GMT"}),
        "2100-01-01",
    ),
    "server error": (api(status=500), "in 5 attempts (HTTP 500)"),
    "maintenance": (api(status=503, headers={"Retry-After": "9999"}), "(HTTP 503, too many waits)"),
    "unknown workflow": (api("/actions/workflows/", status=404), "`baseline.job`"),
    "silence": (api(silent=True), "no usable answer"),
    "cut list": (api("/actions/workflows/", cut=True), "no usable answer"),
    "list without its rows": (empty_lists, "with an empty list"),
}
OF_ONE_RUN: dict[str, tuple[Way, str]] = {
    "storage is down": (storage(status=503), "(HTTP 503)"),
    "storage limits requests": (storage(status=429, headers={"Retry-After": "3600"}), "for 60 minutes"),
    "storage lost it": (storage(status=404), "with HTTP 404"),
    "storage says that it is gone": (storage(status=410), "with HTTP 410"),
    "storage does not know us": (storage(status=401), "with HTTP 401"),
    "storage cuts the body": (storage(cut=True), "IncompleteRead"),
    "storage is silent": (storage(silent=True), "no usable answer"),
    "storage answers with a page": (storage(status=200, message="<html>"), "digest differs"),
    "artifact was deleted": (api(f"/artifacts/{NEWEST}/zip", status=404), "It was deleted"),
    "API fails at the artifact": (api(f"/artifacts/{NEWEST}/zip", status=500), "(HTTP 500)"),
    "API refuses the artifact": (api(f"/artifacts/{NEWEST}/zip", status=403), "with HTTP 403"),
    "run was deleted": (api("/actions/runs/400/artifacts$", status=404), "does not find its artifacts"),
    "redirect to a place without encryption": (
        api(f"/artifacts/{NEWEST}/zip", status=302, headers={"Location": "http://storage.example.org/blob"}),
        "only https is used",
    ),
}


@pytest.fixture(scope="module")
def left_on_main(tmp_path_factory: pytest.TempPathFactory) -> Step:
    """What a run on main left. Made once: the tests only look at it."""
    with FakeGitHub() as github, pytest.MonkeyPatch.context() as patch:
        runner = InProcess(tmp_path_factory.mktemp("main"), github)
        patch.chdir(runner.workspace)
        runner.write_suite(*orders())
        step = runner.push()
        return replace(step, workspace=runner.workspace.resolve())


@pytest.fixture
def evidence(runner: InProcess, github: FakeGitHub, left_on_main: Step) -> Step:
    """Run 400 of the merge base left evidence; since then the suite's second case is worse."""
    runner.upload(left_on_main, github.add_run(400, head_sha=BASE_SHA))
    runner.write_suite(*orders(bad=(2,)))
    return left_on_main


@crossed(name=[*OF_THE_API, *OF_ONE_RUN], preset=["pull-request", "release"], thresholds=["", "0.1"])
def test_withheld_baseline__is_never_green(
    runner: InProcess, github: FakeGitHub, evidence: Step, name: str, preset: str, thresholds: str
) -> None:
    withhold, said = {**OF_THE_API, **OF_ONE_RUN}[name]
    withhold(github)
    if "silen" in name:
        runner.patience = IMPATIENT
    step = runner.pull_request(
        preset=preset, min_pass_rate=thresholds, max_regressed_cases="", max_new_hard_fail_cases=""
    )
    assert (step.code, step.outcome, step.outputs["passed"]) == (4, "error", "false")
    assert name != "server error" or sum(runner.waits) < 60
    shown = step.summary.partition("<details")[0]
    assert shown.startswith("## 🛑 Not evaluated: the baseline could not be read · agent-eval\n")
    assert said in shown.replace("`", "") or said in shown
    assert "✅" not in shown
    assert "first" not in shown
    assert step.log.splitlines()[1].startswith("Outcome: error. The baseline could not be read: ")
    assert any(said in line for line in step.annotations)


@pytest.mark.parametrize("name", OF_ONE_RUN)
def test_withheld_baseline__of_one_run_is_passed_over_and_said(
    runner: InProcess, github: FakeGitHub, evidence: Step, name: str
) -> None:
    withhold, said = OF_ONE_RUN[name]
    runner.upload(evidence, github.add_run(390, head_sha=BASE_SHA))
    withhold(github)
    if "silen" in name:
        runner.patience = IMPATIENT
    step = runner.pull_request()
    assert (step.code, step.outcome, step.outputs["baseline-run-id"]) == (1, "failed", "390")
    assert "order-2" in github.bodies(PULL)[0]
    assert said in github.bodies(PULL)[0].replace("`", "")


def test_limit__of_the_api_ends_the_search_at_once(runner: InProcess, evidence: Step) -> None:
    runner.upload(evidence, runner.github.add_run(390, head_sha=BASE_SHA))
    api("/artifacts/9000/zip", **PRIMARY)(runner.github)
    assert runner.pull_request().outcome == "error"
    assert runner.github.count("GET", "/zip$") == 1
    assert runner.waits == []


def test_run__that_is_no_baseline_does_not_stand_in_for_one_that_is_withheld(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    runner.write_suite(*({**case, "trace": []} for case in orders()))
    runner.upload(runner.push(run_id=390, baseline="none"), 390)
    runner.write_suite(*orders())
    storage(status=403)(github)
    step = runner.pull_request(min_pass_rate="0.1")
    assert (step.code, step.outcome) == (4, "error")
    assert "Run 390 is no baseline" in step.summary


def test_base_branch__keeps_its_evidence_when_its_own_baseline_is_withheld(
    runner: InProcess, github: FakeGitHub, evidence: Step
) -> None:
    storage(artifact=0, status=403)(github)
    step = runner.push(run_id=410)
    assert (step.code, step.outcome) == (4, "error")
    assert step.archive


def test_comment__that_a_limit_prevents_names_the_limit(runner: InProcess, evidence: Step) -> None:
    runner.github.fail("POST", "/issues/7/comments", times=ALWAYS, **PRIMARY)
    step = runner.pull_request()
    assert step.outcome == "failed"
    said = " ".join(step.annotations)
    assert "limits requests until 2100-01-01 00:01 UTC" in said
    assert "pull-requests: write" not in said
