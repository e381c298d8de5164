"""Reproducible measurements. See README.md."""
