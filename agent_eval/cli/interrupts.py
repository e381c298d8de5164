"""Ctrl-C and SIGTERM while an agent is run: the first ends the run cleanly, the second ends it at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType

from agent_eval.cli.failures import INTERRUPTED, TERMINATED

_WORDS = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "told to end by SIGTERM"}
_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
_SAID = "\nStopping: nothing new is begun, and what has finished is kept. Once more to stop at once.\n"


class Interrupts:
    """Takes the signals over; a context manager. `reason` is asked by whoever shall end.

    A signal that is ignored stays ignored, as in a background job of a shell. Outside the main thread, which
    alone can be told of signals, nothing changes.
    """

    def __init__(self) -> None:
        self._received: signal.Signals | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def reason(self) -> str:
        """Why to end, in words; empty while nobody asked for it."""
        return "" if self._received is None else _WORDS[self._received]

    @property
    def exit_code(self) -> int | None:
        """128 and the signal's number; None while there was none."""
        return None if self._received is None else _CODES[self._received]

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self._received is None:
            self._received = signal.Signals(number)
            # Not through Python's buffers, whose lock the interrupted code may hold.
            with suppress(OSError, ValueError):
                os.write(sys.stderr.fileno(), _SAID.encode())
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise SystemExit(TERMINATED)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _WORDS:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
