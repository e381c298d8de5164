from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_eval.errors import ExitCode, UsageError
from agent_eval.evidence.archive import write_bundle
from agent_eval.operations.compare import compare_packs
from agent_eval.operations.gate import Rules, decide_on
from agent_eval.operations.report_material import material_of
from tests.factories import make_case
from tests.unit.operations.runs import judged

ENVIRON = {"AGENT_EVAL_CLOCK": "2026-01-14T10:00:00+00:00"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_archive_is_compared_where_it_is_said_where_to_write() -> None:
    for name, output in (("before", "done"), ("after", "no")):
        judged(name, make_case("a", output=output, regex_patterns=["done"]))
    archive, out = Path("after.zip"), Path("comparison.json")
    write_bundle({"after": Path("after")}, archive, {})
    with pytest.raises(UsageError, match="nothing can be written"):
        compare_packs("before", archive, environ=ENVIRON)
    found = compare_packs("before", archive, out=out, environ=ENVIRON)
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
            [asked("run-1", "a"), asked("run-2", "a", expected="d")],
            [asked("run-9", "a", expected="o"), asked("run-8", "a")],
            "2 cases have another id in the baseline, with the same input: run-8 was run-1, run-9 was run-2.",
            [],
            id="the same input, told apart by what is expected",
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
) -> None:
    judged("before", *before)
    judged("now", *now)
    result = compare_packs("before", Path("now"), environ=ENVIRON)
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
