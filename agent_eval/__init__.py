"""agent-eval: judge LLM agents' trajectories, compare with a baseline, gate the release.

Importing the package is cheap: nothing heavier than the standard library is loaded
until a room that needs it is imported.
"""

__version__ = "0.1.0"
