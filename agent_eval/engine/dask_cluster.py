"""A Dask cluster as an executor of shards; needs the extra `dask`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from agent_eval.engine.elsewhere import Elsewhere, versions_here
from agent_eval.errors import NotEvaluable, UsageError

CONNECT_SECONDS = 10.0
ALONE_SECONDS = 60.0
"""How long a cluster may be without workers before it is given up."""


@contextmanager
def dask_cluster(address: str, packages: Iterable[str]) -> Iterator[Elsewhere]:
    """The cluster of a scheduler, for a `with` statement.

    Whoever runs the scheduler can run code on its workers and here: Dask sends pickled objects both ways.

    Args:
        address: Of the scheduler, such as `tcp://10.0.0.5:8786`; `tls://…` where Dask has certificates.
        packages: Packages whose versions must be the same on every worker.

    Raises:
        UsageError: `distributed` is not installed, or this is no address.
        NotEvaluable: The scheduler cannot be reached, or it has no workers.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError(
            "scoring on a Dask cluster needs the package `distributed`",
            remedy="Install agent-eval with its extra `dask`.",
        ) from None
    _check(address)
    connect: Any = distributed.Client  # untyped
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise NotEvaluable(
            f"the Dask scheduler {address} cannot be reached: {error}",
            remedy="Check that it runs and that this machine may connect to it.",
        ) from None
    with client:
        threads = _threads(client)
        if not threads:
            raise NotEvaluable(
                f"the Dask scheduler {address} has no workers", remedy="Start some with `dask worker`."
            )
        # One to work on and one at hand for every thread.
        yield Elsewhere(
            client.get_executor(pure=False), 2 * threads, versions_here(packages), _Watch(client).look
        )


def _check(address: str) -> None:
    """Refuse what Dask would try to connect to for half a minute."""
    from distributed.comm.addressing import get_address_host_port
    from distributed.comm.registry import get_backend

    try:
        get_backend(address.partition("://")[0] if "://" in address else "tcp")
        get_address_host_port(address, strict=True)
    except ValueError as error:
        raise UsageError(
            f"{address!r} is no address of a Dask scheduler: {error}",
            remedy="Write it as tcp://host:8786.",
            field="dask_scheduler",
        ) from None


class _Watch:
    """Notices that a cluster is gone, which Dask itself waits for without end.

    Args:
        client: Of the cluster.
        clock: Seconds that only grow.
    """

    def __init__(self, client: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._alone_since: float | None = None

    def look(self) -> None:
        """See `Elsewhere.look`."""
        try:
            threads = _threads(self._client)
        except (OSError, TimeoutError):
            threads = 0
        if threads:
            self._alone_since = None
            return
        self._alone_since = self._clock() if self._alone_since is None else self._alone_since
        if self._clock() - self._alone_since >= ALONE_SECONDS:
            raise NotEvaluable(
                f"the Dask cluster has had no workers for {ALONE_SECONDS:g} s",
                remedy="Look at the workers' logs, and start them anew.",
            )


def _threads(client: Any) -> int:
    return sum(client.nthreads().values())
