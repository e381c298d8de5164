"""The shared secret: three places, and none that is empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.attestations.keys import (
    SECRET_VARIABLE,
    SIGNING_KEY_VARIABLE,
    key_from_environment,
    shared_secret,
)
from agent_eval.errors import InvalidInput, UsageError


def test_a_flag_counts_before_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"from the file\r\n")
    environ = {SECRET_VARIABLE: "from the environment"}
    assert shared_secret("from the flag", None, environ) == b"from the flag"
    assert shared_secret(None, file, environ) == b"from the file"
    assert shared_secret(None, None, environ) == b"from the environment"
    assert shared_secret(None, None, {SECRET_VARIABLE: " "}) is None
    assert shared_secret(None, None, {}) is None


def test_two_secrets_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="both given"):
        shared_secret("a", tmp_path / "secret", {})


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_secret_would_check_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "secret").write_text(text)
    for flag, file in ((text, None), (None, tmp_path / "secret")):
        with pytest.raises(UsageError, match="is empty"):
            shared_secret(flag, file, {})


def test_the_key_of_the_environment_is_a_pem_and_is_not_quoted() -> None:
    assert key_from_environment({}) is None
    assert key_from_environment({SIGNING_KEY_VARIABLE: "\n"}) is None
    pem = "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----"
    assert key_from_environment({SIGNING_KEY_VARIABLE: f"\n{pem}\n"}) == f"{pem}\n".encode()
    with pytest.raises(InvalidInput, match="no private key") as caught:
        key_from_environment({SIGNING_KEY_VARIABLE: "hunter2-hunter2"})
    assert "hunter2" not in str(caught.value.to_json())
