"""The environment of this program is nothing for the programs it runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import ctypes
from agent_eval.processes.privacy import hide_environment
PR_GET_DUMPABLE = 3
before = ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
hide_environment()
print(before, ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can refuse it")
def test_no_program_of_the_same_user_may_look_into_this_one() -> None:
    # In a process of its own: what is hidden here stays hidden from debuggers too.
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout == "1 0\n"
