"""What changed between two runs. Pure functions: no files, no clock."""
