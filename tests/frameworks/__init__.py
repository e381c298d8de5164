"""Agent objects of real frameworks, against a model on localhost; `make test-frameworks` runs them."""
