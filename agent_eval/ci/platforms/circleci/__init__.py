"""CircleCI: its variables and its REST API."""
