"""The safe child process: caps, allow-listed environment, no survivors."""
