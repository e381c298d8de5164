"""The files that people paste into their CI, made from the table of inputs; `make generated` writes them."""
