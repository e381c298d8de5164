"""Earlier runs of a job, as every platform lists them, and why one has no evidence that can be used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent_eval.errors import RemoteError
from agent_eval.http.errors import HttpError, RateLimited
from agent_eval.storage.files import sha256_bytes

MAX_ARCHIVE_BYTES = 256 << 20
"""The largest evidence archive that is read."""

_NOT_KNOWN = 401
_REFUSED = frozenset({403, 404, 423})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which earlier runs a platform is asked for. It narrows a listing; what counts is decided above.

    Runs of trusted branches; those of `commit` first, if there is one; with `before_own` none that began
    after this one.
    """

    branches: tuple[str, ...]
    commit: str | None = None
    before_own: bool = False


@dataclass(frozen=True, kw_only=True)
class EarlierRun:
    """A finished earlier run.

    Attributes:
        number: Grows with time.
        label: The name that notes give it, such as `build 17`.
        commits: The commits that it may have been of; more than one where the platform does not tell apart.
        branch: The branch that it ran on; None where the platform does not say it.
        created_at: ISO 8601; None when unknown.
        is_own_code: Whether its code is the repository's own, and not that of a change or a fork.
        fetch: Reads its evidence archive; raises `Skipped` where it left none, `Expired` where that is gone,
            and `Withheld` where there is one that cannot be read.
    """

    number: int
    label: str
    commits: frozenset[str]
    branch: str | None = None
    created_at: str | None = None
    is_own_code: bool = True
    fetch: Callable[[], bytes]

    @property
    def title(self) -> str:
        """Its name at the beginning of a sentence."""
        return self.label[:1].upper() + self.label[1:]


class Skipped(Exception):
    """Raised by a run without usable evidence; the text says why, as a sentence."""


class Expired(Skipped):
    """Raised by a run that left evidence which is no more: expired or deleted."""


class Withheld(Skipped):
    """Raised by a run whose evidence is there and cannot be read: a user should act on it."""


class NoHistory(Exception):
    """Raised where a job cannot read earlier runs; the text says why, as a sentence."""


def refuse_large_archive(size: int, label: str) -> None:
    """Raise `Withheld` for an evidence archive of more than `MAX_ARCHIVE_BYTES`, before it is read."""
    if size > MAX_ARCHIVE_BYTES:
        raise Withheld(
            f"The evidence of {label} is too large: {size:,} bytes, at most {MAX_ARCHIVE_BYTES:,} are read."
        )


def checked_archive(data: bytes, sha256: str | None, label: str) -> bytes:
    """Return an evidence archive that has the digest which the platform recorded, where it records one.

    Raises `Withheld` where it has another.
    """
    if sha256 is not None and sha256_bytes(data) != sha256:
        raise Withheld(
            f"The evidence of {label} is not what was recorded (its digest differs); it was not used."
        )
    return data


def outage_of(error: RemoteError, remedy: str) -> RemoteError:
    """Tell a limit, a wrong token and a missing permission apart, which may have the same status.

    Returns why a platform did not do what it was asked for, in whole sentences; `remedy` is that of a missing
    permission.
    """
    status = error.status if isinstance(error, HttpError) else None
    if status == _NOT_KNOWN:
        why = "The token was not accepted (HTTP 401)."
        return RemoteError(why, remedy="It is wrong or expired, or belongs to another server: correct it.")
    if status in _REFUSED and not isinstance(error, RateLimited):
        return RemoteError(error.message, remedy=remedy)
    return error
