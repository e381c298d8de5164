"""The first signal asks a run to end, the second ends it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from agent_eval.cli.run import Interrupts

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("sent", SIGNALS)
def test_the_first_signal_is_noted_and_the_run_goes_on(
    sent: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(sent)
    with Interrupts() as interrupts:
        assert interrupts.reason() == ""
        assert interrupts.exit_code is None
        send(sent)
        assert interrupts.reason()
        assert interrupts.exit_code == 128 + sent
    assert "Interrupt again to stop at once" in capfd.readouterr().err
    assert signal.getsignal(sent) is before


@pytest.mark.parametrize(
    ("second", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
@pytest.mark.parametrize("first", SIGNALS)
def test_the_second_ends_it_at_once(
    first: signal.Signals, second: signal.Signals, raised: type[BaseException]
) -> None:
    with Interrupts() as interrupts:
        send(first)
        with pytest.raises(raised):
            send(second)
        assert interrupts.exit_code == 128 + first


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts() as interrupts:
        send(signal.SIGINT)
        assert interrupts.reason() == ""
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_outside_the_main_thread_nothing_changes() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[object] = []

    def work() -> None:
        with Interrupts():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
