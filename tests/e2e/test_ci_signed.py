"""`agent-eval ci` signs its evidence and takes only a signed baseline; the key reaches nothing else."""

import base64
import json
import os
import sys
from pathlib import Path

import pytest

from agent_eval.attestations.files import GATE, RESULT, Trust
from agent_eval.attestations.keys import SigningKey
from agent_eval.attestations.statement import Expected
from agent_eval.operations.trust import open_trusted
from tests.e2e.runner import BASE_SHA, COMMAND, HEAD_SHA, PULL, Runner, Step, orders, unzipped
from tests.e2e.test_ci_agent import write
from tests.extent import WHOLE_JOB
from tests.fakes.github import FakeGitHub

KEY, OTHER = SigningKey.generate(), SigningKey.generate()
PEM = KEY.pem().decode()
NUMBER = KEY._key.private_numbers().private_value.to_bytes(32, "big")
SECRETS = (
    *(line.encode() for line in PEM.splitlines()[1:-1]),
    *(NUMBER, NUMBER.hex().encode(), base64.b64encode(NUMBER)),
)


@pytest.fixture
def signed(runner: Runner, github: FakeGitHub) -> Step:
    """What a run on main left, signed; the public key is in the repository."""
    github.add_run(400, head_sha=BASE_SHA)
    runner.write_suite(*orders())
    (runner.workspace / "evidence.pub").write_bytes(KEY.public.pem)
    github.files["evidence.pub"] = KEY.public.pem
    return runner.push(signing_key=PEM)


def packed(step: Step, tmp_path: Path) -> Path:
    path = tmp_path / "evidence.zip"
    path.write_bytes(step.archive)
    return path


def everything(step: Step, github: FakeGitHub) -> dict[str, bytes]:
    files = {str(path): path.read_bytes() for path in step.workspace.rglob("*") if path.is_file()}
    texts = {"log": step.log, "summary": step.summary, "outputs": json.dumps(step.outputs)}
    texts["comments"] = "".join(github.bodies(PULL)) if PULL in github.pulls else ""
    return files | unzipped(step.archive) | {name: text.encode() for name, text in texts.items()}


def test_archive_of_a_run_is_signed_of_what(github: FakeGitHub, signed: Step, tmp_path: Path) -> None:
    trust = Trust(keys=(KEY.public,), expected=Expected(commit=BASE_SHA, dataset_id="shop"))
    trusted = open_trusted(packed(signed, tmp_path), trust)
    (verified,) = trusted.verified
    assert verified.statement.predicate["url"].startswith("https://github.com/")
    for name, data in everything(signed, github).items():
        assert not any(secret in data for secret in SECRETS), name


def test_a_gate_is_signed_where_it_passed_alone(runner: Runner, signed: Step, tmp_path: Path) -> None:
    runner.upload(signed, 400)
    step = runner.pull_request(signing_key=PEM)
    assert step.outcome == "passed"
    trust = Trust(keys=(KEY.public,), gate=True, expected=Expected(commit=HEAD_SHA))
    assert open_trusted(packed(step, tmp_path), trust).key_id == KEY.public.key_id
    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request(run_id=501, signing_key=PEM)
    assert step.outcome == "failed"
    names = unzipped(step.archive)
    assert f"shop/{RESULT.bundle}" in names
    assert f"shop/{GATE.bundle}" not in names


def test_a_signed_baseline_is_used(runner: Runner, signed: Step) -> None:
    runner.upload(signed, 400)
    step = runner.pull_request(baseline_public_key="evidence.pub")
    assert (step.outcome, step.outputs["baseline-run-id"]) == ("passed", "400")


@pytest.mark.parametrize("attest", ["true", "false"])
def test_what_a_later_step_signs_is_written_on_request(runner: Runner, signed: Step, attest: str) -> None:
    runner.upload(signed, 400)
    names = unzipped(runner.pull_request(attest=attest).archive)
    attested = {name for name in names if "/attestations/" in name}
    assert attested == ({f"shop/{RESULT.predicate}", f"shop/{GATE.predicate}"} if attest == "true" else set())


