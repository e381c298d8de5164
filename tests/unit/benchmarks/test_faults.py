"""Planted faults: every kind of failure, named in the metadata, and found by the judges that they name."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import benchmarks
from agent_eval.benchmarks import ARCHETYPES, SuiteRequest, generate_suite
from agent_eval.contracts.suite import definition_digest
from agent_eval.errors import FailureKind
from agent_eval.judges.catalog import JUDGES
from benchmarks import judge_accuracy
from benchmarks.planted.faults import FAULTS
from benchmarks.planted.oddities import ODDITIES
from benchmarks.planted.suites import suite_with_faults
from tests.extent import OTHERS

KINDS = {kind.value for kind in FailureKind if kind is not FailureKind.ENVIRONMENT}
"""All but those of a case's set-up and of live tools, which a recorded trace does not have."""


def planted(number: int, rate: float) -> list[dict[str, Any]]:
    return [
        case["metadata"]
        for archetype in ARCHETYPES
        for case in suite_with_faults(archetype, number, rate=rate)["cases"]
    ]


def test_faults_of_every_kind_are_planted_at_the_rate_that_was_asked_for() -> None:
    rows = planted(100, 0.3)
    faults = [row["planted_fault"] for row in rows if "planted_fault" in row]
    assert len(faults) == 120
    assert {fault["kind"] for fault in faults} == KINDS
    assert all(("planted_oddity" in row) != ("planted_fault" in row) for row in rows)


def test_every_fault_and_every_oddity_is_planted() -> None:
    rows = planted(200, 0.5)
    assert {row["planted_fault"]["name"] for row in rows if "planted_fault" in row} == {
        fault.name for fault in FAULTS
    }
    assert {row["planted_oddity"] for row in rows if "planted_oddity" in row} == {
        oddity.name for oddity in ODDITIES
    }


def test_faults_do_not_change_what_is_asked() -> None:
    suite = generate_suite(SuiteRequest("research_agent", 40))
    plain = {case["case_id"]: definition_digest(case) for case in suite["cases"]}
    # The agent hands in a proof, but it is a member of the definition: a fault in it changes that.
    changed = [
        case["metadata"]["planted_fault"]["name"]
        for case in suite_with_faults("research_agent", 40, rate=0.5)["cases"]
        if definition_digest(case) != plain[case["case_id"]]
    ]
    assert set(changed) <= {"wrong_proof", "unreadable_proof"}


def test_faults_name_judges_that_there_are() -> None:
    named = {judge for fault in FAULTS for judge in fault.judges | fault.may_find}
    assert named <= set(JUDGES)
    without = set(JUDGES) - {judge for fault in FAULTS for judge in fault.judges}
    assert without == set(judge_accuracy.NOT_MEASURED), (
        "plant a fault that the judge finds (benchmarks/planted), or say in NOT_MEASURED of "
        "benchmarks/judge_accuracy.py why it has none; then: python -m benchmarks.judge_accuracy --write"
    )


def test_the_figures_of_the_judges_are_those_of_the_sample() -> None:
    recorded = json.loads(judge_accuracy.RESULTS.read_text(encoding="utf-8"))
    assert judge_accuracy.measure(judge_accuracy.SAMPLE) == recorded["sample"]


@OTHERS
def test_the_figures_of_the_judges_are_those_of_the_guide() -> None:
    recorded = json.loads(judge_accuracy.RESULTS.read_text(encoding="utf-8"))
    assert judge_accuracy.measure(judge_accuracy.CASES) == {
        name: value for name, value in recorded.items() if name != "sample"
    }


def test_every_benchmark_can_be_loaded() -> None:
    for path in sorted(Path(benchmarks.__file__).parent.glob("*.py")):
        importlib.import_module(f"benchmarks.{path.stem}")


def test_the_table_of_the_guide_is_that_of_the_results() -> None:
    recorded = json.loads(judge_accuracy.RESULTS.read_text(encoding="utf-8"))
    page = judge_accuracy.PAGE.read_text(encoding="utf-8")
    assert judge_accuracy.with_table(page, judge_accuracy.table(recorded)) == page
    kinds = Counter(recorded["planted"])
    assert (kinds.total(), set(kinds)) == (1000, KINDS)
