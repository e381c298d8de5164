"""Ask a model with retries, within the limit of its account, and count what it costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_args

from typing_extensions import override

from agent_eval.errors import FailureKind
from agent_eval.models.base import Model, ModelFailure, ModelReply, ModelRequest, Purpose
from agent_eval.models.retries import Reply, Retries, Retry, limit_of, send_once, time_left

_TICK_SECONDS = 0.2
_SENT_AGAIN = frozenset({FailureKind.INFRASTRUCTURE, FailureKind.TIMEOUT})
_DOWN_AFTER = 3
"""Requests in a row that fail in spite of their retries before a model is taken to be down."""


class ModelUse:
    """What was asked of a model: calls, tokens, US dollars. Any thread may add to it.

    Replies that were kept count as `reused`, their cost as `saved_usd`; calls of unknown cost as `unpriced`.
    """

    def __init__(self) -> None:
        self._counts: dict[str, float] = {}
        self._lock = threading.Lock()

    def add(self, reply: ModelReply | ModelFailure) -> None:
        """Add a reply, or a call that got none."""
        amounts: dict[str, float]
        if isinstance(reply, ModelFailure):
            amounts = {"failures": 1, "retries": reply.retries}
        elif reply.source != "model":
            amounts = {"reused": 1, "saved_usd": reply.cost_usd or 0}
        else:
            amounts = {"calls": 1, "retries": reply.retries, "unpriced": reply.cost_usd is None}
            amounts |= {"cost_usd": reply.cost_usd or 0, **(reply.usage.to_json() if reply.usage else {})}
        with self._lock:
            for name, amount in amounts.items():
                if amount:
                    self._counts[name] = round(self._counts.get(name, 0) + amount, 9)

    def to_json(self) -> dict[str, float]:
        """Return the counts by name, without those that are 0."""
        with self._lock:
            return dict(self._counts)


class ModelClient(Model):
    """A model that is asked with patience: what fails for no fault of the request is sent again.

    Requests in progress stay within the limit of the model's account, which the agents of the same process
    share: a refusal for too many requests lowers it for all of them. After a failure that every further
    request would repeat, such as an invalid key, no request is sent any more.

    Once several requests in a row have failed in spite of their retries, further ones are sent only once,
    until one succeeds: a model that is down would otherwise be waited for at every case.

    `use` counts what was asked by purpose.
    """

    kind = "client"

    def __init__(self, model: Model, *, retries: Retries | None = None) -> None:
        self._inner, self.model, self.account = model, model.model, model.account
        retries = retries or Retries()
        self._limit = retries.limit or limit_of(model.account)
        self._retries = replace(retries, limit=self._limit)
        self.use = {purpose: ModelUse() for purpose in get_args(Purpose)}
        self._in_progress = 0
        self._changed = threading.Condition()
        self._final: ModelFailure | None = None
        self._failed_in_a_row = 0

    @override
    def describe(self) -> dict[str, Any]:
        return self._inner.describe()

    @override
    def close(self) -> None:
        self._inner.close()

    @override
    def complete(self, request: ModelRequest) -> ModelReply:
        if self._final is not None:
            raise self._final
        failures: list[ModelFailure] = []
        with self._place():
            retry: Retry = send_once if self._failed_in_a_row >= _DOWN_AFTER else self._retries
            reply, times = retry(lambda: self._attempt(request, failures))
        if reply.value is not None:
            self._failed_in_a_row = 0
            answered = replace(reply.value, retries=times)
            self.use[request.purpose].add(answered)
            return answered
        failure = failures[-1]
        failure.retries = times
        self._failed_in_a_row += reply.is_infrastructure
        self.use[request.purpose].add(failure)
        if failure.is_final:
            self._final = failure
        raise failure

    @contextmanager
    def _place(self) -> Iterator[None]:
        """Keep requests in progress within the account's limit, once the account has refused one.

        Places are not taken from that limit itself: a trial whose agent has the same account holds a place
        there while its judges wait for theirs.
        """
        with self._changed:
            while self._limit.was_refused and self._in_progress >= self._limit.current():
                # With a timeout: the limit may grow without notice, and the caller's time may be over.
                rest = time_left(_TICK_SECONDS)
                self._changed.wait(rest)
                if rest != _TICK_SECONDS:
                    break
            self._in_progress += 1
            self._limit.note_use(self._in_progress)
        try:
            yield
        finally:
            with self._changed:
                self._in_progress -= 1
                self._changed.notify()

    def _attempt(self, request: ModelRequest, failures: list[ModelFailure]) -> Reply[ModelReply]:
        try:
            return Reply(self._inner.complete(request))
        except ModelFailure as failure:
            failures.append(failure)
            # A judge's time is not the agent's: a timeout is sent again, too.
            may_help = failure.failure in _SENT_AGAIN and not failure.is_final
            return Reply(
                failure=FailureKind.INFRASTRUCTURE if may_help else FailureKind.JUDGE_ERROR,
                problem=failure.problem,
                asked_wait=failure.asked_wait,
                rate_limited=failure.rate_limited,
            )
