"""Data sets that lie beside the checkout, not in it. Tests that need them skip where they are absent."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def shared_path(relative: str) -> Path:
    """The path of a shared file or folder; skips the test where it is absent.

    Args:
        relative: For instance `data/datasets/agentdojo-gpt-4o-2024-05-13.jsonl.gz`. Looked up in
            `<repository>/../shared`, or in the folder named by the environment variable AGENT_EVAL_SHARED.
    """
    root = Path(os.environ.get("AGENT_EVAL_SHARED") or REPOSITORY.parent / "shared")
    path = root / relative
    if not path.exists():
        pytest.skip("of data sets that are not beside the checkout (AGENT_EVAL_SHARED names their folder)")
    return path
