"""Render an evaluation as one self-contained HTML file: no network, no script needed, agent text as text only."""
