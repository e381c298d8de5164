"""What `buildkite-agent pipeline upload` makes of a pipeline: variables are replaced in its text.

The rules are those that Buildkite documents: `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`,
`${NAME:offset}`, `${NAME:offset:length}` and `${NAME?message}` are replaced; `$$NAME`, `$${...}` and
`\\$NAME` leave the shell a dollar. A dollar before anything else stays.
"""

import re
from collections.abc import Mapping

_DOLLAR = re.compile(
    r"\$\$|\\\$|\$(?P<plain>[A-Za-z_][A-Za-z0-9_]*)"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<rule>(?::?[-?]|:\d+(?::\d+)?)?)(?P<rest>[^}]*)\}|\$\{"
)


class CannotInterpolate(Exception):
    """The upload fails: a variable is missing that must be there, or an expression cannot be read."""


def uploaded(text: str, environ: Mapping[str, str]) -> str:
    """Replace the variables in a pipeline's text."""
    return _DOLLAR.sub(lambda found: _value(found, environ), text)


def _value(found: re.Match[str], environ: Mapping[str, str]) -> str:
    if found[0] in ("$$", "\\$"):
        return "$"
    name = found["plain"] or found["name"]
    if name is None:
        raise CannotInterpolate(found.string[found.start() : found.start() + 40])
    value, rule, rest = environ.get(name), found["rule"] or "", found["rest"] or ""
    if rule.endswith("-"):
        missing = not value if rule.startswith(":") else value is None
        return rest if missing else value or ""
    if rule.endswith("?"):
        if value is None or (rule.startswith(":") and not value):
            raise CannotInterpolate(f"{name}: {rest or 'not set'}")
        return value
    if rest:
        raise CannotInterpolate(found[0])
    if rule:
        offset, _, length = rule.removeprefix(":").partition(":")
        cut = (value or "")[int(offset) :]
        return cut[: int(length)] if length else cut
    return value or ""
