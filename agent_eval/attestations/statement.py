"""in-toto Statements: what is said (a predicate) of which artifacts (subjects, by digest).

Version 1 of the in-toto Statement. Subjects match by their digest alone; names are for readers. agent-eval
makes two: the result of a run, and a gate that passed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any, TypedDict

from agent_eval.attestations.dsse import UntrustedPack, as_object, malformed, parsed
from agent_eval.contracts import GateDecision, GateStatus, Outcome, RunConfig
from agent_eval.contracts.base import canonical_json, instant
from agent_eval.errors import InvalidInput
from agent_eval.storage.files import sha256_bytes
from agent_eval.storage.json import dumps

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
"""Predicate type of the result of a run: which cases passed."""
VERIFICATION_RESULT = "https://in-toto.io/attestation/svr/v0.2"
"""Predicate type of a gate that passed (simple verification result). There is none of one that did not."""

SUBJECT = "manifest.json"
RUN_FIELD = "agentEval_run"
"""Field that agent-eval adds to its predicates: which run the statement is of."""

VERIFIER_ID = "urn:agent-eval:gate:1"
"""Names the rules by which the gate decides; its number rises when the same evidence may decide otherwise."""

GATE_FIELD = "agentEval_gate"
"""Field that agent-eval adds to the statement of a gate: what was compared, by digest."""

_HEX = re.compile(r"[0-9a-f]+")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_IMAGE = re.compile(r"@?sha256:([0-9a-f]{64})$")
_WARNED = (Outcome.INCONCLUSIVE.value, Outcome.SKIPPED.value)


class Subject(TypedDict):
    """An artifact (a ResourceDescriptor), by its lower-case hexadecimal digests: `sha256`, `gitCommit`."""

    name: str
    digest: dict[str, str]


@dataclass(frozen=True, slots=True)
class Statement:
    """A predicate about subjects."""

    subjects: tuple[Subject, ...]
    predicate_type: str
    predicate: Mapping[str, Any]

    def encode(self) -> bytes:
        """Encode the statement: the payload that is signed."""
        return dumps(
            {
                "_type": STATEMENT_TYPE,
                "subject": list(self.subjects),
                "predicateType": self.predicate_type,
                "predicate": dict(self.predicate),
            }
        )

    @classmethod
    def parse(cls, payload: bytes, *, source: str) -> Statement:
        """Read a statement strictly, once its signature has been verified.

        Raises:
            MalformedAttestation: It is no JSON, has duplicate keys, or is no Statement of version 1.
        """
        value = as_object(parsed(payload, source), "the statement", source)
        if value.get("_type") != STATEMENT_TYPE:
            raise malformed(source, f"its _type is not {STATEMENT_TYPE}")
        predicate_type, subjects = value.get("predicateType"), value.get("subject")
        if not isinstance(predicate_type, str):
            raise malformed(source, "its predicateType is no text")
        if not isinstance(subjects, list) or not subjects:
            raise malformed(source, "it has no subject")
        predicate = as_object(value.get("predicate"), "its predicate", source)
        return cls(tuple(_subject(subject, source) for subject in subjects), predicate_type, predicate)


def _subject(value: object, source: str) -> Subject:
    subject = as_object(value, "a subject", source)
    digest = as_object(subject.get("digest"), "the digest of a subject", source)
    name = subject.get("name", "")
    if not isinstance(name, str):
        raise malformed(source, "the name of a subject is no text")
    for algorithm, number in digest.items():
        if not isinstance(number, str) or not _HEX.fullmatch(number):
            raise malformed(source, f"the {algorithm[:40]} of a subject is not lower-case hexadecimal")
    if not digest:
        raise malformed(source, "a subject has no digest")
    return {"name": name, "digest": digest}


@dataclass(frozen=True, slots=True)
class Expected:
    """What a verifier expects of a run. A signature says who made a pack, not that it is the right one."""

    commit: str | None = None
    dataset_id: str | None = None
    run_id: str | None = None

    def check(self, predicate: Mapping[str, Any], *, source: str) -> None:
        """Check what a statement says of its run.

        Raises:
            UntrustedPack: It is of another commit, dataset or run.
        """
        run = as_object(predicate.get(RUN_FIELD), f"its {RUN_FIELD}", source)
        for field, name, expected in (
            ("gitCommit", "commit", self.commit),
            ("datasetId", "dataset", self.dataset_id),
            ("runId", "run", self.run_id),
        ):
            if expected is not None and run.get(field) != expected:
                actual = repr(run.get(field))[:120]
                raise UntrustedPack(
                    f"{source}: is of {name} {actual}, not of {expected[:100]!r}",
                    remedy=f"Get the evidence of that {name}, or correct --expect-{name}.",
                    file=source,
                )


def result_predicate(
    config: RunConfig, outcomes: Iterable[tuple[str, str]], *, url: str | None = None
) -> dict[str, Any]:
    """Build the test-result predicate of a run.

    A failed case, or one that could not be judged, makes the result FAILED; one that is inconclusive or
    skipped makes it WARNED. Only a run in which every case passed is PASSED.
    """
    tests: dict[str, list[str]] = {"passedTests": [], "warnedTests": [], "failedTests": []}
    for case_id, outcome in outcomes:
        kind = "warned" if outcome in _WARNED else "failed"
        tests["passedTests" if outcome == Outcome.PASSED.value else f"{kind}Tests"].append(case_id)
    warned = "WARNED" if tests["warnedTests"] else "PASSED"
    digests = {
        "suite": config.suite_digest,
        "prompt": config.prompt_hash,
        "policy": config.policy_hash,
        "dependency lock": config.dependency_lock_hash,
    }
    predicate: dict[str, Any] = {
        "result": "FAILED" if tests["failedTests"] else warned,
        "configuration": [
            {"name": name, "digest": {"sha256": digest}}
            for name, digest in digests.items()
            if digest is not None and _SHA256.fullmatch(digest)
        ],
        **tests,
        RUN_FIELD: _run(config),
    }
    if url is not None:
        predicate["url"] = url
    return predicate


def gate_predicate(config: RunConfig, decision: GateDecision, decision_sha256: str) -> dict[str, Any]:
    """Build the predicate of a gate that passed.

    Raises:
        InvalidInput: The gate did not pass, which is never attested.
    """
    if decision.gate_status is not GateStatus.PASSED or not decision.passed or decision.blocks:
        raise InvalidInput(
            f"the gate did not pass (it is {decision.gate_status.value}), and only a passed one is attested",
            remedy="Attest the result of the run alone, or fix the candidate and decide again.",
        )
    properties = ["AGENT_EVAL_GATE_PASSED"]
    properties += ["AGENT_EVAL_BASELINE_COMPARED"] * bool(decision.baseline_manifest_sha256)
    properties += ["AGENT_EVAL_MARGIN_HELD"] * (decision.release is not None)
    policy = canonical_json({"preset": decision.preset, "thresholds": decision.thresholds.to_json()})
    return {
        "verifier": {
            "id": VERIFIER_ID,
            "policies": [
                {
                    "name": decision.preset or "thresholds",
                    "mediaType": "application/json",
                    "content": base64.b64encode(policy).decode(),
                    "digest": {"sha256": sha256_bytes(policy)},
                }
            ],
        },
        "timeCreated": instant(decision.generated_at).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "properties": properties,
        RUN_FIELD: _run(config),
        GATE_FIELD: {
            "decisionSha256": decision_sha256,
            "comparisonSha256": decision.comparison_sha256,
            "baselineManifestSha256": decision.baseline_manifest_sha256,
            "baselineRunId": decision.baseline_run_id,
        },
    }


def subjects_of(manifest_sha256: str, config: RunConfig) -> tuple[Subject, ...]:
    """Return what both statements are about: the manifest of a run, and the agent's commit and image."""
    subjects: list[Subject] = [{"name": SUBJECT, "digest": {"sha256": manifest_sha256}}]
    commit = (config.git_commit or "").lower()
    if _COMMIT.fullmatch(commit):
        subjects.append({"name": "agent", "digest": {"gitCommit": commit}})
    image = _IMAGE.search(config.container_image or "")
    if image is not None:
        subjects.append({"name": "agent image", "digest": {"sha256": image[1]}})
    return tuple(subjects)


def check_result(predicate: Mapping[str, Any], config: RunConfig, outcomes: Iterable[tuple[str, str]]) -> str:
    """Compare a test-result predicate with the run it is about.

    Fields of the run that the predicate does not have are not asked for: an older version did not state them.

    Returns the first field that does not follow from the run; empty where all do.
    """
    follows = result_predicate(config, outcomes)
    for name in ("result", "passedTests", "warnedTests", "failedTests"):
        if predicate.get(name) != follows[name]:
            return name
    stated = predicate[RUN_FIELD]
    return next((name for name, value in follows[RUN_FIELD].items() if stated.get(name, value) != value), "")


def _run(config: RunConfig) -> dict[str, Any]:
    return {
        "runId": config.run_id,
        "datasetId": config.dataset_id,
        "gitCommit": config.git_commit,
        "startedAt": config.started_at,
        "agentVersion": config.agent_version,
        "model": config.model,
    }
