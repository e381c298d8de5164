"""GitLab CI: its predefined variables, its REST API, and merge requests."""
