"""Read and write files: strict bounded JSON and YAML, atomic writes, safe names, archives, redaction.

This is the only package that opens files for writing. Import from its modules; the package itself is empty.
"""
