"""GitHub Actions: the runner, its events and its REST API."""
