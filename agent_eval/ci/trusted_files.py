"""Read the files that say how a change is judged in the version that counts, and list what the change alters.

A change from a fork is judged by the base branch's files. The repository's own branches are judged by their
own, so that an intended change and its acceptance are reviewed in one step; what differs from the base branch
is listed at the top of the comment, and where it lets more pass (`ci.loosening`), the gate is not passed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_eval.attestations.keys import PublicKey, parse_public_key
from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.config import Settings
from agent_eval.ci.differences import code, differences
from agent_eval.ci.loosening import (
    loosened_options,
    loosened_policy,
    reviewed_waivers,
    unreviewed_exceptions,
    unreviewed_waivers,
    without_unreviewed,
)
from agent_eval.ci.place import JobPlace
from agent_eval.ci.platforms.base import Platform
from agent_eval.config.rules import RULES
from agent_eval.contracts import Thresholds
from agent_eval.contracts.policy import GatePolicy
from agent_eval.contracts.registry import Registry, Waiver
from agent_eval.errors import AgentEvalError, InvalidInput, RemoteError, UsageError
from agent_eval.gate.decide import merge_thresholds
from agent_eval.operations.gate import parse_policy_file
from agent_eval.registry.store import parse_registry
from agent_eval.storage.files import read_bytes

MAX_BYTES = 64 << 20
MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class JudgingRules:
    """The rules that a change is judged by, beside thresholds.

    Example:
        `judging_rules(settings, TrustedFiles(platform, place, clone))` reads them.

    Args:
        policy: Of the gate.
        base_policy: The base branch's, where it is known and the change has another one.
        registry: Waivers and baselines by name.
        registry_path: The registry's file; paths in the registry are relative to it.
        waivers: The waivers for the baseline that the settings name, that count.
        changes: Differences of the rules from the base branch, as sentences.
        loosened: Those that let more pass, and that a change may therefore not decide on by itself.
        from_base: Whether the base branch's rules hold, so that `changes` were not applied.
        warnings: What a user should know of how the rules were read.
        baseline_key: The key with which a baseline must have been signed; None where it need not be.
        stated_policy: The change's policy with the exceptions that do not count; None where all count.
    """

    policy: GatePolicy
    registry: Registry
    registry_path: Path
    waivers: list[Waiver]
    changes: list[str] = field(default_factory=list)
    loosened: list[str] = field(default_factory=list)
    from_base: bool = False
    warnings: list[str] = field(default_factory=list)
    base_policy: GatePolicy | None = None
    baseline_key: PublicKey | None = None
    stated_policy: GatePolicy | None = None

    @property
    def is_release(self) -> bool:
        """Whether the change is held to the preset `release`, by its own policy or by the base branch's."""
        return any(policy.preset == "release" for policy in self._policies)

    @property
    def blocks_on_inconclusive(self) -> bool:
        """Whether an inconclusive decision stops the change, by either policy."""
        return any(policy.blocks_on_inconclusive for policy in self._policies)

    @property
    def _policies(self) -> list[GatePolicy]:
        return [self.policy, *([self.base_policy] if self.base_policy is not None else [])]


