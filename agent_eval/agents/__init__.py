"""What is tested: one way of talking to an agent a file, behind the protocol of `protocol`."""
