"""Escaping of hostile text, and numbers in words."""
