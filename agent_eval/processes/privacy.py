"""Keeping this program's own environment from the programs it runs."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4


def hide_environment() -> None:
    """Make `/proc/<pid>/environ` and the memory of this process unreadable for its children.

    An agent or a judge gets an environment of its own (`allowed_environment`), but one of the same user could
    read this program's, tokens included. Linux refuses that for a process that is not dumpable (prctl(2)),
    except to those with CAP_SYS_PTRACE, CAP_SYS_ADMIN or CAP_PERFMON, which the root of a container usually
    does not have. Does nothing elsewhere.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
