"""Synthetic suites by archetype, with cassettes, recorded traces and planted faults.

A scenario (`scenario`) is a task with the calls and the answer that are right. Each archetype is a file of
scenarios; `twists` vary them, `cases` turns one into a case, `recording` into a trace, and `faults` plants a
known fault in a trace.
"""

from agent_eval.benchmarks.catalog import ARCHETYPES
from agent_eval.benchmarks.generate import SuiteRequest, generate_suite

__all__ = ["ARCHETYPES", "SuiteRequest", "generate_suite"]
