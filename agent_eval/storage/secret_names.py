"""Which environment variables hold secrets, by their names. Standard library only: start-up may ask."""

from __future__ import annotations

import re

SHORTEST = 8
"""Characters of a secret; shorter values are too likely to be ordinary words."""

_SECRET_WORDS = frozenset(
    (
        *("TOKEN", "TOKENS", "SECRET", "SECRETS", "KEY", "KEYS", "APIKEY", "PAT", "JWT", "BEARER", "DSN"),
        *("PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "PASS", "PWD", "PW", "CREDENTIAL", "CREDENTIALS"),
        *("CREDS", "AUTH", "AUTHORIZATION", "COOKIE", "SIGNATURE", "PRIVATE", "WEBHOOK"),
    )
)
_NOT_SECRET = frozenset(("PWD", "OLDPWD", "SSH_AUTH_SOCK"))
_WORD_ENDINGS = ("TOKEN", "SECRET", "PASSWORD", "APIKEY", "CREDENTIALS")
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")


def is_secret_name(name: str) -> bool:
    """Whether a variable's name says that its value is secret: `DEPLOY_TOKEN`, `MY_API-KEY`, ..."""
    if name.upper() in _NOT_SECRET:
        return False
    words = _SEPARATORS.split(name.upper())
    return any(word in _SECRET_WORDS or word.endswith(_WORD_ENDINGS) for word in words)
