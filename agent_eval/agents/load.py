"""Import Python functions that the command line names, as `module:function`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

from agent_eval.agents.frameworks import framework_of
from agent_eval.errors import UsageError


def check_function(spec: str, *, what: str) -> None:
    """Check that the package of a function exists, without importing it.

    `spec` is `module:function`; `what` is its purpose in a word or two, for messages.
    """
    _add_working_directory()
    module_name, _, path = spec.partition(":")
    package = module_name.partition(".")[0]
    try:
        exists = bool(path) and importlib.util.find_spec(package) is not None
    except (ImportError, ValueError) as problem:
        raise _cannot_be_loaded(spec, what, problem) from problem
    if not exists:
        raise _cannot_be_loaded(spec, what, ModuleNotFoundError(f"No module named {package!r}"))


def load_function(spec: str, *, what: str) -> Callable[..., Any]:
    """Import a function, also from a module in the working directory.

    `spec` is `module:function`; `what` is its purpose in a word or two, for messages.

    Raises:
        UsageError: It cannot be imported, is not callable, or is an agent of a framework.
    """
    _add_working_directory()
    module_name, _, path = spec.partition(":")
    try:
        function: Any = importlib.import_module(module_name)
        for part in path.split("."):
            function = getattr(function, part)
    # A module may fail in any way when it is imported.
    except Exception as problem:
        raise _cannot_be_loaded(spec, what, problem) from problem
    framework = framework_of(function)
    if framework is not None:
        raise UsageError(
            f"the {what} {spec!r} is an agent of {framework}: what it does would not be recorded",
            remedy="Name a function that runs it and returns its answer with its tool calls; "
            "docs/guides/my-agent.md has one to start from.",
        )
    if not callable(function):
        raise UsageError(
            f"the {what} {spec!r} is not a function", remedy="Name a function, as module:function."
        )
    return function  # type: ignore[no-any-return]


def accepts(function: Callable[..., Any], count: int) -> bool:
    """Whether a function can be called with so many arguments; one that cannot be inspected is not."""
    try:
        inspect.signature(function).bind(*(None,) * count)
    except (TypeError, ValueError):
        return False
    return True


def _add_working_directory() -> None:
    if os.getcwd() not in sys.path:
        # Appended, so that a file in the working directory never hides an installed module.
        sys.path.append(os.getcwd())


def _cannot_be_loaded(spec: str, what: str, problem: Exception) -> UsageError:
    return UsageError(
        f"the {what} {spec!r} cannot be loaded: {type(problem).__name__}: {problem}"[:500],
        remedy="Write module:function, and make sure that the module can be imported from here.",
    )
