"""The one table of options: flags, inputs of the CI job and the recorded configuration derive from it."""
