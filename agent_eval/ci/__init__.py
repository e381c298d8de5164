"""The main job in CI: score, find the baseline, compare, decide, tell people. One file a platform."""
