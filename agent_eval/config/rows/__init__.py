"""The rows of the table of options, by what they are about."""
