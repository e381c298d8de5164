"""LLMs that judge and simulate users: requests, replies, one file a provider. They are never under test."""
