"""`verify`: what of a pack is sealed, who signed it, what wrote it, and whether it still replays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_eval.attestations.dsse import UntrustedPack, read_bundle
from agent_eval.attestations.files import RESULT, Trust
from agent_eval.attestations.keys import PublicKey
from agent_eval.contracts import Case, CaseResultRow
from agent_eval.errors import AgentEvalError, ExitCode, InvalidInput, InvalidPack
from agent_eval.evidence.layout import HISTORY_USED, RERUNS
from agent_eval.evidence.reader import Pack
from agent_eval.operations.decision_material import read_reruns
from agent_eval.operations.models import MODEL_JUDGE
from agent_eval.operations.packs import PackFacts, decision_in, listed_digests, open_run
from agent_eval.operations.rejudge import JudgesAgain, case_mismatch, judge_again
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
    again = _JudgedAgain()
    try:
        if keys:
            trusted = open_trusted(path, Trust(keys=keys), attestation=attestation, watch=again)
            pack, signature = trusted.pack, Signature("signed", "by a key that was given", trusted.key_id)
        else:
            pack = open_run(path, watch=again)
            signature = _claimed(pack)
        _check_records(pack)
    except InvalidPack as error:
        if isinstance(error, UntrustedPack) or error.details.get("file") is not None:
            error.exit_code = ExitCode.NO
        raise
    return Verification(PackFacts(path, pack), signature, again.replay(pack), _gate(pack))


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


@dataclass
class _Differing:
    """Number and first id of the cases that are judged otherwise; `ended` where judging stopped, and why."""

    number: int = 0
    case_id: str = ""
    ended: Replay | None = None


class _JudgedAgain:
    """Judges the cases of a pack again while it is opened, so that none is read twice: a `Watch`.

    A pack is data: no command and no plug-in that it names is run. A judge that is a model rules by what the
    whole pack holds, so such a pack is judged after it was opened.
    """

    def __init__(self) -> None:
        self._judge: Callable[[Case], CaseResultRow] | None = None
        self.noted = _Differing()

    def __call__(self, pack: Pack, case: Case, result: CaseResultRow) -> None:
        """Judge a case; a model's later."""
        if MODEL_JUDGE not in pack.config.judges and pack.manifest.complete:
            self._compare(pack, case, result)

    def add(self, noted: _Differing) -> None:
        """Add what was noted of the cases that follow."""
        if self.noted.ended is None:
            self.noted.ended = noted.ended
            self.noted.case_id = self.noted.case_id or noted.case_id
            self.noted.number += noted.number

    def _compare(self, pack: Pack, case: Case, saved: CaseResultRow) -> None:
        if self.noted.ended is not None:
            return
        try:
            if self._judge is None:
                judges = JudgesAgain(tuple(pack.config.judges), pack.config.judge_configs)
                self._judge = judge_again(pack, judges, environ={})
            differs = case_mismatch(saved, self._judge(case)) is not None
        except AgentEvalError as error:
            is_refused = self._judge is None and isinstance(error, InvalidInput)
            state, what = (None, "not checked") if is_refused else (False, "cannot be judged again")
            self.noted.ended = Replay(state, f"{what}: {error.message}")
            return
        if differs:
            self.noted.case_id = self.noted.case_id or saved["case_id"]
            self.noted.number += 1

    def replay(self, pack: Pack) -> Replay:
        """Say what came of it, once the pack is open."""
        if not pack.manifest.complete:
            return Replay(None, "not checked: the run is not complete")
        if not pack.manifest.case_count:
            return Replay(False, "cannot be judged again: the run has no cases")
        if MODEL_JUDGE in pack.config.judges:
            for case, saved in pack.cases():
                self._compare(pack, case, saved)
        if self.noted.ended is not None:
            return self.noted.ended
        if not self.noted.number:
            asked = pack.summary.judging is not None
            rulings = "; rulings of LLM judges are those of the pack" if asked else ""
            return Replay(True, f"this version of agent-eval reaches the same verdicts on all cases{rulings}")
        is_redacted = pack.config.execution_config.redacted_cases
        why = "; its judges saw text that is redacted now" if is_redacted else ""
        more = f" and {self.noted.number - 1} more" if self.noted.number > 1 else ""
        which = f"{self.noted.case_id[:100]!r}{more}"
        return Replay(False, f"this version of agent-eval judges {which} otherwise{why}")
