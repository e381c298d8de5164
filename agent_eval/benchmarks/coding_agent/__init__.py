"""A coding agent in a repository: defects, renames, upgrades, reviews, and files it must leave alone."""

from agent_eval.benchmarks.coding_agent.scenarios import SCENARIOS
from agent_eval.benchmarks.coding_agent.tools import NOTES, TOOLS, injections

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
