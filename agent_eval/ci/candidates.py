"""Earlier runs that a platform offers as the baseline, and the checks that hold for the evidence of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent_eval.operations.trusted_packs import Admission
from agent_eval.storage.files import sha256_bytes

MAX_ARCHIVE_BYTES = 256 << 20
"""The largest evidence archive that is read."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The source of a baseline.

    Example:
        >>> Origin(how="newest on main", run_id=17, branch="main").run_id
        17

    Args:
        how: How it was found, as a noun: `merge base`, `newest on main`, `path`.
        sha: The commit it is of; None when unknown.
        branch: The branch it is of.
        run_id: The run that left it.
        run_url: That run's page.
        created_at: ISO 8601.
    """

    how: str
    sha: str | None = None
    branch: str | None = None
    run_id: int | None = None
    run_url: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """An earlier run whose evidence may be the baseline.

    Example:
        >>> candidate = Candidate("run 17", Origin(how="merge base", run_id=17), lambda: b"the archive")
        >>> candidate.fetch()
        b'the archive'

    Args:
        label: The name that notes give it, such as `run 17`.
        origin: Its source.
        fetch: Reads its evidence archive; raises `Skipped` when there is none, and `Withheld` when there is
            one that cannot be read.
        named_by_user: Whether the user named this run, so that every fault of it is an error.
        admission: Check of the evidence's signature; None where it need not be signed.
    """

    label: str
    origin: Origin
    fetch: Callable[[], bytes]
    named_by_user: bool = False
    admission: Admission | None = None


class Skipped(Exception):
    """Raised by a candidate without usable evidence; the text says why, as a sentence.

    Args:
        why: The sentence.
        loud: Whether a user should act on it.
    """

    def __init__(self, why: str, *, loud: bool = False) -> None:
        super().__init__(why)
        self.loud = loud


class Withheld(Skipped):
    """Raised by a candidate whose evidence is there and cannot be read; arguments as `Skipped`."""


def refuse_large_archive(size: int, label: str) -> None:
    """Refuse an evidence archive of more than `MAX_ARCHIVE_BYTES` before it is read.

    Raises:
        Withheld: It is too large.
    """
    if size > MAX_ARCHIVE_BYTES:
        raise Withheld(
            f"The evidence of {label} is too large: {size:,} bytes, at most {MAX_ARCHIVE_BYTES:,} are read."
        )


def checked_archive(data: bytes, sha256: str | None, label: str) -> bytes:
    """Return an evidence archive that is what the platform recorded of it.

    Args:
        data: The archive.
        sha256: The digest that the platform recorded; None where it records none.
        label: What notes call the run.

    Raises:
        Withheld: It is not; the warning is shown at the top.
    """
    if sha256 is not None and sha256_bytes(data) != sha256:
        raise Withheld(
            f"The evidence of {label} is not what was recorded (its digest differs); it was not used.",
            loud=True,
        )
    return data


class NoHistory(Exception):
    """Raised where a job cannot read earlier runs; the text says why, as a sentence."""
