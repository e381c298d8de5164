"""Suites: read, select, validate, migrate. Public names are re-exported here once."""

from agent_eval.suites.document import Place, Shard
from agent_eval.suites.migrate import migrate
from agent_eval.suites.problems import Problem
from agent_eval.suites.reader import SuiteSource, load_suite, open_suite, read_payload
from agent_eval.suites.validate import ValidationReport, validate_suite

__all__ = [
    "Place",
    "Problem",
    "Shard",
    "SuiteSource",
    "ValidationReport",
    "load_suite",
    "migrate",
    "open_suite",
    "read_payload",
    "validate_suite",
]
