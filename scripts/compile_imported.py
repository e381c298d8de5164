"""Compile every module that importing agent-eval loads, and no other; the Dockerfile runs it.

Bytecode of everything takes 34 MB, of which most jobs read 10. Left out are mostly the clients of hosted
models, which take half a second more in a process that asks one.

The bytecode is not compared with the times of files: copied into an image these can change by a second, after
which Python would compile the module anew in each process.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import py_compile
import sys
from collections.abc import Iterator
from pathlib import Path

import agent_eval

# Imported by functions that most jobs call.
IN_FUNCTIONS = (
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.hazmat.primitives.serialization",
    "requests",
)


# Generates suites at a terminal; no job imports it.
NOT_IN_JOBS = ("agent_eval.benchmarks",)


def imported() -> Iterator[Path]:
    """Import each module of agent-eval that jobs use; yield the sources here that are loaded then."""
    for module in pkgutil.walk_packages(agent_eval.__path__, "agent_eval."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:  # a framework of agents that the image does not have
            source = importlib.util.find_spec(module.name)
            if str(error.name).startswith("agent_eval") or source is None or source.origin is None:
                raise
            yield Path(source.origin)
    for name in IN_FUNCTIONS:
        importlib.import_module(name)
    for name, loaded in list(sys.modules.items()):
        source = getattr(loaded, "__file__", None)
        if name.startswith(NOT_IN_JOBS):
            continue
        if source and source.endswith(".py") and Path(source).is_relative_to(sys.prefix):
            yield Path(source)


if __name__ == "__main__":
    sources = sorted(set(imported()))
    for path in sources:
        py_compile.compile(
            str(path), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
    print(f"compiled {len(sources)} modules")
