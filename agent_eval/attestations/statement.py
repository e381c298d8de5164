"""in-toto Statements: what is said (a predicate) of which artifacts (subjects, by digest).

Version 1 of the in-toto Statement. Subjects match by their digest alone; names are for readers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_eval.attestations.dsse import (
    MAX_ATTESTATION_BYTES,
    MalformedAttestation,
    UntrustedPack,
    as_object,
    malformed,
)
from agent_eval.errors import InvalidInput
from agent_eval.storage.json import Limits, dumps, parse

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
"""Predicate type of the result of a run: which cases passed."""
VERIFICATION_RESULT = "https://in-toto.io/attestation/svr/v0.2"
"""Predicate type of a gate that passed (simple verification result). There is none of one that did not."""

SUBJECT = "manifest.json"
RUN_FIELD = "agentEval_run"
"""Field that agent-eval adds to its predicates: which run the statement is of."""

_LIMITS = Limits(max_bytes=MAX_ATTESTATION_BYTES, max_depth=32)
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Subject:
    """An artifact, by its digest.

    `digest` has lower-case hexadecimal digests by algorithm: `sha256`, `gitCommit`.
    """

    name: str
    digest: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return a ResourceDescriptor as JSON data."""
        return {"name": self.name, "digest": dict(self.digest)}


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
                "subject": [subject.to_json() for subject in self.subjects],
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
        try:
            value = as_object(parse(payload, source=source, limits=_LIMITS), "the statement", source)
        except InvalidInput as error:
            raise MalformedAttestation(error.message, **error.details) from error
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
    return Subject(name, digest)


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
