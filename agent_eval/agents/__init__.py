"""Agents under test: `base` is their interface, `catalog` finds them by name, one file for each kind."""