class TrustedFiles:
    """Reads files in the version that counts, and collects the differences from the base branch.

    Example:
        `TrustedFiles(platform, place, clone).read(Path("agent-eval.yml"))` is the base branch's version for a
        fork, and the checkout's otherwise.

    Args:
        platform: Knows whether the change comes from a fork, and where the checkout is.
        place: The place of the job; None where that is not known.
        clone: The private clone of the checkout; None where there is none.
    """

    def __init__(
        self, platform: Platform, place: JobPlace | None = None, clone: PrivateClone | None = None
    ) -> None:
        self._clone = clone
        # A job that reports on another run checks nothing out: what is there is not read.
        checked_out = clone is not None and platform.run.reported is None
        self._top = clone.top if clone is not None and checked_out else platform.workspace
        holds = place is not None and (platform.run.from_fork or not place.is_reviewed)
        self._base = place.tip if place is not None and holds else None
        self._reachable = True
        self._has_checkout = platform.run.reported is None
        self._of_base: dict[str, bytes | None] = {}
        self.from_fork = platform.run.from_fork
        self.changes: list[str] = []
        self.loosened: list[str] = []
        self.warnings: list[str] = []

    @property
    def has_base(self) -> bool:
        """Whether the change is one of the repository's own, onto a commit that is known and can be read."""
        return self._reachable and not self.from_fork and self._base is not None

    def read(self, path: Path, *, registry: bool = False) -> bytes | None:
        """Read the version that counts; None where there is no such file.

        Raises:
            RemoteError: The base branch's version counts and cannot be read.
            InvalidInput: It is too large, or no file.
        """
        head = self._head(path)
        where = self._place(path)
        if where is None or not self._reachable:
            return head
        if self._base is None:
            return self._without_base(where, head)
        try:
            base = self.base(path)
        except RemoteError as error:
            if self.from_fork:
                raise
            self.not_seen(error)
            return head
        if self.from_fork:
            # A fork's file may hold anything, so only the fact that it differs is reported.
            if head != base and self._has_checkout:
                name = where[:200].replace("`", "'")
                self.changes.append(f"`{name}` differs from the base branch.")
            return base
        self.changes += differences(where, base, head, registry=registry)
        return head

    def base(self, path: Path) -> bytes | None:
        """Read the base branch's version; that of a file outside the checkout is the file itself.

        Raises:
            RemoteError: It cannot be read, or is no regular file.
            InvalidInput: A file outside the checkout is too large, or no file.
        """
        where = self._place(path)
        if where is None:
            return self._head(path)
        if where not in self._of_base:
            clone, base = self._clone, self._base
            self._of_base[where] = clone.file(where, base) if clone is not None and base is not None else None
        return self._of_base[where]

    def replaces(self, path: Path, *, hides: bool) -> bool:
        """Tell whether the checkout has another version of a file than the base branch, if that has one.

        Args:
            path: The file; it may be missing in the checkout.
            hides: Whether a file that only the checkout has hides something of the base branch.

        Raises:
            RemoteError: It cannot be read on the base branch.
        """
        if self._place(path) is None or self._base is None:
            return False
        base, head = self.base(path), self._head(path)
        if base is None and head is not None:
            return hides or self._is_file_on_base(path.parent)
        return base is not None and base != head

    def _is_file_on_base(self, path: Path) -> bool:
        try:
            return self.base(path) is not None
        except RemoteError:
            return False  # A directory, which has a file of another name.

    def not_seen(self, error: AgentEvalError) -> None:
        """Say that the rules of the base branch cannot be read: what they are cannot be shown to hold."""
        if self._reachable:
            self._reachable = False
            seen = f"Whether this change alters how it is judged could not be seen: {error.message}"
            self.warnings.append(seen)
            self.loosened.append(f"{seen} {error.remedy}".strip())

    def _without_base(self, where: str, head: bytes | None) -> bytes | None:
        """Return the checkout's version; a fork's own does not count, even where the base is not known."""
        if self.from_fork:
            raise RemoteError(
                f"`{where}` cannot be read from the base branch: the job does not know which commit that is.",
                remedy="Give the job the whole payload of its event.",
                path=where,
            )
        return head

    def watch(self, path: Path) -> None:
        """List the differences of a file that the job uses in the checkout's version."""
        if not self.from_fork:
            self.read(path)

    def _head(self, path: Path) -> bytes | None:
        if not self._has_checkout and self._place(path) is not None:
            return None
        if self.from_fork and path.is_symlink():
            return b""
        return read_bytes(path, max_bytes=MAX_BYTES) if path.exists() else None

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


def judging_rules(
    settings: Settings, files: TrustedFiles, versions: Versions, *, now: datetime
) -> JudgingRules:
    """Read policy, waivers and named baselines in the version that counts.

    Args:
        settings: Of the job.
        files: Reads both versions.
        versions: The values of the settings, with either version of `agent-eval.yml`.
        now: The time of the decision; a waiver that is over excuses nothing.

    Raises:
        InvalidInput: Policy or registry cannot be read, or there is no such policy.
        RemoteError: The base branch's version counts and cannot be read.
    """
    policy = _policy(settings, files)
    data = files.read(settings.registry_path, registry=True)
    registry = parse_registry(data, str(settings.registry_path)) if data is not None else Registry()
    if settings.judging.judge_config is not None:
        files.watch(settings.judging.judge_config)
    key_file = settings.baseline_public_key
    rules = JudgingRules(
        baseline_key=_baseline_key(key_file, files) if key_file is not None else None,
        policy=policy,
        registry=registry,
        registry_path=settings.registry_path,
        waivers=_waivers_for(registry, settings.baseline_name),
        changes=files.changes,
        loosened=files.loosened,
        from_base=files.from_fork,
        warnings=files.warnings,
    )
    if files.from_fork:
        rules.loosened.extend(_other_baseline(settings.baseline, registry, registry, files))
        rules.loosened.extend(_other_recordings(settings.agent.replay if settings.agent else None, files))
    if versions.base is None:
        return rules
    try:
        return _held_to_base(rules, versions.head, versions.base, files, now)
    except AgentEvalError as error:
        files.not_seen(error)
        return rules


