"""What is redacted: variables by their names, shapes of tokens, what the user asks for. Imports no package.

Shapes are those that vendors give their tokens so that scanners find them. A shape begins with letters that
hardly occur otherwise: a rule that replaces ordinary text would cost more evidence than it protects.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_eval.errors import UsageError

_CHARACTER = "[A-Za-z0-9_-]"

TOKEN_SHAPES: tuple[tuple[str, str], ...] = (
    ("github-token", r"\bgh[pousr]_[A-Za-z0-9]{36,}"),
    ("github-token", r"\bgithub_pat_[A-Za-z0-9_]{22,}"),
    ("gitlab-token", rf"\bgl(?:pat|ptt|dt|rt|cbt|soat)-{_CHARACTER}{{20,}}"),
    ("anthropic-key", rf"\bsk-ant-{_CHARACTER}{{20,}}"),
    ("openai-key", rf"\bsk-(?:proj|svcacct|admin|or-v1)-{_CHARACTER}{{20,}}"),
    ("openai-key", r"\bsk-[A-Za-z0-9]{32,}"),
    ("aws-key-id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("google-key", rf"\bAIza{_CHARACTER}{{35}}"),
    ("google-token", rf"\bya29\.{_CHARACTER}{{20,}}"),
    ("slack-token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("slack-webhook", r"\bhooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9_/-]{20,}"),
    ("stripe-key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("huggingface-token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("npm-token", r"\bnpm_[A-Za-z0-9]{36,}"),
    ("pypi-token", rf"\bpypi-AgE{_CHARACTER}{{50,}}"),
    ("sendgrid-key", rf"\bSG\.{_CHARACTER}{{16,64}}\.{_CHARACTER}{{16,128}}"),
    ("digitalocean-token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("shopify-token", r"\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    ("databricks-token", r"\bdapi[a-f0-9]{32}"),
    ("vault-token", rf"\bhv[bsr]\.{_CHARACTER}{{24,}}"),
    ("groq-key", r"\bgsk_[A-Za-z0-9]{40,}"),
    ("json-web-token", rf"\beyJ{_CHARACTER}{{10,}}\.eyJ{_CHARACTER}*\.{_CHARACTER}{{10,}}{_CHARACTER}*"),
    (
        "private-key",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?",
    ),
)
"""Name and pattern of every shape, for RE2."""

E_MAIL, CARD_NUMBER, PERSON = "e-mail", "card-number", "name"

PERSONAL_SHAPES: tuple[tuple[str, str], ...] = (
    (E_MAIL, r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"),
    (CARD_NUMBER, r"\b[2-6](?:[ -]?[0-9]){12,18}\b"),
)
"""Patterns of e-mail addresses and of card numbers, whose check digit `is_card_number` tests."""

NAME_FIELDS = (
    *("first_name", "last_name", "full_name", "middle_name", "given_name", "family_name", "surname"),
    *("firstname", "lastname", "fullname", "customer_name", "cardholder_name", "passenger_name"),
    *(f"{who}.name" for who in ("customer", "user", "person", "passenger", "patient", "contact", "employee")),
)
"""Fields that hold the name of a person."""

_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,39})=(.+)", re.DOTALL)
_FIELD = re.compile(r"[^\s.]+(?:\.[^\s.]+)*")
_PATTERN_REMEDY = (
    "Write it as NAME=REGEX with a name of letters, digits, dots and dashes, as badge=B-[0-9]{6}."
)


@dataclass(frozen=True)
class RedactionRules:
    """What the user asks to be redacted beside secrets.

    Attributes:
        patterns: Regular expressions of RE2, each as NAME=REGEX.
        fields: Names of fields at any depth, as `ssn`, or with those above, as `customer.ssn`; case does not
            matter.
        personal: Whether e-mail addresses, names of persons and card numbers are redacted.
    """

    patterns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    personal: bool = False

    def __bool__(self) -> bool:
        """Whether there is any rule."""
        return bool(self.patterns or self.fields or self.personal)

    def __or__(self, other: RedactionRules) -> RedactionRules:
        """The rules of both."""
        return RedactionRules(
            tuple(dict.fromkeys((*self.patterns, *other.patterns))),
            tuple(dict.fromkeys((*self.fields, *other.fields))),
            self.personal or other.personal,
        )

    def named_patterns(self) -> tuple[tuple[str, str], ...]:
        """Return name and regular expression of every pattern; raise UsageError if one is not NAME=REGEX."""
        named = []
        for text in self.patterns:
            match = _NAMED.fullmatch(text)
            if match is None:
                raise UsageError(
                    "a redact-pattern has no name", remedy=_PATTERN_REMEDY, field="redact-pattern"
                )
            named.append((match[1], match[2]))
        return tuple(named)

    def field_paths(self) -> tuple[tuple[str, ...], ...]:
        """Return every field as the names on the way to it, in lower case."""
        for name in self.fields:
            if not _FIELD.fullmatch(name):
                raise UsageError(
                    f"redact-field {name[:80]!r} is no name of a field",
                    remedy="Write it as ssn, or as customer.ssn.",
                    field="redact-field",
                )
        names = (*self.fields, *(NAME_FIELDS if self.personal else ()))
        return tuple(tuple(name.casefold().split(".")) for name in names)


NO_RULES = RedactionRules()


def is_card_number(text: str) -> bool:
    """Test the check digit of a card number (ISO/IEC 7812, Luhn).

    Example:
        >>> is_card_number("4111 1111 1111 1111"), is_card_number("4111 1111 1111 1112")
        (True, False)
    """
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 40


def marker(name: str) -> str:
    """Return the text that replaces what has this name.

    Example:
        >>> marker("DEPLOY_CHARACTER")
        '[redacted:DEPLOY_CHARACTER]'
    """
    safe = _UNSAFE.sub("-", name)[:_LONGEST_NAME]
    return f"[redacted:{safe}]" if safe else "[redacted]"


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
