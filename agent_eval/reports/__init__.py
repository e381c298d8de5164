"""Render results for people: comment, full report, markdown file, terminal. Values in, text out."""
