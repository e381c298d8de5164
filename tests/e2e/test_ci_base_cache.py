"""A change that is pushed again uses the merge base's last trials, where they can excuse nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.evidence.archive import open_bundle
from tests.e2e.runner import PULL
from tests.e2e.test_ci_confirmation import (
    COMPARE,
    REGRESSED,
    Repository,
    decision,
    record,
    regate,
    repository,
    verdicts,
)
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub

__all__ = ["repository"]


@pytest.fixture
def cache(repository: Repository) -> Path:
    return repository.runner.root / "cache"


@pytest.fixture
def pushed(repository: Repository, github: FakeGitHub, cache: Path) -> Repository:
    """A change that broke one case was confirmed once, with a cache."""
    repository.push()
    repository.commit("topic", REGRESSED)
    step = repository.change(base_cache=str(cache))
    assert verdicts(step) == {"order-1": "confirmed"}, step.log
    assert record(step).spent.trials == 2 * 6
    assert len(list(cache.glob("*.zip"))) == 1
    (repository.world / "calls").write_text("")
    return repository


def test_a_change_that_is_pushed_again_runs_two_trials_of_the_merge_base_instead_of_six(
    pushed: Repository, github: FakeGitHub, cache: Path
) -> None:
    [entry] = cache.iterdir()
    kept = entry.read_bytes()
    pushed.commit("topic", f"{REGRESSED} # once more")
    step = pushed.change(base_cache=str(cache), run_id=501)
    assert (step.code, verdicts(step)) == (1, {"order-1": "confirmed"}), step.log
    assert len(pushed.calls("order-1", "base")) == 2
    found = record(step)
    assert found.spent.trials == 6 + 2
    assert found.cases[0].cached is not None
    names = found.cases[0].cached.packs
    assert names == [f"base-cached-1-{number}" for number in range(1, 5)]
    assert set(names) < set(open_bundle(step.workspace / COMPARE / "confirmation.zip"))
    comment = github.bodies(PULL)[0]
    assert "4 trials of the merge base are of an earlier run within 24 hours (`base-cache`)." in comment
    assert "in the same hour" not in comment
    # The evidence alone gives the same decision, and nothing else than what it has.
    replayed = regate(pushed, "again.json")
    assert (replayed.code, replayed.json()["gate_status"]) == (1, "failed")
    # What was taken from the cache is not kept again: it would never grow old.
    assert entry.read_bytes() == kept


@WHOLE_JOB
def test_where_the_merge_base_fails_today_its_earlier_trials_convict_no_change(
    pushed: Repository, github: FakeGitHub, cache: Path
) -> None:
    step = pushed.change("order-1-broken", base_cache=str(cache), run_id=501)
    assert verdicts(step) == {"order-1": "not-yours"}, step.log
    assert record(step).cases[0].cached is None
    assert record(step).spent.trials == 2 * 3


@pytest.mark.parametrize("changed", ["suite.json", "agent-eval.yml", ".github/ci.yml"])
@WHOLE_JOB
def test_trials_of_another_definition_or_setup_and_doubtful_ones_are_not_used(
    pushed: Repository, github: FakeGitHub, cache: Path, changed: str
) -> None:
    if changed == "suite.json":
        text = (pushed.top / "suite.json").read_text()
        text = text.replace('["escalate"]', '["escalate", "refund"]')
        assert "refund" in text
        pushed.commit("topic", REGRESSED, {"suite.json": text})
    elif changed == "agent-eval.yml":
        # The merge base has another setup, and so is another commit.
        pushed.git("checkout", "--quiet", pushed.base)
        pushed.base = pushed.commit("base", files={"agent-eval.yml": "setup-command: touch built\n"})
        pushed.commit("topic", REGRESSED)
    else:
        (pushed.top / ".github").mkdir()
        pushed.commit("topic", REGRESSED, {changed: "steps: []\n"})
    step = pushed.change(base_cache=str(cache), run_id=501)
    assert [row.cached for row in record(step).cases] == [None], step.log
    assert len(pushed.calls("order-1", "base")) == 6
    assert not decision(step)["passed"]


@WHOLE_JOB
def test_what_an_earlier_run_writes_there_itself_is_not_used(
    pushed: Repository, github: FakeGitHub, cache: Path
) -> None:
    # The change's agent can write there: here the trials of a merge base that fails.
    step = pushed.change(base_cache=str(cache), run_id=501)
    trials = open_bundle(step.workspace / COMPARE / "confirmation.zip")
    assert any(name.startswith("candidate") for name in trials)
    [entry] = cache.iterdir()
    for content in (b"", b"no zip", (step.workspace / COMPARE / "confirmation.zip").read_bytes()):
        entry.write_bytes(content)
        again = pushed.change(base_cache=str(cache), run_id=502)
        assert verdicts(again) == {"order-1": "confirmed"}, again.log
        assert record(again).cases[0].cached is None
        # The trials that were run instead are kept.
        assert len(open_bundle(entry)) == 6


@pytest.mark.parametrize("place", ["cache", "linked"])
def test_a_cache_in_the_checkout_is_refused(repository: Repository, github: FakeGitHub, place: str) -> None:
    repository.push()
    repository.commit("topic", REGRESSED)
    (repository.top / "cache").mkdir()
    (repository.runner.root / "linked").symlink_to(repository.top / "cache")
    named = {"cache": "cache", "linked": str(repository.runner.root / "linked")}[place]
    step = repository.change(base_cache=named)
    assert step.code == 2, step.log
    assert "`base-cache` is in the checkout" in step.log
