"""Runs on the base branch leave their counts for later ones; nothing else does."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from agent_eval.ci.history_branch import HistoryBranch

from agent_eval.ci.job import run_job
from agent_eval.errors import ExitCode, InvalidInput, RemoteError, UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from agent_eval.history.directory import HistoryDirectory
from agent_eval.history.evidence import HISTORY, read_history
from agent_eval.history.files import encode_all
from tests.e2e.runner import orders
from tests.factories import make_suite
from tests.unit.ci.platforms.repository import Repository
from tests.unit.history.made import made_run

OUT = Path("agent-eval-out")


class Nights:
    """A checkout whose suite is judged night after night."""

    def __init__(self, repository: Repository, store: Path) -> None:
        self.repository, self.store, self.night, self.log = repository, store, 0, ""
        self.orders = 4

    def evaluate(self, *, bad: tuple[int, ...] = (), note: tuple[int, ...] = (), **flags: str) -> ExitCode:
        """Judge the orders, four unless a test wants more, of which those in `bad` fail.

        Those in `note` get a note of no consequence.
        """
        self.night += 1
        cases = orders(self.orders, bad=bad)
        for number in note:
            cases[number - 1].setdefault("metadata", {})["owner"] = "team-b"
        (self.repository.top / "suite.json").write_text(json.dumps(make_suite(*cases)))
        stream = io.StringIO()
        given = {
            "suite": "suite.json",
            "max-regressed-cases": "4",
            "baseline-store": str(self.store),
            **{name.replace("_", "-"): value for name, value in flags.items()},
        }
        clock = {"AGENT_EVAL_CLOCK": f"2026-11-{self.night:02d}T08:00:00+00:00"}
        code = run_job(given, {**self.repository.environ, **clock}, stream)
        self.log = stream.getvalue()
        return code

    def carried(self) -> list[tuple[int, int]]:
        """Passed and all cases of each run in the evidence that was left last, the newest first."""
        records = read_history(open_pack(OUT / "shop"))
        return [(sum(case.passed for case in run.cases.values()), len(run.cases)) for run in records]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path / "checkout")
    monkeypatch.chdir(made.top)
    return made


@pytest.fixture
def nights(repository: Repository, tmp_path: Path) -> Nights:
    return Nights(repository, tmp_path / "store")


def test_each_run_on_main_carries_the_counts_of_those_before_it(nights: Nights) -> None:
    for bad in ((), (1,), (1, 2)):
        nights.evaluate(bad=bad)
    assert nights.carried() == [(2, 4), (3, 4), (4, 4)]


def test_a_run_on_another_branch_carries_none(nights: Nights) -> None:
    nights.evaluate()
    nights.repository.branch("change", nights.repository.commit())
    assert nights.evaluate() is ExitCode.OK
    assert not (OUT / "shop" / HISTORY).exists()
    nights.repository.git("symbolic-ref", "HEAD", "refs/heads/main")
    nights.evaluate(bad=(1,))
    assert nights.carried() == [(3, 4), (4, 4)]


def test_a_branch_that_names_itself_as_the_base_carries_none(nights: Nights) -> None:
    nights.evaluate()
    nights.repository.branch("change", nights.repository.commit())
    Path("agent-eval.yml").write_text("baseline-branch: change\n")
    nights.evaluate()
    assert not (OUT / "shop" / HISTORY).exists()


def test_without_a_history_none_is_written(nights: Nights) -> None:
    nights.evaluate(history="none")
    assert not (OUT / "shop" / HISTORY).exists()


def test_a_run_that_is_no_baseline_is_in_the_history_all_the_same(nights: Nights) -> None:
    nights.evaluate()
    nights.evaluate(max_baseline_error_rate="0", bad=(1, 2, 3, 4))
    nights.evaluate()
    assert nights.carried() == [(4, 4), (0, 4), (4, 4)]


def test_a_directory_has_the_runs_of_main_alone(nights: Nights, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    nights.evaluate(history=str(place))
    nights.evaluate(history=str(place), bad=(1,))
    nights.repository.branch("change", nights.repository.commit())
    nights.evaluate(history=str(place), bad=(1, 2))
    assert [run.pass_rate for run in HistoryDirectory(place).read("shop")] == [0.75, 1.0]
    assert not (OUT / "shop" / HISTORY).exists()


@pytest.mark.parametrize("named", ["kept", "linked", "..", "absolute"])
def test_a_change_cannot_bring_the_runs_that_it_is_held_against(nights: Nights, named: str) -> None:
    top = nights.repository.top
    place = {"kept": top / "kept", "linked": top.parent / "kept", "..": top.parent, "absolute": top / "kept"}
    for night in range(5):
        nights.evaluate(history=str(place[named]), bad=(1, 2, 3, 4) if night else ())
    # The change puts the records where the job looks for them.
    if named == "linked":
        (top / "linked").symlink_to(place[named])
    elif named == "..":
        (top.parent / "shop").rename(top / "shop")
        (top.parent / "shop").symlink_to(top / "shop")
    nights.repository.branch("change", nights.repository.commit())
    where = str(place[named]) if named == "absolute" else named
    nights.evaluate(history=where, baseline_runs="8", bad=(1, 2, 3, 4))
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    assert decision["evidence"]["pooled"] is None
    assert "is below the checkout, where a change can alter it, so it is not used" in nights.log
    comment = (nights.store / "comments" / "change" / "default.md").read_text()
    assert "last 5 runs" not in comment


def test_a_change_cannot_choose_its_runs_by_naming_another_model(nights: Nights, tmp_path: Path) -> None:
    place = str(tmp_path / "kept")
    for _ in range(4):
        nights.evaluate(history=place, model="old", bad=(1, 2, 3, 4))
    for _ in range(4):
        nights.evaluate(history=place, model="new")
    nights.repository.branch("change", nights.repository.commit())
    flags = {"history": place, "baseline_runs": "8"}
    nights.evaluate(**flags, model="old", bad=(1, 2, 3, 4), max_regressed_cases="0")
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    assert decision["evidence"]["pooled"] is None
    assert decision["gate_status"] == "failed"
    assert "is not that of the baseline, so it was compared with that one run" in (
        OUT / "report.md"
    ).read_text().replace("\n", " ")
    nights.evaluate(**flags, model="new")
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    assert decision["evidence"]["pooled"]["runs"] == 4


def test_a_record_that_was_edited_stops_the_job(nights: Nights, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    nights.evaluate(history=str(place))
    (record,) = (place / "shop").iterdir()
    record.write_bytes(record.read_bytes().replace(b'"passed":1', b'"passed":0'))
    assert nights.evaluate(history=str(place)) is ExitCode.WRONG_REQUEST
    assert "its digest differs" in nights.log


def test_counts_that_were_changed_in_the_evidence_are_not_used(nights: Nights) -> None:
    nights.evaluate()
    history = OUT / "shop" / HISTORY
    history.write_bytes(history.read_bytes().replace(b'"passed":1', b'"passed":0'))
    assert nights.evaluate(baseline=str(OUT / "shop"), out="again") is ExitCode.WRONG_REQUEST
    assert "history/runs.jsonl" in nights.log


def test_a_history_that_was_put_into_another_pack_is_refused(nights: Nights) -> None:
    nights.evaluate(history="none")
    write_output(OUT / "shop" / HISTORY, encode_all([made_run(1, {"order-1": (1, 1)})]))
    with pytest.raises(InvalidInput, match="not that of the run in this pack"):
        read_history(open_pack(OUT / "shop"))


def test_the_history_is_in_one_place(nights: Nights) -> None:
    assert nights.evaluate(history="kept", history_branch="counts") is ExitCode.WRONG_REQUEST
    assert "one place" in nights.log


def test_a_change_is_placed_among_the_last_runs_of_main(nights: Nights) -> None:
    for bad in ((), (1,), (2,), (1,), ()):
        nights.evaluate(bad=bad)
    nights.repository.branch("change", nights.repository.commit())
    nights.evaluate(bad=(1, 2, 3))
    comment = (nights.store / "comments" / "change" / "default.md").read_text()
    assert comment.splitlines()[-1] == (
        "Scored trials that passed: 25.0%; main's last 5 runs: 75.0% to 100%, so this is unusually low."
    )


def test_the_page_shows_the_history_of_main(nights: Nights) -> None:
    for bad in ((), (1,), (2,), (1,), ()):
        nights.evaluate(bad=bad)
    nights.repository.branch("change", nights.repository.commit())
    nights.evaluate(bad=(1, 2, 3))
    page = (OUT / "agent-eval-shop.html").read_text()
    assert "History of main" in page
    assert "Pass rate: 25.0%; main&#39;s last 5 runs: 75.0% to 100%" in page
    assert '<td class="letters">PFPFP</td>' in page
    assert "4 collecting" in page
    assert " style=" not in page


def test_without_a_history_nothing_is_said_of_it(nights: Nights) -> None:
    nights.evaluate(history="none")
    nights.evaluate(history="none")
    assert "History of" not in (OUT / "agent-eval-shop.html").read_text()
    assert "last run" not in next((nights.store / "comments").rglob("*.md")).read_text()


def test_a_change_is_held_against_the_last_runs_of_main(nights: Nights) -> None:
    for bad in ((), (1,), (), (), (2,)):
        nights.evaluate(bad=bad)
    nights.repository.branch("change", nights.repository.commit())
    assert nights.evaluate(bad=(1,), baseline_runs="20") is ExitCode.OK
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    pooled = decision["evidence"]["pooled"]
    assert (pooled["runs"], pooled["cases"], pooled["mean"], pooled["rate"]) == (5, 4, 0.9, 0.75)
    assert decision["evidence"]["method"] == "pooled-prediction"
    regression = next(step for step in decision["steps"] if step["name"] == "regression")
    assert (regression["status"], "the last 5 runs of the base branch" in regression["message"]) == (
        "passed",
        True,
    )


def test_a_fall_of_every_case_is_blocked_by_the_pool(nights: Nights) -> None:
    for bad in ((), (1,), (), (), (2,)):
        nights.evaluate(bad=bad)
    nights.repository.branch("change", nights.repository.commit())
    assert nights.evaluate(bad=(1, 2, 3, 4), baseline_runs="20") is ExitCode.NO
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    regression = next(step for step in decision["steps"] if step["name"] == "regression")
    assert regression["status"] == "failed"
    assert "less than chance explains after the last 5 runs" in regression["message"]


def test_a_change_takes_no_case_that_it_breaks_out_of_the_pool(nights: Nights) -> None:
    nights.orders = 40
    for _ in range(5):
        nights.evaluate()
    nights.repository.branch("change", nights.repository.commit())
    broken = (1, 2, 3, 4)
    assert nights.evaluate(bad=broken, note=broken, baseline_runs="20") is ExitCode.OK
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    assert decision["evidence"]["pooled"] is None
    assert decision["gate_status"] == "inconclusive"
    said = (OUT / "report.md").read_text()
    assert "got worse and are not in the pooled runs as defined now" in said


def test_a_pool_of_fewer_than_four_runs_is_none_and_that_is_said(nights: Nights) -> None:
    for _ in range(5):
        nights.evaluate()
    nights.repository.branch("change", nights.repository.commit())
    nights.evaluate(bad=(1,), baseline_runs="2")
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    assert decision["evidence"]["pooled"] is None
    assert "`baseline-runs: 2` is less than 4" in (OUT / "report.md").read_text()


def test_with_too_few_runs_one_run_is_compared_with_and_that_is_said(nights: Nights) -> None:
    nights.evaluate()
    nights.evaluate(baseline_runs="20")
    decision = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())
    assert decision["evidence"]["pooled"] is None
    assert "fewer than 4 whole runs" in (OUT / "report.md").read_text()


@pytest.fixture
def origin(repository: Repository, tmp_path: Path) -> Path:
    """A bare repository that the checkout pushes to."""
    bare = tmp_path / "origin.git"
    repository.git("init", "--quiet", "--bare", str(bare))
    repository.git("remote", "add", "origin", str(bare))
    repository.git("push", "--quiet", "origin", "main")
    return bare


_HOSTILE = """\
git config remote.origin.url {root}/evil.git
mkdir -p .git/hooks
printf '#!/bin/sh\\necho seen >> {root}/seen-by-a-hook\\n' > .git/hooks/reference-transaction
chmod +x .git/hooks/reference-transaction
"""
"""A setup that turns the checkout's remote its own way, with a hook that would see git's access."""


class Answering:
    """Nights on which an agent answers, once it is set up by hostile code."""

    def __init__(self, nights: Nights, root: Path) -> None:
        self.nights, self.setup = nights, _HOSTILE.format(root=root)

    def evaluate(self, *tools: str, **flags: Any) -> ExitCode:
        """Let the agent use these tools for every order."""
        calls = [{"tool": name, "arguments": {}} for name in tools]
        Path("answer.json").write_text(json.dumps({"assistant_output": "On its way.", "tool_calls": calls}))
        agent: Any = {"agent_command": "cat answer.json", "setup_command": self.setup, "confirm_pairs": "0"}
        return self.nights.evaluate(history_branch="counts", **agent, **flags)


def branch_of(repository: Repository, name: str = "counts") -> HistoryBranch:
    return HistoryBranch(repository.top, name, repository.environ)


def test_a_branch_gets_one_file_a_run_and_no_other_file(nights: Nights, origin: Path) -> None:
    nights.evaluate(history_branch="counts")
    nights.evaluate(history_branch="counts", bad=(1,))
    git = nights.repository.git
    assert len(git("--git-dir", str(origin), "ls-tree", "-r", "--name-only", "counts").splitlines()) == 2
    assert len(git("--git-dir", str(origin), "rev-list", "counts").splitlines()) == 2
    assert "README" not in git("--git-dir", str(origin), "ls-tree", "-r", "--name-only", "counts")
    assert [run.pass_rate for run in branch_of(nights.repository).read("shop")] == [0.75, 1.0]
    assert git("status", "--porcelain", "--", "README") == ""


def test_a_change_reads_the_branch_and_does_not_write_it(nights: Nights, origin: Path) -> None:
    nights.evaluate(history_branch="counts")
    nights.repository.branch("change", nights.repository.commit())
    nights.evaluate(history_branch="counts")
    assert len(branch_of(nights.repository).read("shop")) == 1


def test_a_push_that_comes_too_late_is_made_again(repository: Repository, origin: Path) -> None:
    first, second = branch_of(repository), branch_of(repository)
    first.write([made_run(1, {"a": (1, 1)})])
    fetch, pushed = second._fetch, []

    def with_another_job_between() -> str | None:
        tip = fetch()
        if not pushed:
            pushed.append(first.write([made_run(2, {"a": (1, 1)})]))
        return tip

    second._fetch = with_another_job_between  # type: ignore[method-assign]
    second.write([made_run(3, {"a": (1, 1)})])
    assert [run.run.run_id for run in first.read("shop")] == ["ci-3", "ci-2", "ci-1"]


def test_the_history_is_at_the_remote_that_the_checkout_had_before_its_setup(
    nights: Nights, origin: Path, tmp_path: Path
) -> None:
    git, evil = nights.repository.git, tmp_path / "evil.git"
    git("init", "--quiet", "--bare", str(evil))
    answering = Answering(nights, tmp_path)
    for _ in range(4):
        git("config", "remote.origin.url", str(origin))
        answering.evaluate("lookup_order")
    assert git("config", "remote.origin.url") == str(evil)
    assert git("--git-dir", str(evil), "for-each-ref") == ""
    assert not (tmp_path / "seen-by-a-hook").exists()
    (nights.repository.top / ".git" / "hooks" / "reference-transaction").unlink()
    git("config", "remote.origin.url", str(origin))
    nights.repository.branch("change", nights.repository.commit())
    answering.evaluate("escalate", baseline_runs="8")
    pooled = json.loads((OUT / "shop" / "compare" / "gate_decision.json").read_text())["evidence"]["pooled"]
    assert (pooled["runs"], pooled["mean"], pooled["rate"]) == (4, 1.0, 0.0)
    assert not (tmp_path / "seen-by-a-hook").exists()


def test_the_access_of_the_checkout_is_that_of_the_branch(
    repository: Repository, origin: Path, tmp_path: Path
) -> None:
    """An included file rewrites the address, as the files do in which runners keep the credentials."""
    included = tmp_path / "access"
    included.write_text(f'[url "{origin.parent}/"]\n\tinsteadOf = shop:\n')
    repository.git("config", "include.path", str(included))
    repository.git("config", "remote.origin.url", f"shop:{origin.name}")
    branch = branch_of(repository)
    repository.git("config", "--unset", "include.path")
    branch.write([made_run(1, {"a": (1, 1)})])
    assert [run.run.run_id for run in branch.read("shop")] == ["ci-1"]


def test_a_branch_with_anything_else_is_neither_read_nor_written(
    repository: Repository, origin: Path
) -> None:
    with pytest.raises(InvalidInput, match="'README', which is no record"):
        branch_of(repository, "main").read("shop")
    with pytest.raises(InvalidInput, match="no record"):
        branch_of(repository, "main").write([made_run(1, {"a": (1, 1)})])


def test_a_branch_that_cannot_be_read_is_no_history_and_is_said(nights: Nights) -> None:
    with pytest.raises(RemoteError, match="ls-remote"):
        branch_of(nights.repository).read("shop")
    assert nights.evaluate(history_branch="counts") is ExitCode.OK
    assert "There is no history: `git ls-remote` failed" in (OUT / "report.md").read_text()
    assert "was not added to the history" in nights.log


@pytest.mark.parametrize("name", ["--upload-pack=x", "a b", "../main", "x.lock", "a..b", "x/"])
def test_a_name_that_git_would_take_for_something_else_is_refused(repository: Repository, name: str) -> None:
    with pytest.raises(UsageError, match="not the name of a branch"):
        branch_of(repository, name)
