"""What the specifications promise, held against an installed wheel: a command line, its exit code, a fact."""
