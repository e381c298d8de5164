"""docs/reference/cli.md says what the commands say."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_cli", REPOSITORY / "docs" / "generate_cli.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_would_be_generated_now(generator: ModuleType) -> None:
    if os.environ.get("UPDATE_GOLDEN") == "1":
        generator.REFERENCE.write_text(generator.reference(), encoding="utf-8")
    stands = generator.REFERENCE.read_text(encoding="utf-8")
    assert stands == generator.reference(), "`make generated` writes docs/reference/cli.md again"
