"""When the requests of an account are sent, and sent again, at a provider that may be slow or refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

import pytest

from agent_eval.errors import FailureKind
from agent_eval.http.retry import Patience
from agent_eval.models.retries import AdaptiveLimit, Pace, Reply, Retries


class Time:
    """Seconds that pass only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False


def sent(pace: Pace, time: Time) -> Iterator[float]:
    """Send requests that nobody answers; yield when."""
    while True:
        pace.wait_for_turn(time.wait)
        yield time.now


def refused(time: Time) -> Pace:
    """An account whose limit is 3 requests a second: the fourth was refused."""
    pace = Pace(time)
    turns = [pace.wait_for_turn(time.wait) for _ in range(4)]
    assert turns == [0, 0, 0, 0]
    assert time.now == 0.0
    for number in range(4):
        pace.report(0, refused=number == 3, asked_wait=1.0 if number == 3 else None, chance=0.0)
    return pace


@pytest.mark.parametrize("silent", [0.0, 2.0])
def test_few_requests_meet_a_limit_before_the_first_is_answered(silent: float) -> None:
    time = Time()
    moments = sent(Pace(time), time)
    before = [moment for moment, _ in zip(moments, range(50), strict=False) if moment <= silent]
    assert len(before) <= 4 + 4 * silent


def test_each_answer_lets_one_more_request_be_in_progress() -> None:
    time = Time()
    pace = Pace(time)
    in_progress = 4
    for _ in range(in_progress):
        pace.wait_for_turn(time.wait)
    while in_progress < 32:
        for _ in range(in_progress):
            pace.report(0, refused=False, asked_wait=None, chance=0.0)
        in_progress *= 2
        for _ in range(in_progress):
            pace.wait_for_turn(time.wait)
    assert time.now == 0.0


def test_after_a_refusal_requests_wait_for_the_stated_moment_and_keep_the_rate_that_was_taken() -> None:
    time = Time()
    pace = refused(time)
    moments = [moment for moment, _ in zip(sent(pace, time), range(4), strict=False)]
    assert moments == pytest.approx([1.0, 1.35, 1.70, 2.05])


def test_a_machine_that_stood_still_sends_no_burst_afterwards() -> None:
    time = Time()
    pace = refused(time)
    began: list[float] = []

    def send(others: int) -> None:
        """Wait, and while waiting have others come; all of them wake at one moment, long after their time."""
        is_awake = False

        def wait(seconds: float) -> bool:
            nonlocal is_awake
            if is_awake:
                time.now += seconds
            elif others:
                send(others - 1)
            else:
                time.now += 60.0
            is_awake = True
            return False

        pace.wait_for_turn(wait)
        began.append(time.now)

    send(5)
    gaps = [later - earlier for earlier, later in pairwise(began)]
    assert len(gaps) == 5
    assert min(gaps) >= 0.35 - 1e-9


def test_a_request_that_gives_up_waiting_leaves_its_place_to_others() -> None:
    time = Time()
    pace = refused(time)
    assert pace.wait_for_turn(lambda _: True) is None
    with suppress(RuntimeError):
        pace.wait_for_turn(_interrupted)
    assert pace.wait_for_turn(time.wait) == 1
    assert time.now == pytest.approx(1.0)


def _interrupted(seconds: float) -> bool:
    raise RuntimeError(seconds)


BROKEN = FailureKind.INFRASTRUCTURE


def sending(answers: Sequence[Reply[int]]) -> Callable[[], Reply[int]]:
    left = iter(answers)
    return lambda: next(left)


def refusal(*asked: float | None) -> list[Reply[int]]:
    return [Reply(failure=BROKEN, asked_wait=seconds) for seconds in asked]


@pytest.mark.parametrize(
    ("patience", "answers", "waited"),
    [
        (Patience(first_wait=1), [*refusal(None, 7.0, None), Reply(1)], [1.0, 7.0, 4.0]),
        (Patience(), [Reply(failure=FailureKind.TIMEOUT)], []),
        (Patience(longest_wait=90), refusal(91.0), []),
        (Patience(attempts=100, total_wait=100), refusal(*[40.0] * 3), [40.0, 40.0]),
    ],
    ids=["doubled unless stated", "other failures are answers", "too long", "too long in all"],
)
def test_waits_are_as_the_service_says_and_bounded(
    patience: Patience, answers: list[Reply[int]], waited: list[float]
) -> None:
    waits: list[float] = []
    retries = Retries(patience, wait=lambda seconds: bool(waits.append(seconds)), chance=lambda: 1.0)
    sent, again = retries(sending(answers))
    assert (sent, again, waits) == (answers[-1], len(answers) - 1, waited)


def test_a_run_that_ends_waits_no_longer() -> None:
    retries = Retries()
    retries.stopping.set()
    assert retries(sending(refusal(60.0)))[1] == 0


def test_the_limit_hears_of_refusals() -> None:
    limit = AdaptiveLimit(10)
    retries = Retries(limit=limit, wait=lambda _: False)
    retries(sending([Reply(failure=BROKEN, rate_limited=True), Reply(1)]))
    assert limit.current() == 8


def test_nobody_waits_for_an_account_that_is_refused_for_an_hour() -> None:
    waits: list[float] = []
    retries = Retries(limit=AdaptiveLimit(10), wait=lambda seconds: bool(waits.append(seconds)))
    retries(sending([Reply(failure=BROKEN, rate_limited=True, asked_wait=3600.0)]))
    sent, again = retries(sending([]))  # not sent at all
    assert (sent.failure, again, waits) == (BROKEN, 0, [])
    assert sent.problem == "was not asked: the provider refuses this account for longer than there is time"
