"""What a person asks for, one operation a file; the command line and CI jobs call these."""
