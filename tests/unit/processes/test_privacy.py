"""The environment of this program, and what evidence is signed with, are nothing for other programs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agent_eval.attestations.keys import SECRET_VARIABLE, SIGNING_KEY_VARIABLE
from agent_eval.processes.child import allowed_environment
from agent_eval.processes.privacy import OF_THE_SIGNER
from agent_eval.storage.redaction_rules import is_secret_name

CODE = """
import os
from agent_eval.processes.privacy import OF_THE_SIGNER, hide_environment
before = hide_environment()
print(sorted(set(OF_THE_SIGNER) & set(before)) == sorted(OF_THE_SIGNER), set(OF_THE_SIGNER) & set(os.environ))
"""


def test_every_variable_of_the_signer_is_kept_back_and_redacted() -> None:
    assert {SECRET_VARIABLE, SIGNING_KEY_VARIABLE} < set(OF_THE_SIGNER)
    assert all(map(is_secret_name, OF_THE_SIGNER))


@pytest.mark.parametrize("name", OF_THE_SIGNER)
def test_no_program_gets_it_even_where_it_is_named(name: str) -> None:
    assert allowed_environment({name: "key", "SHOP": "eu"}, [name, "SHOP"]) == {"SHOP": "eu"}


def test_it_is_taken_from_this_process_and_given_to_the_signer() -> None:
    environ = {**os.environ, **dict.fromkeys(OF_THE_SIGNER, "value")}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout == "True set()\n"


def test_the_path_of_a_public_key_is_no_secret() -> None:
    assert not is_secret_name("INPUT_BASELINE-PUBLIC-KEY")
    assert not is_secret_name("AGENT_EVAL_BASELINE_PUBLIC_KEY")
    assert is_secret_name("INPUT_SIGNING-KEY")


HIDDEN = """
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
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=True)
    assert done.stdout == "1 0\n"
