"""Bytes to disk and back: strict bounded JSON and YAML, atomic writes, safe names, archives, redaction.

The only room that opens files for writing. Import from its modules; importing the package costs nothing.
"""
