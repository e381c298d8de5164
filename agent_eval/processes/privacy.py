"""Keep this process's environment from the programs that it runs."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4

OF_THE_SIGNER = ("AGENT_EVAL_SIGNING_KEY", "INPUT_SIGNING-KEY", "AGENT_EVAL_ATTESTATION_SECRET")
"""Variables with what evidence is signed with. No program gets them, even where it is named."""


def hide_environment() -> dict[str, str]:
    """Make `/proc/<pid>/environ` and the memory of this process unreadable for its children.

    A child gets an environment of its own (`child.allowed_environment`), but a process of the same user could
    read this program's, tokens included. Linux refuses that for a process that is not dumpable (prctl(2)),
    except to processes with CAP_SYS_PTRACE, CAP_SYS_ADMIN or CAP_PERFMON, which root in a container usually
    lacks. Other systems do not have that.

    What evidence is signed with is removed from `os.environ`, where functions of an agent in this process
    would find it, and processes that are started with it.

    Returns the environment as it was before, for the signer.
    """
    before = dict(os.environ)
    for name in OF_THE_SIGNER:
        os.environ.pop(name, None)
    become_private()
    return before


def become_private() -> None:
    """Keep this process's environment, memory and files from other processes of the same user."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
