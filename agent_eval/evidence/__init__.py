"""The evidence pack: layouts, writing, sealing, reading, converting, bundling. Knows nothing of running."""
