"""Machines that score shards and run trials in place of this one: an executor, such as that of Dask."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from agent_eval import __version__
from agent_eval.errors import NotEvaluable, UsageError

CHECK_SECONDS = 5.0
"""Interval at which `Cluster.check_alive` is called while no task returns."""


@dataclass(frozen=True)
class Cluster:
    """Workers that do tasks in place of this machine.

    Attributes:
        at_once: Number of tasks that they work on at the same time.
        versions: Versions that must be installed on the workers, from `versions_here`.
        check_alive: Called every few seconds while no task returns; raises NotEvaluable if the cluster has
            no workers any more.
    """

    executor: Executor
    at_once: int
    versions: Mapping[str, str | None]
    check_alive: Callable[[], None] = lambda: None


def refuse_other_versions(versions: Mapping[str, str | None]) -> None:
    """Refuse to do a task here, on a worker, where other versions are installed: verdicts could differ.

    Raises:
        NotEvaluable: They are.
    """
    here = versions_here(versions)
    if here != versions:
        differing = sorted(name for name in versions if here[name] != versions[name])
        differences = ", ".join(f"{name} {here[name]} instead of {versions[name]}" for name in differing)
        raise NotEvaluable(
            f"a worker of the cluster ({platform.node()}) has other versions: {differences}",
            remedy="Install the same on every worker.",
        )


def versions_here(names: Iterable[str]) -> dict[str, str | None]:
    """Return the versions of Python, agent_eval and the named packages; None for one not installed."""
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {**versions, "python": platform.python_version(), "agent_eval": __version__}


CONNECT_SECONDS = 10.0
ALONE_SECONDS = 60.0
"""How long a cluster may be without workers until the run ends."""


@contextmanager
def dask_cluster(address: str, packages: Iterable[str]) -> Iterator[Cluster]:
    """Connect to a Dask scheduler. A context manager.

    The operator of the scheduler can run code on its workers and on this machine: Dask sends pickled objects
    both ways.

    Args:
        address: Such as `tcp://10.0.0.5:8786`; `tls://…` if Dask has certificates.
        packages: Packages whose versions must be the same on every worker.

    Raises:
        UsageError: `distributed` is not installed, or the address is invalid.
        NotEvaluable: The scheduler cannot be reached, or it has no workers.
    """
    try:
        import distributed
        from distributed.comm.addressing import get_address_host_port
        from distributed.comm.registry import get_backend
    except ImportError:
        raise UsageError(
            "a Dask cluster needs the package `distributed`",
            remedy="Install agent-eval with its extra `dask`.",
        ) from None
    try:  # otherwise Dask would try to connect for half a minute
        get_backend(address.partition("://")[0] if "://" in address else "tcp")
        get_address_host_port(address, strict=True)
    except ValueError as error:
        raise UsageError(
            f"{address!r} is no address of a Dask scheduler: {error}",
            remedy="Write it as tcp://host:8786.",
            field="executor",
        ) from None
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
        yield Cluster(client.get_executor(pure=False), threads, versions_here(packages), watch_of(client))


def watch_of(client: Any, clock: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """Return what raises NotEvaluable once the cluster has had no workers for `ALONE_SECONDS`.

    Dask itself would wait without end.
    """
    seen = clock()

    def check_alive() -> None:
        nonlocal seen
        with suppress(OSError, TimeoutError):
            seen = clock() if _threads(client) else seen
        if clock() - seen >= ALONE_SECONDS:
            raise NotEvaluable(
                f"the Dask cluster has had no workers for {ALONE_SECONDS:g} s",
                remedy="Look at the workers' logs, and start them again.",
            )

    return check_alive


def _threads(client: Any) -> int:
    return sum(client.nthreads().values())
