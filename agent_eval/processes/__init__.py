"""Safe child processes: limits, an allow-listed environment, and no surviving descendants."""
