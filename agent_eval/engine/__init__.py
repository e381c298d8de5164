"""Run agents over suites and judge their trials. Public names are re-exported here once."""

from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.scoring import Progress, score_suite

__all__ = ["JudgePlan", "Progress", "score_suite"]
