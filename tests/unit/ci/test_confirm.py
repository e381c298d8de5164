"""A confirmation that may not spend, and what each end of a fresh trial counts as."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from agent_eval.contracts.confirmation import Confirmation
from agent_eval.gate.confirmation import judge_suspects

from agent_eval.ci.confirm import Bounds, Confirmer, Doubt, Question, Side
from agent_eval.config.spec import AgentSpec, Output, RunSpec
from agent_eval.evidence.archive import open_bundle
from agent_eval.evidence.reader import Pack, open_pack
from agent_eval.operations.compare import compared
from agent_eval.operations.confirmation import fresh_result
from agent_eval.operations.run_agent import run_agent
from agent_eval.storage.redaction import Redactor
from tests.factories import make_case, make_suite


@pytest.fixture
def question(tmp_path: Path) -> Question:
    suite = tmp_path / "suite.json"
    suite.write_text(json.dumps(make_suite(make_case("a"), make_case("b"), dataset_id="shop")))
    agent = AgentSpec(name="recorded")
    run_agent(RunSpec(suite=suite, output=Output(pack=tmp_path / "pack"), agent=agent), environ={})
    pack = open_pack(tmp_path / "pack")
    comparison = compared(pack, pack, changed="exclude", generated_at="2026-06-01T00:00:00+00:00")
    return Question(suite=suite, source=None, pack=pack, comparison=comparison, suspects=["a", "b"])


def confirmed(question: Question, candidate: Side, base: Side, **bounds: Any) -> Confirmation:
    limits = Bounds(**{"pairs": 6, "max_cases": 8, "alpha": 0.05, **bounds})
    confirmer = Confirmer(question, limits, environ={}, redactor=Redactor([]))
    return confirmer.run(candidate, base, question.suite.parent / "trials.zip")


def recorded(question: Question, name: str, **fields: Any) -> Side:
    """A side whose agent replays what the suite recorded."""
    out = Output(pack=question.suite.parent / name)
    return Side(name, RunSpec(suite=question.suite, output=out, agent=AgentSpec(name="recorded")), **fields)


@pytest.mark.parametrize("bound", [{"seconds": 0.0}, {"cost_usd": 0.0}], ids=["time", "money"])
def test_what_may_spend_nothing_more_is_inconclusive(question: Question, bound: dict[str, float]) -> None:
    sides = recorded(question, "candidate"), recorded(question, "base")
    record = confirmed(question, *sides, **bound)
    assert record.spent.trials == 0
    assert "used up" in record.stopped
    assert {row.verdict for row in judge_suspects(["a", "b"], record, 0.05)} == {"inconclusive"}


def test_trials_end_once_no_case_can_be_confirmed_and_their_packs_are_kept(question: Question) -> None:
    record = confirmed(question, recorded(question, "candidate"), recorded(question, "base"))
    assert record.spent.trials == 2 * 2 * 3
    assert record.expected.trials == 2 * 2 * 6
    assert {row.verdict for row in judge_suspects(["a", "b"], record, 0.05)} == {"cleared"}
    assert record.evidence_sha256 is not None


def test_more_cases_than_allowed_are_not_run(question: Question) -> None:
    record = confirmed(question, recorded(question, "candidate"), recorded(question, "base"), max_cases=1)
    verdicts = [row.verdict for row in judge_suspects(["a", "b"], record, 0.05)]
    assert verdicts == ["cleared", "inconclusive"]


def doubtful_after_two(question: Question) -> Confirmation:
    """Confirm until the third trial of the candidate finds that its sources changed."""
    checks: list[None] = []

    def check() -> None:
        checks.append(None)
        if len(checks) > 2:
            raise Doubt("The sources changed.")

    return confirmed(question, recorded(question, "candidate", check=check), recorded(question, "base"))


def test_a_doubt_voids_every_trial_before_it(question: Question) -> None:
    record = doubtful_after_two(question)
    assert record.problem == "The sources changed."
    assert {row.verdict for row in judge_suspects(["a", "b"], record, 0.05)} == {"inconclusive"}


def test_a_suite_that_was_altered_meanwhile_is_noticed(question: Question) -> None:
    def alter() -> None:
        looser = make_suite(make_case("a", input="other"), make_case("b"), dataset_id="shop")
        question.suite.write_text(json.dumps(looser))

    record = confirmed(question, recorded(question, "candidate"), recorded(question, "base", ended=alter))
    assert "altered while the job ran" in record.problem


def test_trials_before_a_doubt_stay_on_record_with_their_packs(question: Question) -> None:
    record = doubtful_after_two(question)
    packs = open_bundle((question.suite.parent / "trials.zip").read_bytes(), source="trials.zip")
    assert sorted(packs) == ["base-1", "base-2", "base-3", "candidate-1", "candidate-2"]
    assert record.evidence_sha256 is not None
    assert [(row.candidate, row.candidate_failing, row.candidate_unjudged) for row in record.cases] == [
        (["passed"] * 2, [[], []], [[], []])
    ] * 2


def test_the_trial_in_which_the_change_alters_the_judges_is_on_record(question: Question) -> None:
    def alter() -> None:
        looser = make_suite(make_case("a", input="other"), make_case("b"), dataset_id="shop")
        question.suite.write_text(json.dumps(looser))

    altering = recorded(question, "candidate", check=alter)
    record = confirmed(question, altering, recorded(question, "base"))
    assert "altered while the job ran" in record.problem
    assert [row.candidate for row in record.cases] == [["passed"], ["passed"]]


@pytest.mark.parametrize(
    ("costs", "expected"),
    [((0.1, 0.3), 2.4), ((0.1, None), None), ((None, None), None)],
    ids=["each is known", "one is unknown", "none is known"],
)
def test_the_expected_cost_is_known_where_that_of_every_trial_is(
    question: Question, costs: tuple[float | None, float | None], expected: float | None
) -> None:
    index = question.pack.index_by_id()
    rows = {name: {**index[name], "cost_usd": cost} for name, cost in zip("ab", costs, strict=True)}
    pack = cast(Pack, SimpleNamespace(index_by_id=lambda: rows))
    limits = Bounds(pairs=6, max_cases=8, alpha=0.05)
    confirmer = Confirmer(replace(question, pack=pack), limits, environ={}, redactor=Redactor([]))
    assert confirmer.expected(1).cost_usd == pytest.approx(expected)


def test_a_case_that_must_run_every_pair_does_and_an_agent_that_cannot_be_run_has_an_unknown_cost(
    question: Question,
) -> None:
    every = replace(question, every_pair=frozenset({"a"}))
    record = confirmed(every, recorded(every, "candidate"), recorded(every, "base"))
    assert [len(row.candidate) for row in record.cases] == [6, 3]
    missing = recorded(question, "base")
    broken = replace(missing, spec=replace(missing.spec, agent=AgentSpec(name="nothing:at-all")))
    lost = confirmed(question, recorded(question, "candidate"), broken)
    assert [row.base for row in lost.cases] == [["lost"], ["lost"]]
    assert lost.spent.cost_usd is None


def row(outcome: str, failure: str | None = None) -> Any:
    verdict = {"judge_id": "policy", "outcome": outcome, "failure": failure, "reason": "why."}
    return {"outcome": outcome, "passed": outcome == "passed", "verdicts": [verdict]}


@pytest.mark.parametrize(
    ("outcome", "failure", "candidate", "base"),
    [
        ("passed", None, "passed", "passed"),
        ("failed", "policy_violation", "failed", "failed"),
        ("error", "agent_error", "failed", "lost"),
        ("error", "timeout", "failed", "lost"),
        ("error", "infrastructure", "lost", "lost"),
        ("error", "judge_error", "lost", "lost"),
        ("inconclusive", None, "failed", "lost"),
        ("skipped", None, "failed", "lost"),
    ],
)
def test_a_crash_counts_against_the_change_and_says_nothing_of_the_merge_base(
    outcome: str, failure: str | None, candidate: str, base: str
) -> None:
    ends = [fresh_result(row(outcome, failure), side)[0] for side in ("candidate", "base")]
    assert ends == [candidate, base]
    assert fresh_result(None, "base", "no route")[1] == "the merge base's agent could not be run: no route"
