"""Escaping of hostile text for markdown, terminals and workflow commands."""
