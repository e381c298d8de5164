"""Bundled examples: the suites of `agent-eval demo`, and the files that `agent-eval init` writes."""
