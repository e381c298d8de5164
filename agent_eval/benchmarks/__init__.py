"""Synthetic suites by archetype, with cassettes and recorded traces.

A scenario is a task with the calls and the answer that are right. An archetype is a file of them that
`archetypes` reads; `generate` varies them, and turns one into a case and a trace.
"""

from agent_eval.benchmarks.archetypes import ARCHETYPES
from agent_eval.benchmarks.generate import SuiteRequest, generate_suite

__all__ = ["ARCHETYPES", "SuiteRequest", "generate_suite"]
