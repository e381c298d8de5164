"""A shop's support agent: orders, refunds, addresses, subscriptions, and who may know what."""

from agent_eval.benchmarks.support_agent.accounts import ACCOUNTS
from agent_eval.benchmarks.support_agent.orders import ORDERS
from agent_eval.benchmarks.support_agent.tools import NOTES, TOOLS, injections

SCENARIOS = (*ORDERS, *ACCOUNTS)

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
