from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.comparison.compare import COUNTED, RANKED, REST, compare, hint
from agent_eval.comparison.facts import RunView, normalise
from agent_eval.contracts import Comparison
from agent_eval.errors import FailureKind
from tests.unit.comparison.views import result, view


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("called 3 times", "called 12 times"),
        ("argument 'order_id' is missing", "argument 'amount' is missing"),
        ('expected "yes"', 'expected "no, thanks"'),
        ("order ord-81f3 not found", "order ord-99aa1 not found"),
        ("at 2026-01-01T10:00:00Z it stopped", "at 2025-11-30T23:59:59Z it stopped"),
        ("`refund` was called", "`delete_all` was called"),
    ],
)
def test_reasons_that_differ_in_particulars_are_one_kind(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


def test_reasons_that_say_different_things_stay_apart() -> None:
    assert normalise("the tool isn't allowed") != normalise("the tool wasn't called")
    assert normalise("it's missing and that's bad") == "it's missing and that's bad"


@given(st.text(max_size=400))
def test_normalising_twice_changes_nothing(reason: str) -> None:
    assert normalise(normalise(reason)) == normalise(reason)


def clustered(before: dict[str, str], now: dict[str, str]) -> Comparison:
    """Case id to the reason it failed for; an empty reason passed."""

    def run(side: dict[str, str]) -> RunView:
        ends = {name: result(name, "failed" if why else "passed", reason=why) for name, why in side.items()}
        return view(ends)

    return compare(run(before), run(now), generated_at="now")


def test_clusters_are_ranked_by_growth_with_the_cases_that_are_new_in_them() -> None:
    found = clustered(
        {"a": "slow by 1 s", "b": "", "c": "", "d": "wrong 'x'", "e": "wrong 'y'"},
        {"a": "slow by 2 s", "b": "slow by 9 s", "c": "slow by 7 s", "d": "", "e": "wrong 'z'"},
    )
    slow, wrong = found.failure_clusters.delta_ranked
    assert (slow.cluster, slow.case_ids) == ("policy: slow by … s", ["b", "c", "a"])
    assert (slow.baseline_count, slow.candidate_count, slow.delta) == (1, 3, 2)
    assert (wrong.cluster, wrong.delta, wrong.case_ids) == ("policy: wrong …", -1, ["e"])
    assert found.failure_clusters.baseline == {"policy: slow by … s": 1, "policy: wrong …": 2}
    assert (found.triage.top_clusters, found.triage.suggested_fixes_count) == ([slow], 1)
    assert slow.suggested_fix


def test_a_cluster_that_is_gone_keeps_its_reason_and_is_not_looked_at() -> None:
    found = clustered({"a": "wrong"}, {"a": ""})
    (gone,) = found.failure_clusters.delta_ranked
    assert (gone.reason, gone.case_ids, gone.delta, found.triage.top_clusters) == ("wrong", [], -1, [])
    same = {"a": "wrong", "b": "slow", "c": "slow"}
    top = [cluster.cluster for cluster in clustered(same, same).triage.top_clusters]
    assert top == ["policy: slow", "policy: wrong"], "without growth, what still fails"


def test_many_different_reasons_are_bounded_and_the_rest_is_counted() -> None:
    def word(number: int) -> str:
        return "".join(chr(ord("a") + int(digit)) for digit in f"{number:04}")

    names = [f"c{number}" for number in range(COUNTED + 50)]
    found = clustered(dict.fromkeys(names, ""), {name: word(place) for place, name in enumerate(names)})
    assert len(found.failure_clusters.delta_ranked) == RANKED
    assert found.failure_clusters.candidate[REST] == 50
    assert sum(found.failure_clusters.candidate.values()) == len(names)


def hinted(judge_id: str, outcome: str, failure: FailureKind) -> str | None:
    """The hint for a case that this judge newly fails."""
    now = result("a", {judge_id: outcome})
    now.verdicts[1].failure = failure
    found = compare(view({"a": {judge_id: "passed"}}), view({"a": now}), generated_at="now")
    return found.triage.top_clusters[0].suggested_fix


@pytest.mark.parametrize("failure", list(FailureKind))
def test_every_kind_of_failure_has_a_hint_even_from_a_judge_nobody_knows(failure: FailureKind) -> None:
    assert hinted("my_judge", "failed", failure)
    # Where it could not be judged, the hint is about that.
    assert "time limit" in (hinted("execution", "error", FailureKind.TIMEOUT) or "")


def test_clusters_that_grew_alike_are_ranked_by_their_size_then_by_name() -> None:
    found = clustered(
        {"a": "", "b": "slow", "c": "", "d": "", "e": "old", "f": "old"},
        {"a": "slow", "b": "slow", "c": "bad", "d": "wrong", "e": "old", "f": "old"},
    )
    ranked = found.failure_clusters.delta_ranked
    assert [cluster.reason for cluster in ranked] == ["slow", "bad", "wrong", "old"]
    # What did not grow is not what to look at first.
    assert [cluster.reason for cluster in found.triage.top_clusters] == ["slow", "bad", "wrong"]
    assert list(found.failure_clusters.candidate) == [
        "policy: old", "policy: slow", "policy: bad", "policy: wrong",
    ]  # fmt: skip


def test_the_hint_is_that_of_the_judge_and_a_reason_that_says_it_needs_none() -> None:
    [found] = clustered({"a": ""}, {"a": "wrong"}).failure_clusters.delta_ranked
    assert (found.judge_id, found.suggested_fix) == ("policy", hint("policy", None))
    assert hint("my_judge", None) is None
