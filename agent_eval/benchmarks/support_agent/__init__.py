"""A shop's support agent: orders, refunds, addresses, subscriptions, and who may know what."""

from agent_eval.benchmarks.support_agent.scenarios import SCENARIOS
from agent_eval.benchmarks.support_agent.tools import NOTES, TOOLS, injections

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
