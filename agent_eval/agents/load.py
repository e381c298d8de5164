"""Import Python functions that the command line names, as `module:function`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from agent_eval.errors import UsageError


def load_function(spec: str, *, what: str) -> Callable[..., Any]:
    """Import a function, also from a module in the working directory.

    Args:
        spec: The function, as `module:function`.
        what: Purpose of the function in a word or two, for messages.

    Raises:
        UsageError: It cannot be imported or is not callable.

    Example:
        >>> load_function("math:sqrt", what="agent")(9)
        3.0
    """
    module_name, _, path = spec.partition(":")
    if os.getcwd() not in sys.path:
        # Appended, so that a file in the working directory never hides an installed module.
        sys.path.append(os.getcwd())
    try:
        function: Any = importlib.import_module(module_name)
        for part in path.split("."):
            function = getattr(function, part)
    # A module may fail in any way when it is imported.
    except Exception as problem:
        raise UsageError(
            f"the {what} {spec!r} cannot be loaded: {type(problem).__name__}: {problem}"[:500],
            remedy="Write module:function, and make sure that the module can be imported from here.",
        ) from problem
    if not callable(function):
        raise UsageError(
            f"the {what} {spec!r} is not a function", remedy="Name a function, as module:function."
        )
    return function  # type: ignore[no-any-return]
