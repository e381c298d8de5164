"""The shared secret of an HMAC: where it comes from, and what it is worth."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent_eval.errors import InvalidInput, UsageError
from agent_eval.storage.files import read_bytes

SECRET_VARIABLE = "AGENT_EVAL_ATTESTATION_SECRET"  # noqa: S105  (a name, not a secret)
SIGNING_KEY_VARIABLE = "AGENT_EVAL_SIGNING_KEY"
SAFE_BYTES = 32
"""Length from which a secret cannot be guessed from the HMACs it made, if it is random."""

_MAX_BYTES = 4096


def shared_secret(text: str | None, file: Path | None, environ: Mapping[str, str]) -> bytes | None:
    """Take the shared secret from a flag, a file or the environment; None where there is none.

    A line feed at the end of the file does not count.

    Example:
        >>> shared_secret(None, None, {SECRET_VARIABLE: "from-the-environment"})
        b'from-the-environment'

    Raises:
        UsageError: Both flag and file are given, or the secret is empty: an empty one would check nothing.
        InvalidInput: The file cannot be read.
    """
    if text is not None and file is not None:
        raise UsageError("--secret and --secret-file are both given", remedy="Give one of them.")
    stated = environ.get(SECRET_VARIABLE)
    if file is not None:
        secret = read_bytes(file, max_bytes=_MAX_BYTES).rstrip(b"\r\n")
    elif text is not None:
        secret = text.encode()
    elif stated is not None and stated.strip():
        secret = stated.encode()
    else:
        return None
    if not secret.strip():
        raise UsageError(
            "the shared secret is empty",
            remedy="Give one of 32 random bytes, such as `openssl rand -hex 32` makes.",
        )
    return secret


def key_from_environment(environ: Mapping[str, str]) -> bytes | None:
    """Return the private key in PEM from the environment; None where there is none.

    Raises:
        InvalidInput: The variable holds something that cannot be a key.
    """
    text = environ.get(SIGNING_KEY_VARIABLE, "").strip()
    if not text:
        return None
    if "PRIVATE KEY" not in text:
        raise InvalidInput(
            f"{SIGNING_KEY_VARIABLE} holds no private key in PEM",
            remedy="Set it to the whole content of the file that `agent-eval keygen` wrote.",
            field=SIGNING_KEY_VARIABLE,
        )
    return text.encode() + b"\n"