@pytest.mark.parametrize("kind", ["unsigned", "another key", "another commit"])
@WHOLE_JOB
def test_wrongly_signed_baseline_is_not_used(runner: Runner, signed: Step, kind: str) -> None:
    if kind == "another commit":
        # What a change signed, in the place of main's.
        runner.upload(runner.pull_request(signing_key=PEM), 400)
    else:
        runner.upload(
            runner.push(**({} if kind == "unsigned" else {"signing_key": OTHER.pem().decode()})), 400
        )
    step = runner.pull_request(baseline_public_key="evidence.pub")
    assert (step.code, step.outcome) == (4, "error")
    why = {
        "unsigned": "has no signature",
        "another key": "was not signed by a trusted key",
        "another commit": f"not of `{BASE_SHA}`",
    }[kind]
    assert why in runner.github.bodies(PULL)[0]


def test_an_older_signed_baseline_stands_in(runner: Runner, github: FakeGitHub, signed: Step) -> None:
    runner.upload(signed, github.add_run(390, head_sha=BASE_SHA))
    runner.upload(runner.push(run_id=401), 400)
    step = runner.pull_request(baseline_public_key="evidence.pub")
    assert (step.outcome, step.outputs["baseline-run-id"]) == ("passed", "390")


def test_a_key_that_the_change_replaces_is_not_trusted_yet(runner: Runner, signed: Step) -> None:
    runner.upload(runner.push(signing_key=OTHER.pem().decode()), 400)
    (runner.workspace / "evidence.pub").write_bytes(OTHER.public.pem)
    step = runner.pull_request(baseline_public_key="evidence.pub")
    assert (step.code, step.outcome) == (4, "error")
    assert "was not signed by a trusted key" in runner.github.bodies(PULL)[0]


@pytest.mark.parametrize("name", ["AGENT_EVAL_SIGNING_KEY", "AGENT_EVAL_ATTESTATION_SECRET"])
def test_no_agent_may_be_given_what_evidence_is_signed_with(runner: Runner, name: str) -> None:
    write(runner)
    step = runner.pull_request(agent_command=COMMAND, agent_env=name, environ={name: PEM})
    assert (step.code, step.outcome) == (2, "error")
    assert f"{name} is the job's own, and no agent may see it" in step.log


def test_an_agent_that_prints_its_environment_has_no_key_to_print(runner: Runner, github: FakeGitHub) -> None:
    write(runner, "said = json.dumps(dict(os.environ))\n")
    # The commits of this runner have no files, so the agent is beside the checkout.
    agent = (runner.workspace / "agent.py").rename(runner.root / "agent.py")
    step = runner.pull_request(
        agent_command=f"{sys.executable} -S -E {agent}",
        signing_key=PEM,
        environ={"AGENT_EVAL_ATTESTATION_SECRET": "hunter2-hunter2"},
    )
    assert unzipped(step.archive).keys() >= {f"shop/{RESULT.bundle}"}
    for name, data in everything(step, github).items():
        assert not any(secret in data for secret in SECRETS), name
        assert b"hunter2-hunter2" not in data, name
        assert b"SIGNING" not in data or name.endswith((".json", ".zip", "log")), name


def test_a_wrong_key_is_an_error_before_anything_is_run(runner: Runner) -> None:
    pem = PEM.replace("MIG", "MIX")
    runner.write_suite(*orders())
    step = runner.pull_request(signing_key=pem)
    assert (step.code, step.outcome) == (2, "error")
    assert "signing-key: is not a private key in PEM" in step.log
    assert not any(line in step.log for line in pem.splitlines()[1:-1])
    assert not os.path.lexists(runner.workspace / "agent-eval-out" / "shop")


def test_a_public_key_that_is_missing_is_an_error(runner: Runner) -> None:
    runner.write_suite(*orders())
    step = runner.pull_request(baseline_public_key="nowhere.pub")
    assert (step.code, step.outcome) == (2, "error")
    assert "The public key nowhere.pub does not exist" in step.log
