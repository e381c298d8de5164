"""Jenkins: its variables and its remote access API."""
