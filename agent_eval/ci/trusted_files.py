"""Read the files that say how a change is judged, in the version at the tip of the trusted branch.

A reviewed commit is judged by its own. In a first adoption, where the tip has no `agent-eval.yml`, the
change's own version holds, unless it comes from a fork.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from agent_eval.attestations.keys import PublicKey, parse_public_key
from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.config import Settings
from agent_eval.ci.inputs import CONFIG_FILE
from agent_eval.ci.place import JobPlace
from agent_eval.ci.platforms.base import Platform
from agent_eval.ci.seal import as_code
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Registry, Waiver
from agent_eval.errors import InvalidInput, RemoteError, UsageError
from agent_eval.operations.gate import parse_policy_file
from agent_eval.registry.store import parse_registry
from agent_eval.storage.files import read_bytes

MAX_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class JudgingRules:
    """The rules that a change is judged by, beside thresholds.

    Attributes:
        policy: Of the gate.
        registry: Waivers and baselines by name.
        registry_path: The registry's file; paths in the registry are relative to it.
        waivers: The waivers for the baseline that the settings name.
        changes: What of the rules the change alters, as sentences; it holds once merged.
        warnings: What a user should know of how the rules were read.
        baseline_key: The key with which a baseline must have been signed; None where it need not be.
    """

    policy: GatePolicy
    registry: Registry
    registry_path: Path
    waivers: list[Waiver]
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    baseline_key: PublicKey | None = None


class TrustedFiles:
    """Reads files in the version that counts.

    Args:
        platform: Knows whether the change comes from a fork, and where the checkout is.
        place: Where the job stands; None where that is not known.
        clone: The private clone of the checkout; None where there is none.

    Attributes:
        changes: Which of the files that were read differ in the change, as sentences.
        warnings: What a user should know of how they were read.
    """

    def __init__(
        self, platform: Platform, place: JobPlace | None = None, clone: PrivateClone | None = None
    ) -> None:
        self._clone = clone
        self._top = clone.top if clone is not None else platform.workspace
        holds = place is not None and (platform.run.from_fork or not place.is_reviewed)
        self._tip = place.tip if place is not None and holds else None
        self._has_checkout = platform.run.reported is None
        self.from_fork = platform.run.from_fork
        self.changes: list[str] = []
        self.warnings: list[str] = []

    @property
    def is_adoption(self) -> bool:
        """Whether a change of the repository's own brings the first settings."""
        return not self.from_fork and self._at_tip(Path(CONFIG_FILE)) is None

    def read(self, path: Path) -> bytes | None:
        """Read the version that counts; None where there is no such file.

        Raises:
            RemoteError: The tip's version counts and cannot be read.
            InvalidInput: It is too large, or no file.
        """
        where = self._place(path)
        head = self.of_checkout(path)
        if where is None or (self._tip is None and not self.from_fork):
            return head
        if self._tip is None:
            raise RemoteError(
                f"`{where}` cannot be read from the trusted branch: the job does not know its tip.",
                remedy="Give the job the whole payload of its event.",
                path=where,
            )
        tip = self._at_tip(path)
        if tip is None and self.is_adoption:
            return head
        if head != tip and self._has_checkout:
            self.changes.append(f"{as_code(where)} differs from the trusted branch; it holds once merged.")
        return tip

    def settings_of_change(self, path: Path) -> bytes | None:
        """Read `agent-eval.yml`, which says how the agent is run: the change's own, unless that is a fork's.

        Raises:
            RemoteError: The tip's version counts and cannot be read.
            InvalidInput: It is too large, or no file.
        """
        return self.read(path) if self.from_fork else self.of_checkout(path)

    def of_checkout(self, path: Path) -> bytes | None:
        """Read the version of what is checked out; None where there is none."""
        if not self._has_checkout and self._place(path) is not None:
            return None
        if self.from_fork and path.is_symlink():
            return b""
        return read_bytes(path, max_bytes=MAX_BYTES) if path.exists() else None

    def _at_tip(self, path: Path) -> bytes | None:
        where = self._place(path)
        if where is None or self._clone is None or self._tip is None:
            return None
        return self._clone.file(where, self._tip)

    def _place(self, path: Path) -> str | None:
        """Make the path relative to the repository; None for a file outside it."""
        place = os.path.relpath(os.path.abspath(path), self._top)
        return None if place.startswith("..") else Path(place).as_posix()


def refuse_fork_with_secrets(settings: Settings, platform: Platform) -> None:
    """Refuse to evaluate a fork's code beside this repository's secrets, unless the workflow allows it.

    Raises:
        UsageError: The job is one of a fork and has secrets.
    """
    if not platform.run.fork_event or settings.allow_fork_with_secrets:
        return
    raise UsageError(
        f"A job of `{platform.run.fork_event}` gives the code of a fork the secrets and the token of this "
        "repository, so nothing was evaluated.",
        remedy=f"{platform.spec.remedies.run_fork} If a person approves each of these jobs, set "
        "`allow-fork-with-secrets: true` in the workflow.",
        field="allow-fork-with-secrets",
    )


def judging_rules(settings: Settings, files: TrustedFiles) -> JudgingRules:
    """Read policy, waivers and named baselines in the version that counts.

    Raises:
        InvalidInput: Policy or registry cannot be read, or there is no such policy.
        RemoteError: The tip's version counts and cannot be read.
    """
    policy = _policy(settings, files)
    data = files.read(settings.registry_path)
    registry = parse_registry(data, str(settings.registry_path)) if data is not None else Registry()
    if settings.judging.judge_config is not None and not files.from_fork:
        files.read(settings.judging.judge_config)
    key_file = settings.baseline_public_key
    return JudgingRules(
        baseline_key=_baseline_key(key_file, files) if key_file is not None else None,
        policy=policy,
        registry=registry,
        registry_path=settings.registry_path,
        waivers=[row for row in registry.waivers if row.baseline_name == settings.baseline_name],
        changes=files.changes,
        warnings=files.warnings,
    )


def _baseline_key(path: Path, files: TrustedFiles) -> PublicKey:
    data = files.read(path)
    if data is None:
        raise InvalidInput(
            f"The public key {path} does not exist.",
            remedy="Correct `baseline-public-key`, and commit the key to the trusted branch.",
            file=str(path),
            field="baseline-public-key",
        )
    return parse_public_key(data, source=str(path))


def _policy(settings: Settings, files: TrustedFiles) -> GatePolicy:
    policy = GatePolicy()
    if settings.policy is not None:
        data = files.read(settings.policy)
        if data is not None:
            policy = parse_policy_file(data, str(settings.policy))
        elif files.of_checkout(settings.policy) is not None or files.from_fork:
            files.warnings.append(
                f"The trusted branch has no {as_code(str(settings.policy))}, and a change cannot bring a "
                "policy of its own: the preset alone holds."
            )
        else:
            raise InvalidInput(
                f"The policy {settings.policy} does not exist.",
                remedy="Correct `policy`, or leave it out for the preset alone.",
                file=str(settings.policy),
                field="policy",
            )
    return policy if settings.preset is None else policy.model_copy(update={"preset": settings.preset})
