"""A coding agent in a repository: defects, renames, upgrades, reviews, and files it must leave alone."""

from agent_eval.benchmarks.coding_agent.changes import CHANGES
from agent_eval.benchmarks.coding_agent.questions import QUESTIONS
from agent_eval.benchmarks.coding_agent.tools import NOTES, TOOLS, injections

SCENARIOS = (*CHANGES, *QUESTIONS)

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
