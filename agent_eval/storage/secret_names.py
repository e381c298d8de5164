"""Recognize environment variables that hold secrets by their names. Imported at start-up: no dependencies."""

from __future__ import annotations

import re

SHORTEST = 8
"""Minimum number of characters of a secret; shorter values are too likely to be ordinary words."""

_SECRET_WORDS = frozenset(
    (
        *("TOKEN", "TOKENS", "SECRET", "SECRETS", "KEY", "KEYS", "APIKEY", "PAT", "JWT", "BEARER", "DSN"),
        *("PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PW", "CREDENTIAL", "CREDENTIALS"),
        *("CREDS", "AUTH", "AUTHORIZATION", "COOKIE", "SIGNATURE", "PRIVATE", "WEBHOOK"),
    )
)
_NOT_SECRET = frozenset(
    (
        *("PWD", "OLDPWD", "SSH_AUTH_SOCK"),
        # The path of a public key, which would be replaced in every message and report.
        *("INPUT_BASELINE-PUBLIC-KEY", "AGENT_EVAL_BASELINE_PUBLIC_KEY"),
    )
)
_WORD_ENDINGS = ("TOKEN", "SECRET", "PASSWORD", "APIKEY", "CREDENTIALS")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is secret.

    Example:
        >>> is_secret_name("DEPLOY_TOKEN"), is_secret_name("MY_API-KEY"), is_secret_name("HOME")
        (True, True, False)
    """
    if name.upper() in _NOT_SECRET:
        return False
    words = _SEPARATORS.split(name.upper())
    return any(word in _SECRET_WORDS or word.endswith(_WORD_ENDINGS) for word in words)
