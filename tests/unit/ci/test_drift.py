"""The watch on a platform without issues, and what is written of a loss there."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from agent_eval.gate.drift_cause import KnownLoss

from agent_eval.ci.issues import Issue, IssueMarker
from agent_eval.ci.job import run_job
from agent_eval.ci.loosening import loosened_options
from agent_eval.ci.platforms.redacting import RedactingIssues
from agent_eval.evidence.reader import open_pack
from agent_eval.history.record import record_of
from agent_eval.storage.redaction import Redactor
from tests.e2e.runner import orders
from tests.unit.ci.evaluations import write_suite
from tests.unit.ci.platforms.repository import Repository
from tests.unit.history.made import made_case

WELL, ILL = orders(8), orders(8, bad=(1, 2, 3, 4, 5, 6, 7))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A checkout of main with the evidence of a release."""
    repository = Repository(tmp_path / "checkout")
    monkeypatch.chdir(repository.top)
    evaluated(WELL, number=0, drift_release="")
    shutil.copytree("agent-eval-out/shop", "release")
    return repository


def evaluated(cases: list[dict[str, object]], number: int = 1, **inputs: str) -> str:
    """Evaluate a suite outside CI; return what the job printed."""
    write_suite(cases)
    given = {
        "suite": "s.json",
        "baseline-store": "../store",
        "fail-on": "never",
        "drift-release": "release",
        **{name.replace("_", "-"): text for name, text in inputs.items()},
    }
    environ = {"PATH": "/usr/bin:/bin", "AGENT_EVAL_CLOCK": f"2026-03-{number + 1:02}T02:00:00+00:00"}
    stream = io.StringIO()
    code = run_job(given, environ, stream, config_file=None)
    assert int(code) in (0, 2), stream.getvalue()
    return stream.getvalue()


def test_without_issues_the_loss_is_a_warning_and_in_the_report(checkout: Repository) -> None:
    log = evaluated(ILL)
    assert "Warning: The base branch passes less often than the release" in log
    assert "no issues that the job could write" not in log
    assert "lost quality since the release" in Path("agent-eval-out/report.md").read_text()


