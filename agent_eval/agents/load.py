"""Python functions named on the command line, as `module:function`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from agent_eval.errors import UsageError


def load_function(spec: str, *, what: str) -> Callable[..., Any]:
    """Import a function, from the working directory too.

    Args:
        spec: `module:function`.
        what: What it is for, in a word or two, for messages.

    Raises:
        UsageError: It cannot be imported or is not callable.
    """
    module_name, _, path = spec.partition(":")
    if os.getcwd() not in sys.path:
        # Last, so that a file in the working directory never hides an installed module.
        sys.path.append(os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    # A module may fail in any way when it is imported.
    except Exception as problem:
        raise UsageError(
            f"the {what} {spec!r} cannot be loaded: {type(problem).__name__}: {problem}"[:500],
            remedy="Write module:function, and make sure that the module can be imported from here.",
        ) from problem
    if not callable(found):
        raise UsageError(
            f"the {what} {spec!r} is not a function", remedy="Name a function, as module:function."
        )
    return found  # type: ignore[no-any-return]
