"""Outside CI: the comment is a file and is printed; with a store, runs are files in it, with counts."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

from agent_eval.ci.earlier import Asked, EarlierRun, NoHistory, Skipped, Withheld
from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.errors import ExitCode, InvalidInput
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import open_pack
from agent_eval.history.records import HISTORY, encode, read_history
from agent_eval.storage.redaction import Redactor
from tests.e2e.runner import orders
from tests.factories import make_suite
from tests.unit.ci.jobs import settings_of
from tests.unit.ci.platforms.builds import Repository
from tests.unit.history.made import made_run

OUT = Path("agent-eval-out")


@pytest.fixture
def printed() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def local(printed: io.StringIO) -> LocalDirectory:
    return LocalDirectory(settings_of().for_platform, {}, printed)


class Shop:
    """A checkout with a suite, judged by `agent-eval ci` again and again."""

    def __init__(self, repository: Repository, store: Path) -> None:
        self.repository, self.store, self.log, self.days = repository, store, "", 0

    def evaluate(self, *, bad: tuple[int, ...] = (), suite: str = "suite.json", **flags: str) -> ExitCode:
        """Judge four orders a day later, of which those in `bad` fail."""
        self.write("suite.json", json.dumps(make_suite(*orders(bad=bad))))
        return self.job(suite=suite, **{"max_regressed_cases": "0", **flags})

    def job(self, **flags: str) -> ExitCode:
        self.days += 1
        given = {"baseline_store": str(self.store), **flags}
        clock = {"AGENT_EVAL_CLOCK": f"2026-11-{self.days:02d}T08:00:00+00:00"}
        stream = io.StringIO()
        named = {name.replace("_", "-"): value for name, value in given.items()}
        code = run_job(named, {**self.repository.environ, **clock}, stream)
        self.log = stream.getvalue()
        return code

    def write(self, name: str, text: str) -> None:
        (self.repository.top / name).write_text(text)

    def outputs(self, number: int) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.store / "runs" / str(number) / "outputs.json").read_text())
        return found

    def carried(self) -> list[tuple[int, int]]:
        """Passed and all cases of each run in the evidence that was left last, the newest first."""
        records = read_history(open_pack(OUT / "shop"))
        return [(sum(case.passed for case in run.cases.values()), len(run.cases)) for run in records]

    @property
    def comment(self) -> Path:
        return self.repository.top / OUT / "comment.md"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    repository = Repository(tmp_path / "checkout")
    monkeypatch.chdir(repository.top)
    return Shop(repository, tmp_path / "store")


def test_prose_is_printed_without_what_a_terminal_obeys(local: LocalDirectory, printed: io.StringIO) -> None:
    local.say("one\x1b[2J\ntwo")
    local.warn("mind this")
    local.fail("no")
    assert printed.getvalue() == "one[2J\ntwo\nWarning: mind this\nError: no\n"


def test_what_a_platform_itself_warns_of_is_redacted(tmp_path: Path, printed: io.StringIO) -> None:
    store = tmp_path / "ghs_0123456789"
    store.write_text("a file in the place of the store")
    settings = settings_of(baseline_store=str(store))
    local = LocalDirectory(settings.for_platform, {}, printed).redacted_by(Redactor(["ghs_0123456789"]))
    local.write_outputs({"outcome": "passed"})
    assert "The outputs could not be written" in printed.getvalue()
    assert "[redacted]" in printed.getvalue()
    assert "ghs_" not in printed.getvalue()


def test_without_a_store_there_are_no_earlier_runs_and_nothing_is_written(
    shop: Shop, local: LocalDirectory, printed: io.StringIO
) -> None:
    with pytest.raises(NoHistory, match="--baseline"):
        list(local.earlier_runs(Asked(branches=("main",))))
    assert (local.run.run_url, local.run.head_sha) == (None, None)
    local.write_summary("x")
    local.write_outputs({"outcome": "passed"})
    assert printed.getvalue() == ""
    assert [path.name for path in shop.repository.top.iterdir() if path.name != ".git"] == ["README"]


@pytest.mark.parametrize("stores", [False, True])
def test_the_comment_is_a_file_beside_the_report(shop: Shop, *, stores: bool) -> None:
    place = str(shop.store) if stores else ""
    shop.evaluate(baseline_store=place)
    assert shop.comment.read_text().startswith("<!-- agent-eval id=suite-json-8cad5705 ")
    assert ("The comment, as it would be posted" in shop.log) is not stores
    shop.evaluate(baseline_store=place, bad=(1,), min_pass_rate="1")
    assert "❌" in shop.comment.read_text()
    assert shop.store.exists() is stores


@pytest.mark.parametrize("name", ["comment.md", "agent-eval-shop.html"])
def test_a_file_of_the_users_is_not_replaced(shop: Shop, name: str) -> None:
    OUT.mkdir()
    (OUT / name).write_text("mine")
    assert shop.evaluate(baseline_store="") is ExitCode.WRONG_REQUEST
    assert (OUT / name).read_text() == "mine"
    assert f"{name} is there and would be overwritten." in shop.log
    (OUT / "evidence.zip").write_text("of an earlier job")
    assert shop.evaluate(baseline_store="") is ExitCode.OK


def test_an_error_before_the_evidence_writes_no_comment_file(shop: Shop) -> None:
    assert shop.evaluate(baseline_store="", suite="missing.json") is ExitCode.WRONG_REQUEST
    assert not OUT.exists()


def test_an_origin_that_nothing_was_pushed_to_is_not_asked(shop: Shop) -> None:
    shop.repository.git("remote", "add", "origin", str(shop.store / "nowhere.git"))
    assert shop.evaluate() is ExitCode.OK
    assert shop.outputs(1)["outcome"] == "no-baseline"


def test_a_named_run_is_the_baseline_and_another_name_is_an_error(shop: Shop) -> None:
    shop.evaluate()
    shop.evaluate(bad=(1,))
    assert shop.evaluate(bad=(1,), baseline="run:1") is ExitCode.NO
    assert shop.outputs(3)["baseline-run-id"] == "1"
    assert shop.evaluate(baseline="run:77") is ExitCode.WRONG_REQUEST
    assert "There is no run 77" in shop.log


def test_evidence_of_another_evaluation_is_passed_over(shop: Shop) -> None:
    shop.evaluate(comment_id="safety")
    shop.evaluate()
    assert shop.outputs(2)["baseline-run-id"] == ""
    assert "Run 1 left no evidence `agent-eval-evidence`." in shop.log


def test_evidence_that_was_changed_is_refused_loudly(shop: Shop) -> None:
    shop.evaluate()
    shop.evaluate()
    stored = shop.store / "runs" / "2" / "evidence.zip"
    data = bytearray(stored.read_bytes())
    data[100] ^= 1
    stored.write_bytes(data)
    shop.evaluate()
    assert shop.outputs(3)["baseline-run-id"] == "1"
    assert "Warning: The evidence of run 2 is not what was recorded (its digest differs)" in shop.log


@pytest.mark.parametrize("file", ["evidence.zip", "run.json"])
def test_a_damaged_run_without_another_one_is_no_missing_baseline(shop: Shop, file: str) -> None:
    shop.evaluate()
    (shop.store / "runs" / "1" / file).write_bytes(b"{")
    assert shop.evaluate(min_pass_rate="0.1") is ExitCode.NOT_EVALUABLE
    assert shop.log.startswith("Outcome: error. The baseline could not be read: ")
    assert shop.evaluate() is ExitCode.OK
    assert shop.outputs(3)["baseline-run-id"] == "2"


def test_evidence_beyond_the_cap_is_not_used(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.evaluate()
    monkeypatch.setattr("agent_eval.ci.earlier.MAX_ARCHIVE_BYTES", 100)
    shop.evaluate()
    assert shop.outputs(2)["baseline-run-id"] == ""
    assert "The evidence of run 1 is too large" in shop.log
    assert "Warning: The evidence was not stored: The evidence of run 2 is too large" in shop.log
    assert not (shop.store / "runs" / "2" / "run.json").exists()


def test_a_store_that_cannot_be_written_costs_no_decision(shop: Shop) -> None:
    shop.store.write_text("a file")
    assert shop.evaluate() is ExitCode.OK
    assert "Outcome: no-baseline" in shop.log
    assert "Warning: The evidence was not stored" in shop.log


def test_outside_a_repository_the_newest_run_is_the_baseline(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.evaluate()
    shop.repository.top = tmp_path / "plain"
    shop.repository.top.mkdir()
    monkeypatch.chdir(shop.repository.top)
    shop.evaluate()
    assert shop.outputs(2)["baseline-run-id"] == ""
    assert shop.evaluate(bad=(2,)) is ExitCode.NO
    assert shop.outputs(3)["baseline-run-id"] == "2"


def test_a_run_on_another_branch_carries_no_counts_and_leaves_those_of_main(shop: Shop) -> None:
    shop.evaluate()
    shop.repository.branch("change", shop.repository.commit())
    shop.repository.commit()
    assert shop.evaluate() is ExitCode.OK
    assert not (OUT / "shop" / HISTORY).exists()
    shop.repository.git("symbolic-ref", "HEAD", "refs/heads/main")
    shop.evaluate(bad=(1,), max_regressed_cases="4")
    assert shop.carried() == [(3, 4), (4, 4)]


def test_a_run_that_is_no_baseline_is_in_the_history_all_the_same(shop: Shop) -> None:
    for bad in ((), (1, 2, 3, 4), ()):
        shop.evaluate(bad=bad, max_regressed_cases="4")
    assert shop.carried() == [(4, 4), (0, 4), (4, 4)]


def test_counts_that_were_changed_or_put_there_from_elsewhere_are_not_used(shop: Shop) -> None:
    shop.evaluate()
    history = OUT / "shop" / HISTORY
    kept = history.read_bytes()
    history.write_bytes(kept.replace(b'"passed":1', b'"passed":0'))
    assert shop.evaluate(baseline=str(OUT / "shop"), out="again") is ExitCode.WRONG_REQUEST
    assert "history/runs.jsonl" in shop.log
    history.write_bytes(kept)
    write_output(history, encode(made_run(1, {"order-1": (1, 1)})))
    with pytest.raises(InvalidInput, match="not that of the run in this pack"):
        read_history(open_pack(OUT / "shop"))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "store"


def job_with(store: Path) -> LocalDirectory:
    return LocalDirectory(settings_of(baseline_store=str(store)).for_platform, {}, io.StringIO())


def keep(store: Path) -> None:
    """Let a job finish that leaves this archive."""
    Path("evidence.zip").write_bytes(b"an archive")
    job_with(store).keep_evidence(Path("evidence.zip"))


def stored(store: Path) -> list[EarlierRun]:
    return list(job_with(store).earlier_runs(Asked(branches=("main",))))


def test_finished_runs_are_listed_the_newest_first_beyond_nine(store: Path) -> None:
    for _ in range(10):
        keep(store)
    job_with(store).write_outputs({"outcome": "error"})
    keep(store)
    assert [run.number for run in stored(store)] == [12, *range(10, 0, -1)]


def test_other_entries_are_no_runs(store: Path) -> None:
    keep(store)
    for name in ("notes", "007", "-1", "²"):
        (store / "runs" / name).mkdir()
    keep(store)
    assert [run.number for run in stored(store)] == [2, 1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        *(({"size": "10"}, "cannot be read"), ({"branch": ["main"]}, "cannot be read")),
        ({"number": 7}, "of another run"),
    ],
)
def test_a_run_wrongly_described_is_withheld(store: Path, change: dict[str, object], why: str) -> None:
    keep(store)
    file = store / "runs" / "1" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(Withheld, match=why):
        stored(store)[0].fetch()


def test_an_archive_that_grew_or_is_missing_is_skipped(store: Path) -> None:
    keep(store)
    [run] = stored(store)
    assert run.fetch() == b"an archive"
    archive = store / "runs" / "1" / "evidence.zip"
    archive.write_bytes(b"a longer archive")
    with pytest.raises(Skipped, match="run 1"):
        run.fetch()
    archive.unlink()
    with pytest.raises(Skipped, match="run 1"):
        run.fetch()


def test_jobs_that_begin_at_once_get_runs_of_their_own(store: Path) -> None:
    jobs = [threading.Thread(target=job_with(store).write_outputs, args=({"of": "a job"},)) for _ in range(8)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert sorted(path.name for path in (store / "runs").iterdir()) == [str(number) for number in range(1, 9)]
    assert len(list((store / "runs").glob("*/outputs.json"))) == 8


def test_a_number_that_another_job_takes_meanwhile_is_left_to_it(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store)
    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(LocalDirectory, "_numbers", staticmethod(lambda _: []))
        keep(store)
    assert [run.number for run in stored(store)] == [2, 1]
