"""A platform made of one directory: the default outside CI, and the example to write another one from."""
