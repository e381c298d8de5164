"""Requests are sent again when the infrastructure failed, with patience and an end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent_eval.errors import FailureKind
from agent_eval.http.retry import Patience
from agent_eval.models.retries import AdaptiveLimit, Reply, Retries

BROKEN = FailureKind.INFRASTRUCTURE


def sending(answers: Sequence[Reply[int]]) -> Callable[[], Reply[int]]:
    left = iter(answers)
    return lambda: next(left)


def test_waits_double_unless_the_service_says_how_long() -> None:
    waits: list[float] = []
    retries = Retries(Patience(first_wait=1), wait=lambda s: bool(waits.append(s)), chance=lambda: 1.0)
    answers = [Reply(failure=BROKEN), Reply(failure=BROKEN, asked_wait=7.0), Reply(failure=BROKEN), Reply(1)]
    sent, again = retries(sending(answers))
    assert (sent.value, again, retries.count) == (1, 3, 3)
    assert waits == [1.0, 7.0, 4.0]


def test_other_failures_are_answers() -> None:
    sent, again = Retries()(sending([Reply(failure=FailureKind.TIMEOUT)]))
    assert (sent.failure, again) == (FailureKind.TIMEOUT, 0)


def test_a_wait_that_is_too_long_ends_it_at_once() -> None:
    retries = Retries(Patience(longest_wait=90), wait=lambda _: False)
    _, again = retries(sending([Reply(failure=BROKEN, asked_wait=91.0)]))
    assert again == 0


def test_the_sum_of_waits_is_bounded() -> None:
    retries = Retries(Patience(attempts=100, total_wait=100), wait=lambda _: False)
    _, again = retries(sending([Reply(failure=BROKEN, asked_wait=40.0)] * 100))
    assert again == 2


def test_a_run_that_ends_waits_no_longer() -> None:
    retries = Retries()
    retries.stopping.set()
    _, again = retries(sending([Reply(failure=BROKEN, asked_wait=60.0)]))
    assert again == 0


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