def test_without_an_issue_that_adds_nights_up_the_released_agent_blames_nothing(
    checkout: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked anew every night, the test would sooner or later blame the wrong part."""
    ill = record_of(open_pack(Path("release")))
    ill.cases.update(
        {name: made_case(name, 0, 1, definition=ill.cases[name].definition) for name in ill.cases}
    )
    monkeypatch.setattr("agent_eval.ci.drift.ReleasedAgent.run", lambda *_: ill)
    evaluated(ILL, release_agent="command:cat")
    report = Path("agent-eval-out/report.md").read_text()
    assert "| Released agent, run again | 0% passed (8 trials) |" in report
    assert "There is no issue in which" in report
    assert "the model or a service moved" not in report


def test_an_issue_that_was_asked_for_where_there_are_none_is_a_warning(checkout: Repository) -> None:
    assert "this platform has no issues that the job could write" in evaluated(WELL, drift_issue="always")


def test_without_a_loss_the_report_says_so(checkout: Repository) -> None:
    log = evaluated(WELL)
    assert "Drift since the release release: no loss is shown." in log
    assert "no loss since the release is shown" in Path("agent-eval-out/report.md").read_text()


def test_a_branch_is_not_watched(checkout: Repository) -> None:
    checkout.git("checkout", "--quiet", "-b", "topic")
    assert "since the release" not in evaluated(ILL)


def test_several_archives_in_a_directory_know_the_rate_of_the_release_better(checkout: Repository) -> None:
    shutil.rmtree("release")
    Path("release").mkdir()
    assert "'release' has no evidence" in evaluated(WELL)
    for number in (2, 3):
        evaluated(WELL, number, drift_release="")
        shutil.copy("agent-eval-out/evidence.zip", f"release/{number}.zip")
    evaluated(WELL, 4)
    assert "100% passed (16 trials)" in Path("agent-eval-out/report.md").read_text()


def test_a_release_without_the_suite_is_said(checkout: Repository) -> None:
    write_suite(WELL, name="other.json", dataset_id="other")
    evaluated(WELL, suite="s.json\nother.json")
    report = Path("agent-eval-out/report.md").read_text()
    assert "The release has no evidence of this suite" in report


def test_a_release_that_is_judged_otherwise_is_no_loss_and_said(checkout: Repository) -> None:
    evaluated(ILL, policy_hash="another")
    report = Path("agent-eval-out/report.md").read_text()
    assert "Not held against the release" in report
    assert "lost quality" not in report


def test_a_release_of_a_name_in_the_registry_is_one_that_was_registered(checkout: Repository) -> None:
    from agent_eval.registry.baselines import set_baseline
    from agent_eval.registry.store import RegistryStore

    store = RegistryStore(Path(".agent_eval/registry.json"))
    set_baseline(store, "v1", Path("release"), at="2026-03-01T00:00:00+00:00")
    assert "Drift since the release v1: no loss is shown." in evaluated(WELL, drift_release="v1")
    shutil.rmtree("release")
    shutil.copytree("agent-eval-out/shop", "release")
    assert "is not the one that was registered" in evaluated(WELL, number=2, drift_release="v1")


def test_a_suite_that_is_gone_does_not_close_the_issue(
    checkout: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept()
    marker = IssueMarker("default", 0, 1, {"shop": KnownLoss()})
    kept.open = Issue(7, "bot", f"{marker}\n\nlost", True, "https://issues.example/7")
    monkeypatch.setattr("agent_eval.ci.platforms.local.job.LocalDirectory.issues", lambda _: kept)
    write_suite(WELL, name="renamed.json", dataset_id="renamed")
    evaluated(WELL, suite="renamed.json")
    assert kept.closed == 0
    assert "up=shop:0/0:0/0:0:unclear: -->" in kept.written[-1]
    assert "this job does not evaluate it any more" in kept.written[-1]


class Kept:
    """Issues in memory, which keep what is written there."""

    refused = "refused"

    def __init__(self) -> None:
        self.written: list[str] = []
        self.open: Issue | None = None
        self.closed = 0

    def author(self) -> str:
        return "bot"

    def listed(self, author: str, *, is_open: bool) -> list[Issue]:
        return [self.open] if is_open and self.open is not None else []

    def create(self, title: str, body: str) -> Issue:
        self.written += [title, body]
        return Issue(1, "bot", body, True, "")

    def update(self, number: int, body: str) -> Issue:
        self.written.append(body)
        return Issue(1, "bot", body, True, "")

    def close(self, number: int, body: str, *, is_duplicate: bool = False) -> Issue:
        self.closed += 1
        return self.update(number, body)


def test_whatever_is_written_into_an_issue_is_redacted_but_its_marker() -> None:
    kept = Kept()
    issues = RedactingIssues(kept, Redactor(["s3cret-value", "agent-eval-drift"]).redact_text)
    body = "<!-- agent-eval-drift id=default run=1 attempt=1 up= -->\n\ns3cret-value"
    issues.create("s3cret-value", body)
    issues.update(1, body)
    issues.close(1, body)
    assert not any("s3cret-value" in text for text in kept.written)
    assert all(text.startswith("<!-- agent-eval-drift id=") for text in kept.written[1:])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("drift-release", "v1", ""),
        ("drift-issue", "auto", "never"),
        ("quality-budget", 0.05, 0.2),
        ("release-agent", "auto", "command:cat"),
    ],
)
def test_a_change_that_would_blind_the_watch_is_reviewed_first(
    name: str, before: object, after: object
) -> None:
    from agent_eval.ci.inputs import INPUTS

    base = {row.name: None for row in INPUTS} | {name: before}
    assert any(f"`{name}` was" in sentence for sentence in loosened_options(base, {**base, name: after}))
    if name in ("drift-issue", "quality-budget"):
        assert loosened_options({**base, name: after}, base) == []
