"""agent-eval: judge LLM agents' trajectories, compare with a baseline, gate the release.

Importing `agent_eval` is cheap: it loads nothing beyond the standard library. Import what you need from its
packages, such as `agent_eval.judges`.
"""

__version__ = "0.1.0"
