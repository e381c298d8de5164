"""What judges share: patterns, schemas, and the matching of tool calls and arguments."""
