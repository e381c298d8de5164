"""Outside CI: the comment is a file and is printed; with a store, runs are files in it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from agent_eval.ci.earlier import Asked, NoHistory
from agent_eval.ci.job import run_job
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.errors import ExitCode
from agent_eval.storage.redaction import Redactor
from tests.e2e.runner import orders
from tests.factories import make_suite
from tests.unit.ci.jobs import settings_of
from tests.unit.ci.platforms.repository import Repository

CLOCK = {"AGENT_EVAL_CLOCK": "2026-11-21T08:00:00+00:00"}


@pytest.fixture
def printed() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def local(printed: io.StringIO) -> LocalDirectory:
    return LocalDirectory(settings_of().for_platform, {}, printed)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path / "checkout")
    monkeypatch.chdir(made.top)
    return made


class Shop:
    """A checkout with a suite, judged by `agent-eval ci` again and again."""

    def __init__(self, repository: Repository, store: Path) -> None:
        self.repository, self.store, self.log = repository, store, ""

    def evaluate(self, *, bad: tuple[int, ...] = (), **flags: str) -> ExitCode:
        """Judge four orders, of which those in `bad` fail."""
        (self.repository.top / "suite.json").write_text(
            json.dumps(make_suite(*orders(bad=bad), dataset_id="shop"))
        )
        stream = io.StringIO()
        given = {
            "suite": "suite.json",
            "max-regressed-cases": "0",
            "baseline-store": str(self.store),
            **{name.replace("_", "-"): value for name, value in flags.items()},
        }
        code = run_job(given, {**self.repository.environ, **CLOCK}, stream)
        self.log = stream.getvalue()
        return code

    def outputs(self, number: int) -> dict[str, str]:
        found: dict[str, str] = json.loads((self.store / "runs" / str(number) / "outputs.json").read_text())
        return found

    @property
    def comment(self) -> Path:
        return self.repository.top / "agent-eval-out" / "comment.md"


@pytest.fixture
def shop(repository: Repository, tmp_path: Path) -> Shop:
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
    repository: Repository, local: LocalDirectory, printed: io.StringIO
) -> None:
    with pytest.raises(NoHistory, match="--baseline"):
        list(local.earlier_runs(Asked(branches=("main",))))
    assert (local.run.run_url, local.run.head_sha) == (None, None)
    local.write_summary("x")
    local.write_outputs({"outcome": "passed"})
    assert printed.getvalue() == ""
    assert [path.name for path in repository.top.iterdir() if path.name != ".git"] == ["README"]


@pytest.mark.parametrize("stores", [False, True])
def test_the_comment_is_a_file_beside_the_report(shop: Shop, *, stores: bool) -> None:
    place = str(shop.store) if stores else ""
    shop.evaluate(baseline_store=place)
    assert shop.comment.read_text().startswith("<!-- agent-eval id=suite-json-8cad5705 ")
    assert ("The comment, as it would be posted" in shop.log) is not stores
    shop.evaluate(baseline_store=place, bad=(1,), min_pass_rate="1")
    assert "❌" in shop.comment.read_text()
    assert shop.store.exists() is stores


def test_a_comment_of_the_users_is_not_replaced(shop: Shop) -> None:
    shop.comment.parent.mkdir()
    shop.comment.write_text("mine")
    assert shop.evaluate(baseline_store="") is ExitCode.WRONG_REQUEST
    assert shop.comment.read_text() == "mine"
    assert "comment.md is there and would be overwritten." in shop.log


def test_an_error_before_the_evidence_writes_no_comment_file(shop: Shop) -> None:
    assert shop.evaluate(baseline_store="", suite="missing.json") is ExitCode.WRONG_REQUEST
    assert not (shop.repository.top / "agent-eval-out").exists()


def test_a_run_on_a_branch_is_compared_with_the_run_at_its_base(shop: Shop) -> None:
    base = shop.repository.commit()
    shop.evaluate()
    shop.repository.commit()
    shop.evaluate(bad=(3,))
    shop.repository.branch("topic", base)
    shop.repository.commit()
    assert shop.evaluate(bad=(2,)) is ExitCode.NO
    outputs = shop.outputs(3)
    assert (outputs["baseline-run-id"], outputs["baseline-sha"]) == ("1", base)
    assert outputs["regressed-cases"] == "1"


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
    assert "The store has no run 77" in shop.log


def test_evidence_of_another_evaluation_is_passed_over(shop: Shop) -> None:
    shop.evaluate(baseline_artifact="safety")
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


def test_evidence_beyond_the_cap_is_neither_read_nor_stored(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.evaluate()
    monkeypatch.setattr("agent_eval.ci.earlier.MAX_ARCHIVE_BYTES", 100)
    shop.evaluate()
    assert shop.outputs(2)["baseline-run-id"] == ""
    assert "The evidence of run 1 is too large" in shop.log
    assert "Warning: The evidence was not stored: The evidence of run 2 is too large" in shop.log
    assert not (shop.store / "runs" / "2" / "run.json").exists()


def test_outputs_are_a_file_of_the_run(shop: Shop) -> None:
    shop.evaluate(bad=(1,), min_pass_rate="1")
    outputs = shop.outputs(1)
    assert (outputs["outcome"], outputs["pass-rate"]) == ("failed", "0.75")
    assert outputs["comment-url"] == "agent-eval-out/comment.md"
    assert shop.evaluate(suite="missing.json") is ExitCode.WRONG_REQUEST
    assert shop.outputs(2)["outcome"] == "error"


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


AGENT = """\
import json, sys
task = json.load(sys.stdin)
calls = [{"tool": name, "arguments": {}} for name in ["lookup_order"]]
json.dump({"assistant_output": "It is on its way.", "tool_calls": calls}, sys.stdout)
"""


def run_shallow(shop: Shop, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Judge an agent on main, and on a branch that is cloned with its last commit alone; the base."""
    task = {
        "case_id": "order-1",
        "input": "Where is order 1?",
        "policy": {"required_tools": ["lookup_order"]},
        "metadata": {"tool_responses": {"lookup_order": {"status": "shipped"}}},
    }
    (shop.repository.top / "suite.json").write_text(json.dumps(make_suite(task, dataset_id="shop")))
    (shop.repository.top / "agent.py").write_text(AGENT)
    given = {
        "suite": "suite.json",
        "agent-command": f"{sys.executable} -S -E agent.py",
        "baseline-store": str(shop.store),
    }
    base = shop.repository.commit()
    run_job(given, {**shop.repository.environ, **CLOCK}, io.StringIO())
    shop.repository.git("checkout", "--quiet", "-b", "topic")
    (shop.repository.top / "agent.py").write_text(AGENT.replace('["lookup_order"]', "[]"))
    shop.repository.commit()
    shop.repository.git("checkout", "--quiet", "main")
    source, clone = f"file://{shop.repository.top}", root / "clone"
    shop.repository.git("clone", "--quiet", "--depth", "1", "--branch", "topic", source, str(clone))
    monkeypatch.chdir(clone)
    log = io.StringIO()
    run_job(given, {**shop.repository.environ, **CLOCK}, log)
    shop.log = log.getvalue()
    return base


def test_a_shallow_clone_gets_the_commit_where_it_began(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = run_shallow(shop, tmp_path, monkeypatch)
    assert shop.outputs(2)["baseline-sha"] == base
