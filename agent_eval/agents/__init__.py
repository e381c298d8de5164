"""What is tested: one connector a file, behind one protocol."""
