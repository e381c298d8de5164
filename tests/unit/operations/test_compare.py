from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_eval.config.spec import Judging, Output, RunSpec
from agent_eval.errors import ExitCode, UsageError
from agent_eval.evidence.archive import write_bundle
from agent_eval.operations.compare import compare_packs
from agent_eval.operations.gate import Rules, decide_on
from agent_eval.operations.report_material import material_of
from agent_eval.operations.run import run_suite
from tests.factories import make_case, make_suite

ENVIRON = {"AGENT_EVAL_CLOCK": "2026-01-14T10:00:00+00:00"}


def judged(root: Path, name: str, *cases: dict[str, Any]) -> Path:
    suite, pack = root / f"{name}.json", root / name
    suite.write_text(json.dumps(make_suite(*cases)))
    run_suite(
        RunSpec(suite=suite, output=Output(pack=pack), judging=Judging(judges=("regex",))), environ=ENVIRON
    )
    return pack


@pytest.fixture
def packs(tmp_path: Path) -> tuple[Path, Path]:
    """A run and one in which the only case fails."""
    before, after = (
        judged(tmp_path, name, make_case("a", output=output, regex_patterns=["done"]))
        for name, output in (("before", "done"), ("after", "no"))
    )
    return before, after


def test_an_archive_is_compared_where_it_is_said_where_to_write(
    packs: tuple[Path, Path], tmp_path: Path
) -> None:
    before, after = packs
    archive = tmp_path / "after.zip"
    write_bundle({"after": after}, archive, {})
    with pytest.raises(UsageError, match="nothing can be written"):
        compare_packs(before, archive, environ=ENVIRON)
    out = tmp_path / "comparison.json"
    found = compare_packs(before, archive, out=out, environ=ENVIRON)
    assert found.path == out
    assert found.comparison.trials is None


def asked(case_id: str, text: str | None, output: str = "done", expected: str = "done") -> dict[str, Any]:
    return make_case(case_id, input=text, output=output, regex_patterns=[expected])


@pytest.mark.parametrize(
    ("before", "now", "pairs", "regressed"),
    [
        pytest.param(
            [asked("run-1", "a"), asked("run-2", "b"), asked("kept", "c")],
            [asked("run-8", "b", "no"), asked("run-9", "a"), asked("kept", "c")],
            "2 cases have another id in the baseline, with the same input: run-8 was run-2, run-9 was run-1.",
            ["run-8"],
            id="every run gives ids of its own",
        ),
        pytest.param(
            [asked("run-1", "a")],
            [asked("run-9", "a", "no", expected="no")],
            "1 case has another id in the baseline, with the same input: run-9 was run-1.",
            [],
            id="another id, and it expects something else",
        ),
        pytest.param(
            [asked("run-1", "a"), asked("run-2", "a")], [asked("run-9", "a", "no")], None, [], id="two alike"
        ),
        pytest.param([asked("run-1", None)], [asked("run-9", None, "no", "no")], None, [], id="no input"),
    ],
)
def test_cases_that_only_their_ids_tell_apart_are_compared(
    before: list[dict[str, Any]],
    now: list[dict[str, Any]],
    pairs: str | None,
    regressed: list[str],
    tmp_path: Path,
) -> None:
    runs = judged(tmp_path, "before", *before), judged(tmp_path, "now", *now)
    result = compare_packs(*runs, environ=ENVIRON)
    comparison = result.comparison
    assert [row.case_id for row in comparison.case_regressions if row.regressed] == regressed
    notices = [text for text in comparison.behaviour.notices if "another id" in text]
    assert notices == ([pairs] if pairs else [])
    assert bool(comparison.cases.removed) == (pairs is None)
    decided = decide_on(result.path, Rules.stated({"max_regressed_cases": 0}), environ=ENVIRON)
    assert decided.exit_code == (ExitCode.OK if pairs and not regressed else ExitCode.NO)
    shown = material_of(result.path).baseline_pack
    assert shown is not None
    assert ("run-9" in shown.case_ids()) == (pairs is not None)
    changes = {change.case_id: change for change in comparison.behaviour_changes}
    assert all(changes[name].baseline_calls == ["lookup"] for name in regressed)
