"""Datasets, baselines, approvals and waivers by name, and the log of who changed what."""
