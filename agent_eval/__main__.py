"""Run `agent-eval` as `python -m agent_eval`."""

from agent_eval.cli.main import entry

if __name__ == "__main__":
    entry()
