"""The environment a child gets: what programs need to run, and what was asked for by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

PASSED_ON = frozenset(
    {
        "HOME",
        "LANG",
        "LANGUAGE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TMPDIR",
        "TZ",
        "USER",
        "VIRTUAL_ENV",
    }
)
"""Variables that say where things are and how to write them; none of them is a secret."""

_LOCALE = "LC_"


def allowed_environment(environ: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """The part of an environment that a child may see.

    Tokens, keys and passwords of the job are not passed on: a program under test that could read them
    could also print them.

    Args:
        environ: This program's environment.
        names: Further variables that were asked for; those that are not set are left out.
    """
    wanted = PASSED_ON.union(names)
    return {name: value for name, value in environ.items() if name in wanted or name.startswith(_LOCALE)}
