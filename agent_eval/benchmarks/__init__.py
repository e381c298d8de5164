"""Synthetic suites by archetype, with cassettes and recorded traces.

A scenario (`scenario`) is a task with the calls and the answer that are right. Each archetype is a file of
scenarios; `twists` vary them, and `cases` turns one into a case and a trace.
"""

from agent_eval.benchmarks.catalog import ARCHETYPES
from agent_eval.benchmarks.generate import SuiteRequest, generate_suite

__all__ = ["ARCHETYPES", "SuiteRequest", "generate_suite"]
