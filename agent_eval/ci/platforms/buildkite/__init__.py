"""Buildkite: its variables, its REST API, and annotations."""
