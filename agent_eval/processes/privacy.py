"""Keep this process's environment from the programs that it runs."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4


def hide_environment() -> None:
    """Make `/proc/<pid>/environ` and the memory of this process unreadable for its children.

    A child gets an environment of its own (`child.allowed_environment`), but a process of the same user could
    read this program's, tokens included. Linux refuses that for a process that is not dumpable (prctl(2)),
    except to processes with CAP_SYS_PTRACE, CAP_SYS_ADMIN or CAP_PERFMON, which root in a container usually
    lacks. Does nothing on other systems.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
