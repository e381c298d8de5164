"""Judges: each scores one case. `catalog` finds them by name; public names are re-exported here once."""

from agent_eval.judges.base import BaseJudge, Judge, JudgeConfig
from agent_eval.judges.catalog import DEFAULT_JUDGES, JUDGES, judge_case, load_judges, validate_case

__all__ = [
    "DEFAULT_JUDGES",
    "JUDGES",
    "BaseJudge",
    "Judge",
    "JudgeConfig",
    "judge_case",
    "load_judges",
    "validate_case",
]
