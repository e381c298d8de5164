"""`python -m agent_eval` is the same program as `agent-eval`."""

from agent_eval.cli.main import entry

if __name__ == "__main__":
    entry()
