"""Faults, and harmless oddities, that are planted in generated traces to measure the judges."""
