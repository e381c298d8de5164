"""The step uploads its evidence itself, where the workflow wants it: no second step to forget."""

from collections.abc import Iterator

import pytest

from tests.e2e.runner import BASE_BRANCH_RUN, BASE_SHA, Runner, Step, orders
from tests.fakes.artifact_service import SERVICE, FakeArtifactService, runtime_token
from tests.fakes.github import FakeGitHub
from tests.fakes.server import Fault

WANTED = {"upload_evidence": "true"}


@pytest.fixture
def service(github: FakeGitHub) -> Iterator[FakeArtifactService]:
    with FakeArtifactService(github, BASE_BRANCH_RUN) as server:
        yield server
    assert server.violations == []


def pushed(runner: Runner, environ: dict[str, str], **inputs: str) -> Step:
    runner.write_suite(*orders())
    return runner.push(environ=environ, **{**WANTED, **inputs})


def test_uploaded_it_is_a_later_baseline(runner: Runner, service: FakeArtifactService) -> None:
    step = pushed(runner, service.environ)
    assert step.code == 0
    ((run, row, data),) = runner.github.artifacts.values()
    assert (run, row["name"], data) == (BASE_BRANCH_RUN, "agent-eval-evidence", step.archive)
    assert "Uploaded the evidence" in step.log
    assert "S3cret" not in step.log + step.summary
    runner.write_suite(*orders(bad=(2,)))
    worse = runner.pull_request()
    assert (worse.outcome, worse.outputs["baseline-run-id"]) == ("failed", str(BASE_BRANCH_RUN))


def test_the_evidence_of_a_failed_gate_is_uploaded_too(runner: Runner, service: FakeArtifactService) -> None:
    runner.write_suite(*orders(bad=(1, 2)))
    step = runner.push(environ=service.environ, min_pass_rate="1", **WANTED)
    assert (step.code, step.outcome) == (1, "failed")
    assert [data for _, _, data in runner.github.artifacts.values()] == [step.archive]


def test_without_the_input_nothing_is_uploaded(runner: Runner, service: FakeArtifactService) -> None:
    assert pushed(runner, service.environ, upload_evidence="false").code == 0
    assert (service.created, runner.github.artifacts) == ({}, {})


def test_a_report_on_a_forks_evidence_uploads_nothing(runner: Runner, service: FakeArtifactService) -> None:
    evidence = pushed(runner, {}, upload_evidence="false").archive
    runner.github.add_run(500, fork=True, event="pull_request", head_sha=BASE_SHA, head_branch="topic")
    runner.github.add_artifact(500, evidence)
    step = runner.report(environ=service.environ, **WANTED)
    assert step.outcome == "no-baseline", step.log
    assert service.created == {}


@pytest.mark.parametrize(
    ("faults", "environ", "words"),
    [
        ([], {"ACTIONS_RESULTS_URL": ""}, "no access to the artifact service"),
        ([], {"ACTIONS_RUNTIME_TOKEN": ""}, "not for `run` steps"),
        ([], {"ACTIONS_RUNTIME_TOKEN": "a.b.c"}, "does not say which run"),
        ([], {"ACTIONS_RUNTIME_TOKEN": runtime_token("Actions.Other:1:2")}, "does not say which run"),
        ([Fault("POST", "CreateArtifact", 403, message="no")], {}, "HTTP 403"),
        ([Fault("POST", "CreateArtifact", 409)], {}, "has an artifact `agent-eval-evidence` already"),
        ([Fault("PUT", "", 403, message="no")], {}, "HTTP 403"),
        ([Fault("POST", "FinalizeArtifact", 404)], {}, "HTTP 404"),
    ],
)
def test_an_upload_that_fails_is_said_at_the_top_and_decides_nothing(
    runner: Runner, service: FakeArtifactService, faults: list[Fault], environ: dict[str, str], words: str
) -> None:
    service.faults = faults
    step = pushed(runner, {**service.environ, **environ})
    assert (step.code, step.outcome) == (0, "no-baseline")
    (warning,) = [text for text in step.annotations if "not uploaded" in text]
    assert words in warning
    assert "not uploaded" in step.summary
    assert "S3cret" not in step.log + step.summary
    assert step.archive


def test_broken_connection_is_tried_again(runner: Runner, service: FakeArtifactService) -> None:
    service.faults = [Fault("PUT", "", 503, headers={"Retry-After": "0"})]
    assert "Uploaded the evidence" in pushed(runner, service.environ).log
    assert len(runner.github.artifacts) == 1
    assert SERVICE.endswith("ArtifactService")
