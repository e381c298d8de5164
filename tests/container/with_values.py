"""Runs the command it is given, with every `--env NAME` made `--env NAME=value` from its own environment."""

from __future__ import annotations

import os
import sys
from itertools import pairwise


def valued(arguments: list[str]) -> list[str]:
    """The arguments with the values of the variables that they name."""
    after_env = [False, *(before == "--env" for before, _ in pairwise(arguments))]
    return [
        f"{argument}={os.environ[argument]}" if named and "=" not in argument else argument
        for argument, named in zip(arguments, after_env, strict=True)
    ]


if __name__ == "__main__":
    command = valued(sys.argv[1:])
    os.execvp(command[0], command)
