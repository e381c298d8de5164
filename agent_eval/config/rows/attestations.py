"""Rows of the commands that make and check attestations, and of those that open a pack only if one holds."""

from __future__ import annotations

from agent_eval.config.options import Option

ATTESTATIONS: tuple[Option, ...] = (
    Option(
        "out",
        "path",
        "File for the private key, which only its owner may read; the public key is written beside it as "
        "FILE.pub. Neither is overwritten.",
        goes_to="out",
        commands=("keygen",),
        default="agent-eval-key.pem",
        metavar="FILE",
    ),
    Option(
        "run",
        "path",
        "Evidence pack.",
        goes_to="pack",
        commands=("attest",),
        metavar="PACK",
        required=True,
    ),
    Option(
        "run",
        "path",
        "Evidence pack, or archive of one.",
        goes_to="pack",
        commands=("verify-attestation",),
        metavar="PACK",
        required=True,
    ),
    Option(
        "key",
        "path",
        "Private ECDSA P-256 key in PEM. Default: the key in AGENT_EVAL_SIGNING_KEY, if that is set.",
        goes_to="key",
        commands=("attest",),
        metavar="FILE",
    ),
    Option(
        "public-key",
        "lines",
        "Public key in PEM, with which the pack must have been signed. Of several, in a file or repeated, "
        "one is enough.",
        goes_to="public_key",
        commands=("verify-attestation", "verify", "pack verify", "replay"),
        metavar="FILE",
    ),
    Option(
        "secret",
        "secret",
        "Shared secret, for integrity by HMAC: every holder can make it, so it is no signature. Other users "
        "of the machine can read a flag, so prefer --secret-file, or AGENT_EVAL_ATTESTATION_SECRET.",
        goes_to="secret",
        commands=("attest", "verify-attestation"),
    ),
    Option(
        "secret-file",
        "path",
        "File with the shared secret.",
        goes_to="secret_file",
        commands=("attest", "verify-attestation"),
        metavar="FILE",
    ),
    Option(
        "gate",
        "path",
        "Decision of the gate on this pack; one that did not pass is refused. Default: the one in the pack, "
        "which is left out unless it passed.",
        goes_to="decision",
        commands=("attest",),
        metavar="FILE",
    ),
    Option(
        "url",
        "url",
        "Page of the CI run, to be named in the attestation.",
        goes_to="url",
        commands=("attest",),
    ),
    Option(
        "attestation",
        "path",
        "Attestation of the result that is not in the pack: a Sigstore bundle or a DSSE envelope.",
        goes_to="attestation",
        commands=("verify-attestation",),
        metavar="FILE",
    ),
    Option(
        "require-signature",
        "switch",
        "Refuse a pack without a signature, whatever else vouches for it.",
        goes_to="require_signature",
        commands=("verify-attestation",),
        default="false",
    ),
    Option(
        "require-gate",
        "switch",
        "Refuse a pack without an attestation that its gate passed.",
        goes_to="require_gate",
        commands=("verify-attestation",),
        default="false",
    ),
    Option(
        "allow-unsigned",
        "switch",
        "Check only that the pack is whole, where neither key nor secret is given.",
        goes_to="allow_unsigned",
        commands=("verify-attestation",),
        default="false",
    ),
    Option(
        "expect-commit",
        "text",
        "Refuse the evidence of another commit. A signature says who made a pack, not that it is the right "
        "one.",
        goes_to="expect_commit",
        commands=("verify-attestation",),
        metavar="SHA",
    ),
    Option(
        "expect-dataset",
        "id",
        "Refuse the evidence of another dataset.",
        goes_to="expect_dataset",
        commands=("verify-attestation",),
        metavar="ID",
    ),
    Option(
        "expect-run",
        "id",
        "Refuse the evidence of another run.",
        goes_to="expect_run",
        commands=("verify-attestation",),
        metavar="ID",
    ),
    Option(
        "signing-key",
        "private key",
        "Private ECDSA P-256 key in PEM, from a secret of the CI system: the evidence is signed with it. No "
        "agent gets it, and no output has it.",
        goes_to="signing_key",
        commands=("ci",),
        metavar="PEM",
        in_file=False,
    ),
    Option(
        "attest",
        "switch",
        "Write the result, and a gate that passed, as in-toto predicates into the evidence even without a "
        "key, for a later step that signs them.",
        goes_to="attest",
        commands=("ci",),
        default="false",
    ),
    Option(
        "baseline-public-key",
        "path",
        "Public key in PEM with which the baseline must have been signed; evidence that was not is not used. "
        "Of several in the file one is enough, so that a key can be replaced.",
        goes_to="baseline_public_key",
        commands=("ci", "compare", "gate"),
        metavar="FILE",
        in_file=False,
    ),
    Option(
        "candidate-public-key",
        "path",
        "Public key in PEM with which the candidate must have been signed, or several.",
        goes_to="candidate_public_key",
        commands=("compare", "gate"),
        metavar="FILE",
    ),
)