@dataclass(frozen=True)
class Versions:
    """The values of a job's settings by input name, with the change's and the base branch's `agent-eval.yml`.

    Example:
        `Versions(head=values_by_input(gathered))` has no base: nothing is compared.

    Args:
        head: With the version that counts.
        base: With the base branch's; None where that is not known, or counts.
    """

    head: Mapping[str, Any]
    base: Mapping[str, Any] | None = None


def _held_to_base(
    rules: JudgingRules,
    head: Mapping[str, Any],
    base: Mapping[str, Any],
    files: TrustedFiles,
    now: datetime,
) -> JudgingRules:
    """Add what the change loosens and the base branch's policy; exceptions that only the change has go."""
    registry_path: Path = base["registry-path"]
    data = files.base(registry_path)
    registry = parse_registry(data, str(registry_path)) if data is not None else Registry()
    policy = _with_inputs(_policy_of_base(base["policy"], files), base)
    of_base = _waivers_for(registry, base["baseline-name"])
    waivers = unreviewed_waivers(of_base, rules.waivers, now=now)
    loosened = [
        *loosened_options(base, head),
        *loosened_policy(policy, _with_inputs(rules.policy, head), now=now),
        *waivers,
        *_other_baseline(head["baseline"], rules.registry, registry, files),
        *_other_recordings(head["replay"], files),
    ]
    return replace(
        rules,
        policy=without_unreviewed(policy, rules.policy, now=now),
        waivers=reviewed_waivers(of_base, rules.waivers),
        changes=[*rules.changes, *unreviewed_exceptions(policy, rules.policy, now=now), *waivers],
        loosened=[*rules.loosened, *loosened],
        base_policy=policy,
        stated_policy=rules.policy,
    )


def _baseline_key(path: Path, files: TrustedFiles) -> PublicKey:
    data = files.read(path)
    if data is None:
        raise InvalidInput(
            f"The public key {path} does not exist.",
            remedy="Correct `baseline-public-key`, and commit the key to the base branch.",
            file=str(path),
            field="baseline-public-key",
        )
    base = files.base(path) if files.has_base else None
    if base is not None and base != data:
        files.loosened.append("the key with which the baseline must have been signed is another one.")
    return parse_public_key(data, source=str(path))


def _other_baseline(named: str, registry: Registry, of_base: Registry, files: TrustedFiles) -> list[str]:
    """Say where the evidence that the settings name as the baseline came with the change, as a sentence.

    Raises:
        RemoteError: It cannot be read on the base branch.
    """
    place, entry, known = Path(named), registry.baselines.get(named), of_base.baselines.get(named)
    if entry is not None and not place.exists():
        is_other = known is None or known.manifest_sha256 != entry.manifest_sha256
    else:
        # A path comes before the name of a baseline, which it may hide.
        is_other = any(files.replaces(file, hides=known is not None) for file in _evidence_files(place))
    return [f"The baseline {code(named)} is another one than on the base branch."] if is_other else []


def _other_recordings(replay: Path | None, files: TrustedFiles) -> list[str]:
    """Say where the recorded answers of tools changed with the agent that gets them, as a sentence.

    Raises:
        RemoteError: They cannot be read on the base branch.
    """
    if replay is None or not files.replaces(replay, hides=False):
        return []
    return [f"The recorded answers of tools in {code(str(replay))} are others than on the base branch."]


def _evidence_files(place: Path) -> list[Path]:
    """List the files that pin the evidence at a path: an archive itself, of packs their manifests."""
    if not place.is_dir():
        return [place] if place.exists() else []
    return [place / MANIFEST, *sorted(place.glob(f"*/{MANIFEST}"))]


def _waivers_for(registry: Registry, baseline_name: str) -> list[Waiver]:
    return [waiver for waiver in registry.waivers if waiver.baseline_name == baseline_name]


def _policy_of_base(path: Path | None, files: TrustedFiles) -> GatePolicy:
    data = files.base(path) if path is not None else None
    return parse_policy_file(data, str(path)) if data is not None else GatePolicy()


def _with_inputs(policy: GatePolicy, values: Mapping[str, Any]) -> GatePolicy:
    """Copy a policy with what the inputs of the job state in place of its own."""
    limits = Thresholds(**{rule.field: values[rule.option] for rule in RULES})
    policy = policy.overridden(
        preset=values["preset"], max_baseline_error_rate=values["max-baseline-error-rate"]
    )
    return policy.model_copy(update={"thresholds": merge_thresholds(policy.thresholds, limits)})


def _policy(settings: Settings, files: TrustedFiles) -> GatePolicy:
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
    return policy.overridden(preset=settings.preset, max_baseline_error_rate=settings.max_baseline_error_rate)
