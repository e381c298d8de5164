"""`verify`: what of a pack is sealed, who signed it, what wrote it, and whether it still replays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.attestations.dsse import UntrustedPack, read_bundle
from agent_eval.attestations.files import RESULT, Trust
from agent_eval.attestations.keys import PublicKey
from agent_eval.errors import AgentEvalError, ExitCode, InvalidInput, InvalidPack
from agent_eval.evidence.layout import HISTORY_USED, RERUNS
from agent_eval.evidence.reader import Pack
from agent_eval.operations.decision_material import read_reruns
from agent_eval.operations.packs import PackFacts, decision_in, listed_digests, open_run
from agent_eval.operations.rejudge import JudgesAgain, case_mismatch, judged_again
from agent_eval.operations.trust import DECISION, open_trusted
from agent_eval.storage.json import parse

OF_EARLIER_VERSIONS = "compare/confirmation.json"
"""The record of what was run again, in packs of earlier versions."""


@dataclass(frozen=True)
class Signature:
    """Who vouches for a pack.

    Attributes:
        state: `signed`, `not checked` or `unsigned`.
        note: The same with its reason, as a clause.
        key_id: Id of the key; of a signature that was not checked, the id that it claims.
    """

    state: str
    note: str
    key_id: str = ""

    @property
    def checked(self) -> bool:
        """Whether a given key verified it."""
        return self.state == "signed"


@dataclass(frozen=True)
class Replay:
    """Whether judging the recorded trajectories again gives the same verdicts.

    Attributes:
        same: None where that was not tried.
        note: The result with its reason, as a clause.
    """

    same: bool | None
    note: str


@dataclass(frozen=True)
class Verification:
    """All that is known of a pack that is whole. Returned by `verify`."""

    facts: PackFacts
    signature: Signature
    replay: Replay
    gate: str

    def to_json(self) -> dict[str, Any]:
        """Return what the command prints, as JSON values."""
        pack = self.facts.pack
        version = pack.config.pinned_env.get("agent_eval")
        return {
            **self.facts.to_json(),
            "whole": True,
            "written_by": {
                "agent_eval": version if isinstance(version, str) else None,
                "schema_version": pack.manifest.schema_version,
            },
            "git_commit": pack.config.git_commit,
            "git_dirty": pack.config.git_dirty,
            "passed_cases": pack.summary.passed_cases,
            "gate": self.gate,
            "signature": self.signature.state,
            "key_id": self.signature.key_id or None,
            "replays": self.replay.same,
            "replay_note": self.replay.note,
        }


def verify(path: Path, keys: tuple[PublicKey, ...] = (), *, attestation: Path | None = None) -> Verification:
    """Verify a pack, or an archive of one, and judge its trajectories again with built-in judges.

    One of `keys` must have signed it; without any, no signature is checked. `attestation` is a signature that
    is not in the pack.

    Raises:
        InvalidInput: There is no pack, or the archive has several (exit code 2).
        InvalidPack: The pack is not whole, contradicts itself, or lacks what its decision rests on (exit code
            1), or there is none (2).
        UntrustedPack: None of the keys signed it (exit code 1).
    """
    try:
        if keys:
            trusted = open_trusted(path, Trust(keys=keys), attestation=attestation)
            pack, signature = trusted.pack, Signature("signed", "by a key that was given", trusted.key_id)
        else:
            pack = open_run(path)
            signature = _claimed(pack)
        _check_records(pack)
    except InvalidPack as error:
        if isinstance(error, UntrustedPack) or error.details.get("file") is not None:
            error.exit_code = ExitCode.NO
        raise
    return Verification(PackFacts(path, pack), signature, _replay(pack, path), _gate(pack))


def _claimed(pack: Pack) -> Signature:
    """Tell what attestations the pack has, without a key to check them with."""
    listed = listed_digests(pack)
    if RESULT.bundle in listed:
        try:
            key_id = read_bundle(pack.read(RESULT.bundle), source=RESULT.bundle).key_id
        except UntrustedPack as error:
            return Signature("not checked", f"{error.message}. {error.remedy}")
        return Signature("not checked", "name the signer's key with --public-key", key_id)
    if RESULT.mac in listed:
        return Signature("not checked", "an HMAC by a shared secret: give it with --secret")
    return Signature("unsigned", "a seal alone shows accidents, not who wrote it")


def _check_records(pack: Pack) -> None:
    """Check that the records which the decision in a pack rests on are in it, as the decision names them."""
    decision, listed = decision_in(pack), listed_digests(pack)
    if decision is None:
        return
    rests_on = {
        RERUNS: decision.reruns_sha256,
        HISTORY_USED: decision.history_sha256,
        OF_EARLIER_VERSIONS: (decision.model_extra or {}).get("confirmation_sha256"),
    }
    for path, sha256 in rests_on.items():
        if sha256 is not None and listed.get(path) != sha256:
            raise InvalidPack(
                f"{pack.name}: {path} is not the one that {DECISION} rests on",
                remedy="Restore it from the archive that the job wrote.",
                file=path,
            )
    try:
        read_reruns(pack)
    except InvalidInput as error:
        raise InvalidPack(error.message, remedy=error.remedy, file=RERUNS) from error


def _gate(pack: Pack) -> str:
    if DECISION not in listed_digests(pack):
        return "none"
    decision = parse(pack.read(DECISION), source=DECISION)
    status = decision.get("gate_status") if isinstance(decision, dict) else None
    return status if isinstance(status, str) else "unreadable"


def _replay(pack: Pack, path: Path) -> Replay:
    """Judge the trajectories again. A pack is data: no command and no plug-in that it names is run."""
    if not pack.manifest.complete:
        return Replay(None, "not checked: the run is not complete")
    try:
        rows = judged_again(
            pack, path, JudgesAgain(tuple(pack.config.judges), pack.config.judge_configs), environ={}
        )
    except InvalidInput as error:
        return Replay(None, f"not checked: {error.message}")
    try:
        differing = [saved["case_id"] for saved, now in rows if case_mismatch(saved, now) is not None]
    except AgentEvalError as error:
        return Replay(False, f"cannot be judged again: {error.message}")
    if not differing:
        rulings = "; rulings of LLM judges are those of the pack" if pack.summary.judging is not None else ""
        return Replay(True, f"this version of agent-eval reaches the same verdicts on all cases{rulings}")
    why = "; its judges saw text that is redacted now" if pack.config.execution_config.redacted_cases else ""
    more = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
    return Replay(False, f"this version of agent-eval judges {differing[0][:100]!r}{more} otherwise{why}")
