"""Render an evaluation as one self-contained HTML file, in which everything from agents is text."""
