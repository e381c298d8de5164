"""What changed between two runs, and whether that may ship. Pure functions: no files, no clock."""
