"""A research assistant: statistics, filings, papers and web pages, and what they do not say."""

from agent_eval.benchmarks.research_agent.scenarios import SCENARIOS
from agent_eval.benchmarks.research_agent.tools import NOTES, TOOLS, injections

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
