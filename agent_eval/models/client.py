"""Ask a model with retries, within the limit of its account, and count what it costs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from agent_eval.errors import FailureKind
from agent_eval.models.base import Model, ModelFailure, ModelOptions, ModelReply, ModelRequest
from agent_eval.models.retries import AdaptiveLimit, Reply, Retries, Retry, limit_of, send_once

_TICK_SECONDS = 0.2
_DOWN_AFTER = 3
"""Requests in a row that fail in spite of their retries before a model is taken to be down."""


@dataclass
class ModelUse:
    """What a run has asked of models so far, by purpose. Any thread may add to it.

    Attributes:
        counts: Calls, tokens and retries by purpose and name, such as `("judge", "calls")`.
        costs: US dollars by purpose; calls of unknown cost are counted as `unpriced`.
    """

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    costs: dict[tuple[str, str], float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, purpose: str, reply: ModelReply) -> None:
        """Add a reply; one that was kept counts as reused, and its cost as saved."""
        asked = reply.source == "model"
        with self._lock:
            self.counts[purpose, "calls" if asked else "reused"] += 1
            if asked:
                self.counts[purpose, "retries"] += reply.retries
                for name, count in (reply.usage.to_json() if reply.usage else {}).items():
                    self.counts[purpose, name] += int(count)
            if reply.cost_usd is not None:
                key = (purpose, "cost_usd" if asked else "saved_usd")
                self.costs[key] = self.costs.get(key, 0.0) + reply.cost_usd
            elif asked:
                self.counts[purpose, "unpriced"] += 1

    def add_failure(self, purpose: str, failure: ModelFailure) -> None:
        """Add a call that got no reply."""
        with self._lock:
            self.counts[purpose, "failures"] += 1
            self.counts[purpose, "retries"] += failure.retries

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return the counts by purpose, without those that are 0."""
        with self._lock:
            purposes = sorted({purpose for purpose, _ in (*self.counts, *self.costs)})
            return {purpose: self._of(purpose) for purpose in purposes}

    def _of(self, purpose: str) -> dict[str, Any]:
        counts = {name: self.counts[purpose, name] for name in _NAMES if self.counts[purpose, name]}
        costs = {name: round(cost, 6) for (of, name), cost in self.costs.items() if of == purpose}
        return {**counts, **costs}


_NAMES = (
    *("calls", "reused", "failures", "retries", "unpriced"),
    *("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"),
)


class ModelClient(Model):
    """A model that is asked with patience: what fails for no fault of the request is sent again.

    Requests in progress stay within the limit of the model's account, which the agents of the same process
    share: a refusal for too many requests lowers it for all of them. After a failure that every further
    request would repeat, such as an invalid key, no request is sent any more.

    Once several requests in a row have failed in spite of their retries, further ones are sent only once,
    until one succeeds: a model that is down would otherwise be waited for at every case.
    """

    kind = "client"

    def __init__(self, model: Model, *, retries: Retries | None = None, use: ModelUse | None = None) -> None:
        self._inner, self.model, self.account = model, model.model, model.account
        self._limit = limit_of(model.account)
        self._retries = replace(retries or Retries(), limit=self._limit)
        self._places = _Places(self._limit)
        self.use = use or ModelUse()
        self._final: ModelFailure | None = None
        self._failed_in_a_row = 0

    @classmethod
    @override
    def from_options(cls, options: ModelOptions) -> ModelClient:
        raise NotImplementedError("a client is made of a model")

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
        with self._places.place():
            retry: Retry = send_once if self._failed_in_a_row >= _DOWN_AFTER else self._retries
            reply, times = retry(lambda: self._attempt(request, failures))
        if reply.value is not None:
            self._failed_in_a_row = 0
            answered = replace(reply.value, retries=times)
            self.use.add(request.purpose, answered)
            return answered
        failure = failures[-1]
        failure.retries = times
        self._failed_in_a_row += reply.is_infrastructure
        self.use.add_failure(request.purpose, failure)
        if failure.is_final:
            self._final = failure
        raise failure

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


_SENT_AGAIN = frozenset({FailureKind.INFRASTRUCTURE, FailureKind.TIMEOUT})


class _Places:
    """Requests in progress, at most as many as the account's limit has places.

    Until the account has refused one, the callers' threads are the limit. Places are not taken from the
    account's limit itself: a trial whose agent has the same account holds a place there while its judges wait
    for theirs.
    """

    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit
        self._in_progress = 0
        self._changed = threading.Condition()

    @contextmanager
    def place(self) -> Iterator[None]:
        with self._changed:
            while self._limit.was_refused and self._in_progress >= self._limit.current():
                # With a timeout: the limit may grow without notice.
                self._changed.wait(_TICK_SECONDS)
            self._in_progress += 1
            self._limit.note_use(self._in_progress)
        try:
            yield
        finally:
            with self._changed:
                self._in_progress -= 1
                self._changed.notify()
