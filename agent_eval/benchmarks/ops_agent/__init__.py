"""An operations agent on call: alerts, deployments, capacity, certificates, and what it must not touch."""

from agent_eval.benchmarks.ops_agent.incidents import INCIDENTS
from agent_eval.benchmarks.ops_agent.limits import LIMITS
from agent_eval.benchmarks.ops_agent.tools import NOTES, TOOLS, injections

SCENARIOS = (*INCIDENTS, *LIMITS)

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
