"""The HTML report that the job leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.ci import job as whole
from agent_eval.ci.evaluate import evaluate
from agent_eval.ci.job import write_html
from agent_eval.ci.outputs import outputs_of, report_of
from agent_eval.ci.rules import JobContext
from agent_eval.ci.workspace import refuse_to_overwrite
from agent_eval.errors import StorageError, UsageError
from tests.e2e.runner import orders
from tests.unit.ci.evaluations import evidence, job, write_suite
from tests.unit.reports.html.pages import packed_cases, parsed


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(made: JobContext) -> tuple[Path | None, dict[str, str]]:
    """The report of a job, and its outputs."""
    evaluation = evaluate(made)
    path = write_html(evaluation, report_of(evaluation, made), made)
    return path, outputs_of(evaluation, made.settings, path)


def test_it_is_written_unless_told_otherwise_and_named_after_its_suite():
    before = evidence()
    write_suite(orders(bad=(2,)))
    path, outputs = written(job(baseline=before))
    assert path == Path("agent-eval-out/agent-eval-shop.html")
    assert outputs["html-report"] == "agent-eval-out/agent-eval-shop.html"
    tree = parsed(path.read_text("utf-8"))
    assert tree.all("details", id="case=order-2")[0].all("table", class_="two")
    assert "agent-eval run --suite s.json --case order-2" in tree.words


def test_it_can_be_left_out():
    write_suite(orders())
    path, outputs = written(job(html_report="false"))
    assert (path, outputs["html-report"]) == (None, "")
    assert not list(Path().rglob("*.html"))


@pytest.mark.parametrize(("flags", "name"), [({}, "report"), ({"comment_id": "nightly"}, "nightly")])
def test_several_suites_are_in_one_file_where_each_case_has_an_address(flags: dict[str, Any], name: str):
    write_suite(orders(bad=(2,)))
    write_suite(orders(bad=(2,)), name="t.json", dataset_id="help")
    path, _ = written(job(suite="s.json\nt.json", **flags))
    assert path == Path(f"agent-eval-out/agent-eval-{name}.html")
    page = path.read_text("utf-8")
    opened = [case.attributes["id"] for case in parsed(page).all("details", class_="case")]
    assert sorted(opened) == ["case=order-2&suite=help", "case=order-2&suite=shop"]
    assert len({*opened, *packed_cases(page)}) == 8


def test_no_secret_of_the_baseline_is_in_it():
    cases = orders()
    cases[1]["trace"][-1]["output"] = "the key is s3cret-value-of-main"
    before = evidence(cases)
    write_suite(orders(bad=(2,)))
    path, _ = written(job(baseline=before, secrets=("s3cret-value-of-main",)))
    page = path.read_text("utf-8")
    everything = page + "".join(packed_cases(page).values())
    assert "s3cret" not in everything
    assert "[redacted]" in everything


def test_a_report_that_cannot_be_written_is_a_warning(monkeypatch):
    def fail(_path: Path, _data: bytes) -> None:
        raise StorageError("The disk is full.", remedy="Make room.")

    write_suite(orders())
    made = job()
    evaluation = evaluate(made)
    monkeypatch.setattr(whole, "write_file", fail)
    assert write_html(evaluation, report_of(evaluation, made), made) is None
    log = made.platform._stream.getvalue()  # type: ignore[attr-defined]
    assert "The HTML report could not be written: The disk is full." in log


def test_a_page_of_somebody_else_is_not_overwritten(tmp_path):
    (tmp_path / "agent-eval-shop.html").write_text("mine")
    with pytest.raises(UsageError, match=r"agent-eval-shop\.html is there and would be overwritten"):
        refuse_to_overwrite(tmp_path)
    (tmp_path / "evidence.zip").write_text("an earlier run's")
    refuse_to_overwrite(tmp_path)
