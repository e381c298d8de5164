"""The built-in judges, one file each."""
