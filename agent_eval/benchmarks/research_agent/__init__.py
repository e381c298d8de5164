"""A research assistant: statistics, filings, papers and web pages, and what they do not say."""

from agent_eval.benchmarks.research_agent.figures import FIGURES
from agent_eval.benchmarks.research_agent.sources import SOURCES
from agent_eval.benchmarks.research_agent.tools import NOTES, TOOLS, injections

SCENARIOS = (*FIGURES, *SOURCES)

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
