"""Topics on real runs: AgentDojo attacks each task in several ways, and a task's attacks succeed together."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.cli.main import main
from agent_eval.contracts import Comparison, GateEvidence
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.decide import decide_by_policy
from tests.real import agentdojo
from tests.shared_data import shared_path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Two models on the same 753 tasks and attacked tasks, imported and compared."""
    home = tmp_path_factory.mktemp("topics")
    for model in (agentdojo.GPT_4O, agentdojo.GPT_4O_MINI):
        source = shared_path(f"data/datasets/agentdojo-{model}.jsonl.gz")
        suite, out = home / f"{model}.jsonl", home / model
        words = ["import-transcript", "--source", "agentdojo", "--input", source, "--out", suite]
        assert main([*map(str, words), "--dataset-id", "agentdojo"]) == 0
        assert main(["run", "--suite", str(suite), "--judge", "recorded", "--out", str(out)]) == 0
    packs = [str(home / model) for model in (agentdojo.GPT_4O, agentdojo.GPT_4O_MINI)]
    assert main(["compare", "--baseline", packs[0], "--candidate", packs[1]]) == 0
    delta = Path(packs[1]) / "compare" / "baseline_delta.json"
    return Comparison.model_validate_json(delta.read_bytes())


def evidence(comparison: Comparison) -> GateEvidence:
    decision = decide_by_policy(comparison, GatePolicy(), generated_at="2026-11-22T10:00:00+00:00")
    assert decision.evidence is not None
    return decision.evidence


def half_width(evidence: GateEvidence) -> float:
    return (evidence.interval_high - evidence.interval_low) / 2


def test_attacks_on_one_task_are_one_topic(comparison: Comparison) -> None:
    assert len(comparison.topics) == 124
    assert sum(topic.compared for topic in comparison.topics) == comparison.cases.compared == 733


def test_clustering_by_task_widens_the_interval_by_the_data_sets_design_effect(
    comparison: Comparison,
) -> None:
    clustered = evidence(comparison)
    alone = evidence(comparison.model_copy(update={"topics": []}))
    assert clustered.topic_clusters == 124
    assert 2.6 <= (half_width(clustered) / half_width(alone)) ** 2 <= 9.7


def test_a_task_whose_attacks_all_fell_is_seen_though_the_other_model_is_better(
    comparison: Comparison,
) -> None:
    significant = [topic for topic in evidence(comparison).topics if topic.significant]
    assert [(topic.topic, topic.regressed, topic.fixed) for topic in significant] == [
        ("banking/user_task_15", 6, 0)
    ]
