"""Import Python functions and agents that the command line names, as `module:name` or `file.py:name`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_eval.agents.frameworks import AgentObject
from agent_eval.agents.frameworks.catalog import FRAMEWORKS, QUIET, framework_of, maker_of
from agent_eval.errors import UsageError, words_of
from agent_eval.text.spelling import nearest

_LONGEST_PROBLEM = 500


def check_function(spec: str, *, what: str) -> None:
    """Check that the file or the package of a function exists, without importing it.

    `spec` is `module:function` or `file.py:function`; `what` is its purpose in a word or two, for messages.
    """
    _add_working_directory()
    module_name, _, path = spec.partition(":")
    if module_name.endswith(".py"):
        if not path or not Path(module_name).is_file():
            raise _cannot_be_loaded(spec, what, FileNotFoundError(f"there is no file {module_name}"))
        return
    package = module_name.partition(".")[0]
    try:
        exists = bool(path) and importlib.util.find_spec(package) is not None
    except (ImportError, ValueError) as problem:
        raise _cannot_be_loaded(spec, what, problem) from problem
    if not exists:
        raise _cannot_be_loaded(spec, what, ModuleNotFoundError(f"No module named {package!r}"))


def load_function(spec: str, *, what: str) -> Callable[..., Any]:
    """Import a function, also from a file or from a module in the working directory.

    `spec` is `module:function` or `file.py:function`; `what` is its purpose in a word or two, for messages.

    Raises:
        UsageError: It cannot be imported, is not callable, or is an agent of a framework.
    """
    function = load_object(spec, what=what)
    framework = framework_of(function)
    if framework is not None or not callable(function):
        agent = "" if framework is None else f"an agent of {framework.name}, "
        raise UsageError(
            f"the {what} {spec!r} is {agent}not a function", remedy="Name a function, as module:function."
        )
    return function  # type: ignore[no-any-return]


def load_agent(spec: str) -> Callable[..., Any] | AgentObject:
    """Import an agent: a function, an agent object of a framework, or a function without parameters for one.

    For a process of its own: what keeps frameworks quiet is set in its environment.

    Raises:
        UsageError: It cannot be imported, is neither, or is of a framework whose agents are not supported.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    agent = load_object(spec, what="agent")
    if (make := maker_of(agent)) is not None:
        try:
            agent = make()
        # A project's own code.
        except Exception as problem:
            raise _cannot_be_loaded(spec, "agent", problem) from problem
    framework = framework_of(agent)
    if framework is None:
        if not callable(agent):
            raise UsageError(
                f"the agent {spec!r} is not a function, and no agent of a framework that is known: "
                f"it is a {type(agent).__module__}.{type(agent).__qualname__}",
                remedy="Name a function, as module:function, or an agent of "
                f"{', '.join(dict.fromkeys(row.name for row in FRAMEWORKS if row.module))}.",
            )
        return agent  # type: ignore[no-any-return]
    if framework.module is None:
        raise UsageError(
            f"the agent {spec!r} is an agent of {framework.name}: what it does would not be recorded",
            remedy=framework.remedy,
        )
    from agent_eval.agents.frameworks.conversation import FrameworkAgent  # functions do without

    try:
        return FrameworkAgent(agent, framework.load())
    except UsageError:
        raise
    except Exception as problem:  # another version of the framework, which lacks what is used of it
        raise _cannot_be_loaded(spec, "agent", problem) from problem


def load_object(spec: str, *, what: str) -> Any:
    """Import what `module:name` or `file.py:name` names."""
    _add_working_directory()
    module_name, _, path = spec.partition(":")
    try:
        is_file = module_name.endswith(".py")
        loaded: Any = _run_file(Path(module_name)) if is_file else importlib.import_module(module_name)
        for part in path.split("."):
            if not hasattr(loaded, part):
                near = nearest(part, [name for name in dir(loaded) if not name.startswith("_")], 0.6)
                hint = f"; did you mean {near}?" if near else ""
                raise AttributeError(f"{getattr(loaded, '__name__', 'it')} has no {part!r}{hint}")
            loaded = getattr(loaded, part)
    # A module may fail in any way when it is imported.
    except Exception as problem:
        raise _cannot_be_loaded(spec, what, problem) from problem
    return loaded


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


def _run_file(file: Path) -> ModuleType:
    """Import a file, whose neighbours it can import; it hides no installed module of its name."""
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    is_taken = file.stem in sys.modules or (
        (known := importlib.util.find_spec(file.stem)) is not None and known.origin != str(file.resolve())
    )
    name = f"file_{file.stem}" if is_taken else file.stem
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _cannot_be_loaded(spec: str, what: str, problem: Exception) -> UsageError:
    words = words_of(problem, _LONGEST_PROBLEM)
    if isinstance(problem, ModuleNotFoundError) and spec.partition(":")[0].split(".")[0] != problem.name:
        remedy = f"Install what has the module {problem.name} beside agent-eval, in the same environment."
    elif isinstance(problem, AttributeError | FileNotFoundError):
        remedy = "Write module:name or file.py:name, with the name that the module gives it."
    else:
        remedy = "Write module:name or file.py:name, and make sure that Python can import it from here."
    # Where a project's own code failed: the last frame that is not of Python. The first is this module's.
    frames = [
        frame
        for frame in traceback.extract_tb(problem.__traceback__)
        if not frame.filename.startswith("<") and frame.filename != importlib.__file__
    ]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if len(frames) > 1 else ""
    return UsageError(f"the {what} {spec!r} cannot be loaded: {words}{place}", remedy=remedy)
