"""Whose version counts of the files that say how a change is judged, and what the change does to them.

A fork's pull request is judged by the base branch's files, whatever it brings along. The repository's own
branches are judged by their own, so that an intended change and its acceptance are reviewed in one step; what
differs from the base branch is listed at the top of the comment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.ci.differences import differences
from agent_eval.ci.platform import Platform
from agent_eval.ci.settings import Settings
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Registry, Waiver
from agent_eval.errors import InvalidInput, RemoteError
from agent_eval.registry.store import parse_registry
from agent_eval.runs.policy import parse_policy_file
from agent_eval.storage.bytes_reader import read_bytes

MAX_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class JudgingRules:
    """What a change is judged by, beside thresholds.

    Args:
        policy: Of the gate.
        registry: Waivers and baselines by name.
        registry_path: Where the registry lies, for the paths in it.
        waivers: Those of the baseline that was named.
        changes: What the change does to the rules, as sentences.
        from_base: The base branch's rules hold; `changes` were not applied.
        warnings: What someone should know of how the rules were found.
    """

    policy: GatePolicy
    registry: Registry
    registry_path: Path
    waivers: list[Waiver]
    changes: list[str] = field(default_factory=list)
    from_base: bool = False
    warnings: list[str] = field(default_factory=list)


class GoverningFiles:
    """Reads files in the version that counts, and collects what differs.

    Args:
        platform: Knows the base of the change, and whether it comes from a fork.
        environ: Says where the checkout is (`GITHUB_WORKSPACE`); else it is the working directory.
    """

    def __init__(self, platform: Platform, environ: Mapping[str, str]) -> None:
        self._platform = platform
        self._top = Path(environ.get("GITHUB_WORKSPACE", "").strip() or Path.cwd())
        self._reachable = True
        self.from_fork = platform.context.from_fork
        self.changes: list[str] = []
        self.warnings: list[str] = []

    def read(self, path: Path, *, registry: bool = False) -> bytes | None:
        """The bytes that count; None where there is no such file.

        Raises:
            RemoteError: The base branch's version counts and cannot be read.
            InvalidInput: It is too large, or no file.
        """
        head = self._head(path)
        where = self._place(path)
        if where is None or self._platform.context.base_sha is None or not self._reachable:
            return head
        try:
            base = self._platform.base_file(where)
        except RemoteError as error:
            if self.from_fork:
                raise
            self._reachable = False
            self.warnings.append(
                f"Whether this change alters how it is judged could not be seen: {error.message}"
            )
            return head
        if self.from_fork:
            # A fork's file may be anything: that it differs is all that is said of it.
            if head != base:
                shown = where[:200].replace("`", "'")
                self.changes.append(f"`{shown}` differs from the base branch.")
            return base
        self.changes += differences(where, base, head, registry=registry)
        return head

    def watch(self, path: Path) -> None:
        """List what differs in a file that is used as it stands."""
        if not self.from_fork:
            self.read(path)

    def _head(self, path: Path) -> bytes | None:
        if self.from_fork and path.is_symlink():
            return b""
        return read_bytes(path, max_bytes=MAX_BYTES) if path.exists() else None

    def _place(self, path: Path) -> str | None:
        """The path in the repository; None for what does not come with the change."""
        place = os.path.relpath(os.path.abspath(path), self._top)
        return None if place.startswith("..") else Path(place).as_posix()


def judging_rules(settings: Settings, files: GoverningFiles) -> JudgingRules:
    """Policy, waivers and named baselines, in the version that counts.

    Raises:
        InvalidInput: Policy or registry cannot be read, or there is no such policy.
        RemoteError: The base branch's version counts and cannot be read.
    """
    policy = _policy(settings, files)
    data = files.read(settings.registry_path, registry=True)
    registry = parse_registry(data, str(settings.registry_path)) if data is not None else Registry()
    if settings.judge_config is not None:
        files.watch(settings.judge_config)
    return JudgingRules(
        policy=policy,
        registry=registry,
        registry_path=settings.registry_path,
        waivers=[one for one in registry.waivers if one.baseline_name == settings.baseline_name],
        changes=files.changes,
        from_base=files.from_fork,
        warnings=files.warnings,
    )


def _policy(settings: Settings, files: GoverningFiles) -> GatePolicy:
    policy = GatePolicy()
    if settings.policy is not None:
        data = files.read(settings.policy)
        if data is not None:
            policy = parse_policy_file(data, str(settings.policy))
        elif files.from_fork:
            files.warnings.append(
                f"The base branch has no `{settings.policy}`, and a fork cannot bring a policy of its own: "
                "the preset alone holds."
            )
        else:
            raise InvalidInput(
                f"The policy {settings.policy} does not exist.",
                remedy="Correct `policy`, or leave it out for the preset alone.",
                file=str(settings.policy),
                field="policy",
            )
    return policy.model_copy(update={"preset": settings.preset}) if settings.preset else policy
