"""An operations agent on call: alerts, deployments, capacity, certificates, and what it must not touch."""

from agent_eval.benchmarks.ops_agent.scenarios import SCENARIOS
from agent_eval.benchmarks.ops_agent.tools import NOTES, TOOLS, injections

__all__ = ["NOTES", "SCENARIOS", "TOOLS", "injections"]
