"""Run agents over suites and judge their trials. Public names are re-exported here once."""

from agent_eval.engine.scoring import Progress, score_suite
from agent_eval.engine.shard import JudgePlan

__all__ = ["JudgePlan", "Progress", "score_suite"]
