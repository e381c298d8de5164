"""Which earlier run is evidence of a reviewed commit at or before the base, whatever its branch is called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agent_eval.ci.baseline import Ground, Lack, Search, find_baselines
from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.earlier import Asked, EarlierRun, Expired, Skipped
from agent_eval.ci.evaluate import evaluate, read_history_of_main
from agent_eval.ci.place import JobPlace, Refs, find_place
from agent_eval.ci.platforms.base import CiRun
from agent_eval.storage.redaction_rules import NO_RULES, RedactionRules
from tests.e2e.runner import orders
from tests.fakes.commits import check_out, sha, tip_of
from tests.unit.ci.evaluations import write_suite
from tests.unit.ci.jobs import make_job, settings_of

BASE = sha("merge base")


@cache
def evidence_of(commit: str, *, bad: tuple[int, ...] = ()) -> bytes:
    """The evidence archive of a run of a commit of main."""
    with TemporaryDirectory() as name:
        place = Path(name)
        write_suite(orders(bad=bad), name=str(place / "s.json"))
        settings = settings_of(suite=str(place / "s.json"), baseline="none", out=str(place / "out"))
        made = make_job(settings)
        made.platform.__dict__["run"] = CiRun(head_sha=commit)
        archive = evaluate(made).archive
        assert archive is not None
        return archive.read_bytes()


def run(number: int, commit: str, found: bytes | Exception | None = None, **fields: object) -> EarlierRun:
    def fetch() -> bytes:
        if isinstance(found, Exception):
            raise found
        return evidence_of(commit) if found is None else found

    made = EarlierRun(
        number=number, label=f"run {number}", commits=frozenset({commit}), branch="main", fetch=fetch
    )
    return replace(made, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Job:
    """A change that began at the merge base, on a clone that has main."""

    place: JobPlace

    def search(self, *runs: EarlierRun) -> Search:
        return find_baselines(self.given(runs), self.ground)

    def given(self, runs: tuple[EarlierRun, ...]) -> Callable[[Asked], tuple[EarlierRun, ...]]:
        def listed(asked: Asked) -> tuple[EarlierRun, ...]:
            assert (asked.branches, asked.commit) == (("main",), self.place.base)
            return runs

        return listed

    @property
    def ground(self) -> Ground:
        return Ground(place=self.place, wanted=("shop",), remedy="Check the token.")

    def read_history(self, found: Search, pattern: str | None = None) -> Search:
        made = make_job(settings_of(suite="s.json"))
        rules = RedactionRules(patterns=(pattern,)) if pattern is not None else NO_RULES
        redactor = made.redactor.with_rules(rules)
        job = replace(made, place=self.place, redactor=redactor)
        read_history_of_main(job, found)
        return found


@contextmanager
def job_at(top: Path, head: str) -> Iterator[Job]:
    tip = tip_of({})
    check_out(top, head)
    with closing(PrivateClone.of(top, os.environ)) as clone:
        refs = Refs(default_branch="main", target="main")
        yield Job(find_place(refs, clone, lambda _: tip, lambda _: []))


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with job_at(tmp_path / "checkout", sha("head")) as made:
        assert made.place.base == BASE
        yield made


def test_the_nearest_commit_counts_and_of_its_runs_the_newest(job: Job) -> None:
    runs = [run(12, sha("commit 399")), run(9, BASE), run(10, BASE), run(11, sha("commit 398"))]
    origin = job.search(*runs).baselines["shop"].origin
    assert (origin.run_id, origin.sha, origin.how) == (10, BASE, "merge base")
    origin = job.search(runs[0], runs[3]).baselines["shop"].origin
    assert (origin.run_id, origin.how) == (12, "1 commit before the base")


def test_a_commit_after_the_base_is_no_baseline(job: Job) -> None:
    found = job.search(run(12, sha("commit 450")))
    assert found.baselines == {}
    assert found.lack("shop") is Lack.LOST
    assert found.lost == ["Run 12 left evidence, of a commit that is after the base."]


@pytest.mark.parametrize(
    "made",
    [
        {"branch": "topic"},
        {"branch": "lax"},
        {"is_own_code": False},
        {"commits": frozenset({sha("head")})},
        {"commits": frozenset({"0" * 40})},
        {"commits": frozenset()},
    ],
    ids=str,
)
def test_a_run_of_no_reviewed_commit_of_a_trusted_branch_is_none(job: Job, made: dict[str, object]) -> None:
    found = job.search(run(12, BASE, Skipped("Nothing."), **made))
    assert (found.baselines, found.looked_at) == ({}, 0)
    assert found.lack("shop") is Lack.FIRST


def test_evidence_that_names_no_commit_is_withheld(job: Job) -> None:
    with TemporaryDirectory() as name:
        write_suite(orders(), name=f"{name}/s.json")
        settings = settings_of(suite=f"{name}/s.json", baseline="none", out=f"{name}/out")
        archive = evaluate(make_job(settings)).archive
        assert archive is not None
        found = job.search(run(12, BASE, archive.read_bytes()))
    assert found.outage is not None
    assert "does not say of which commit it is" in found.outage.message


def test_of_several_commits_those_of_other_repositories_do_not_count(job: Job) -> None:
    library = "d" * 40
    found = job.search(run(12, BASE, commits=frozenset({library, BASE})))
    assert found.baselines["shop"].origin.sha == BASE


def test_a_branch_that_was_pushed_over_lost_its_evidence(job: Job) -> None:
    gone = "e" * 40
    found = job.search(run(12, gone, evidence_of(BASE)))
    assert found.lack("shop") is Lack.LOST
    assert "in no trusted branch" in found.lost[0]
    assert job.search(run(12, gone, Expired("Gone."))).lack("shop") is Lack.LOST
    assert job.search(run(12, gone, Skipped("None."))).lack("shop") is Lack.FIRST


def test_expired_evidence_of_the_nearest_commit_is_stood_in_for_by_the_next(job: Job) -> None:
    expired = run(12, BASE, Expired("The artifact of run 12 has expired."))
    found = job.search(expired, run(11, sha("commit 399")))
    assert found.baselines["shop"].origin.run_id == 11
    alone = job.search(expired)
    assert (alone.lack("shop"), alone.outage) == (Lack.LOST, None)


def test_the_history_has_what_is_at_or_before_the_base_and_the_newest_run_of_all(job: Job) -> None:
    newest = evidence_of(sha("commit 450"), bad=(1,))
    found = job.search(run(12, sha("commit 450"), newest), run(10, BASE))
    job.read_history(found)
    assert [record.run.git_commit for record in found.earlier["shop"]] == [BASE]
    assert found.newest_record["shop"].run.git_commit == sha("commit 450")
    assert found.newest_record["shop"].cases["order-1"].passed == 0


def test_what_is_secret_now_is_not_in_the_history_of_runs_that_did_not_know_it(job: Job) -> None:
    found = job.search(run(10, BASE, evidence_of(BASE, bad=(1,))))
    assert "order-1" in job.read_history(found).earlier["shop"][0].cases
    job.read_history(found, "ID=order-[12]")
    for record in (found.earlier["shop"][0], found.newest_record["shop"]):
        assert sorted(record.cases) == ["order-3", "order-4"]
        assert record.run.cases == 2


def test_a_reviewed_run_carries_earlier_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    found: list[EarlierRun] = []
    for number in (397, 398, 399):
        write_suite(orders())
        with job_at(tmp_path / "checkout", sha(f"commit {number}")) as job:
            assert job.place.is_reviewed
            settings = settings_of(suite="s.json", out=f"out-{number}")
            context = replace(make_job(settings), place=job.place)
            clock = {"AGENT_EVAL_CLOCK": f"2026-01-01T0{number - 390}:00:00+00:00"}
            context = replace(context, environ={**context.environ, **clock})
            context.platform.earlier_runs = lambda _: list(found)  # type: ignore[method-assign]
            archive = evaluate(context).archive
            assert archive is not None
            found.append(run(number, job.place.head, archive.read_bytes()))
    with job_at(tmp_path / "checkout", sha("head")) as job:
        search = job.read_history(job.search(*found[2:]))
        carried = [record.run.git_commit for record in search.earlier["shop"]]
        assert carried == [sha("commit 399"), sha("commit 398"), sha("commit 397")]
    # A base that is older than some of them.
    with job_at(tmp_path / "checkout", sha("commit 398")) as job:
        search = job.read_history(job.search(*found))
        assert [record.run.git_commit for record in search.earlier["shop"]] == carried[1:]
