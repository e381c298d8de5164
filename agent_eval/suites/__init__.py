"""Suites: find, read, select, validate and migrate them."""
