"""On five platforms: one job in twelve situations, exceptions that a change makes, what `init` writes."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_eval.demo.scaffold import ALL, SAMPLE, SETTINGS, scaffold
from agent_eval.errors import ExitCode
from tests.e2e.platforms import SECRETS, CiPlatform, platform
from tests.e2e.program import agent_eval
from tests.e2e.runner import agent_program, live_order, orders
from tests.extent import crossed
from tests.unit.ci.registries import NAME, registry, waiver

BROKEN = 'tools.append("escalate")'
CHANGED = f'if "change" in os.getcwd(): {BROKEN}'
"""Lines of one program for both sides, which are told apart by where they run."""


def with_agent(ci: CiPlatform, body: str = "") -> dict[str, str]:
    """Write a suite without traces, and an agent beside the checkout; the inputs that run it."""
    ci.write_suite(live_order(1), live_order(2))
    agent = ci.workspace.parent / "agent.py"
    agent.write_text(agent_program(body))
    return {"agent_command": f"{sys.executable} -S -E {agent}"}


def compared(ci: CiPlatform, *, bad: tuple[int, ...] = ()) -> None:
    """A run on main, and a suite that got worse in the cases `bad`."""
    ci.write_suite(*orders())
    assert ci.push().code == ExitCode.OK
    ci.write_suite(*orders(bad=bad))


def broken_agent(ci: CiPlatform, name: str) -> None:
    assert ci.push(**with_agent(ci)).code == ExitCode.OK
    ended = ci.change(**with_agent(ci, CHANGED))
    assert ended.code == ExitCode.NO, ended.text
    assert "order-1" in ended.text


def first_run(ci: CiPlatform, name: str) -> None:
    ci.write_suite(*orders())
    ended = ci.change()
    assert ended.code == ExitCode.OK, ended.text
    assert "no-baseline" in ended.text


def unchanged(ci: CiPlatform, name: str) -> None:
    compared(ci)
    ended = ci.change()
    assert ended.code == ExitCode.OK, ended.text
    assert "merge base" in ended.text


def fork(ci: CiPlatform, name: str) -> None:
    """Beside secrets its agent does not start; elsewhere it sees none of those that the job itself has."""
    file = ci.workspace.parent / "seen.txt"
    agent = with_agent(ci, f"open({str(file)!r}, 'a').write(repr(dict(os.environ)))")
    ci.push(**agent)
    file.unlink()
    refused = ci.fork_beside_secrets(**agent)
    assert refused.code == ExitCode.WRONG_REQUEST, refused.text
    assert not file.exists()
    ended = ci.fork(**agent)
    assert ended.code == ExitCode.OK, ended.text
    seen = file.read_text()
    assert "PATH" in seen
    assert not [secret for secret in SECRETS if secret in seen + ended.text]


def expired(ci: CiPlatform, name: str) -> None:
    """What main left is gone, and the base has no suite that could be measured in its place."""
    compared(ci)
    ci.do("expire")
    ended = ci.change()
    if name == "jenkins":  # a build there does not say whether it ever had artifacts
        assert ended.code == ExitCode.OK, ended.text
        assert "no-baseline" in ended.text
        return
    assert ended.code == ExitCode.INCONCLUSIVE, ended.text
    assert "main's evidence expired. Run main again." in ended.text


def missing_permission(ci: CiPlatform, name: str) -> None:
    """Whether there is a baseline is not known, so nothing passes."""
    compared(ci)
    ended = ci.change(**(ci.do("forbid") or {}))
    assert ended.code == ExitCode.NOT_EVALUABLE, ended.text
    assert "could not be read" in ended.text


def two_at_once(ci: CiPlatform, name: str) -> None:
    compared(ci, bad=(2,))
    assert ci.write_at_once() is (name in ("github", "gitlab"))
    assert (ci.change(500).code, ci.change(501).code) == (ExitCode.NO, ExitCode.NO)
    assert len(ci.do("comments")) == (0 if name in WITHOUT_COMMENTS else 1)


def many_pages(ci: CiPlatform, name: str) -> None:
    compared(ci, bad=(2,))
    ci.do("crowd")
    for number in (500, 501):
        ended = ci.change(number)
        assert ended.code == ExitCode.NO, ended.text
    assert len(ci.do("comments")) == (0 if name in WITHOUT_COMMENTS else 1)


def self_managed(ci: CiPlatform, name: str) -> None:
    compared(ci, bad=(2,))
    ended = ci.change()
    assert ended.code == ExitCode.NO, ended.text
    assert len(ci.do("comments")) == (0 if name in WITHOUT_COMMENTS else 1)


def wrong_digest(ci: CiPlatform, name: str) -> None:
    compared(ci)
    ci.do("damage")
    ended = ci.change()
    assert ended.code == ExitCode.NOT_EVALUABLE, ended.text


def base_without_evidence(ci: CiPlatform, name: str) -> None:
    ci.write_suite(*orders())
    ci.do("run_without_evidence")
    ended = ci.change()
    assert ended.code == ExitCode.OK, ended.text
    assert "no-baseline" in ended.text


def inconclusive(ci: CiPlatform, name: str) -> None:
    """Cases that ask something else are compared with nothing: a warning, and a stop for a release."""
    compared(ci)
    cases = orders()
    for case in cases:
        case["input"] = "Another question."
    ci.write_suite(*cases)
    warned = ci.change(500)
    assert warned.code == ExitCode.OK, warned.text
    assert "inconclusive" in warned.text
    stopped = ci.change(501, preset="release")
    assert stopped.code == ExitCode.INCONCLUSIVE, stopped.text


WITHOUT_COMMENTS = ("circleci", "jenkins")
PLATFORMS = ("github", "gitlab", "buildkite", "circleci", "jenkins")
SITUATIONS: tuple[Callable[[CiPlatform, str], None], ...] = (
    *(broken_agent, first_run, unchanged, fork, expired, missing_permission, two_at_once, many_pages),
    *(self_managed, wrong_digest, base_without_evidence, inconclusive),
)


@pytest.fixture
def ci(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[CiPlatform]:
    """The platform of this name, in whose checkout the test stands; it must be asked as it documents."""
    below_a_path = request.node.callspec.params.get("situation") is self_managed
    with platform(name, tmp_path, below_a_path=below_a_path) as made:
        monkeypatch.chdir(made.workspace)
        yield made


@crossed(name=PLATFORMS, situation=SITUATIONS)
def test_a_job_ends_as_its_situation_says_on_each_platform(
    name: str, situation: Callable[[CiPlatform, str], None], ci: CiPlatform
) -> None:
    situation(ci, name)


UNTIL = "2027-01-31T00:00:00+00:00"
EXCEPTIONS: dict[str, tuple[str, bytes]] = {
    "in quarantine": ("gate.yml", b"quarantine: [{case: order-2, reason: flaky, until: 2027-01-31}]\n"),
    "waived": (NAME, registry(waiver("order-2", expires_at=UNTIL))),
}
"""The file that a change brings, by what it makes of the case that it breaks."""


@crossed(name=PLATFORMS, way=tuple(EXCEPTIONS))
def test_a_change_does_not_excuse_the_case_that_it_breaks(way: str, ci: CiPlatform) -> None:
    (ci.workspace / "gate.yml").write_text("preset: pull-request\n")
    ci.write_suite(*orders())
    assert ci.push(policy="gate.yml").code == ExitCode.OK
    ci.write_suite(*orders(bad=(2,)))
    file, data = EXCEPTIONS[way]
    (ci.workspace / file).parent.mkdir(exist_ok=True)
    (ci.workspace / file).write_bytes(data)
    ended = ci.change(policy="gate.yml")
    assert ended.code == ExitCode.NO, ended.text
    assert file in ended.text


WEATHER = "°C in Lisbon"
NOTHING = {"suite": "", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
"""No input but the platform's own: everything else is in `agent-eval.yml`."""
QUARANTINE = "quarantine: [{case: weather, reason: known, until: 2027-01-31}]"


def replace(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def set_up(ci: CiPlatform) -> None:
    """Make the checkout what `init` leaves, the sample agent included."""
    scaffold(ci.workspace, platforms=ALL)


def merge(ci: CiPlatform) -> None:
    """Make the base branch what the checkout is."""
    if ci.name == "github":
        ci.runner.commits_files = True
        ci.runner.commit_to_main()
    else:
        ci.runner.base = ci.runner.repository.commit()
        ci.runner.repository.push("main")


@crossed(name=PLATFORMS)
def test_what_init_writes_decides_in_ci_on_the_agent_that_it_names(ci: CiPlatform) -> None:
    set_up(ci)
    merge(ci)
    first = ci.push(**NOTHING)
    assert first.code == ExitCode.OK, first.text
    replace(ci.workspace / SAMPLE, WEATHER, "°C in Porto")
    worse = ci.change(**NOTHING)
    assert worse.code == ExitCode.NO, worse.text
    assert "weather" in worse.text
    # What a change makes of the policy holds once it is merged.
    replace(ci.workspace / SETTINGS, "quarantine: []", f"max_regressed_cases: 9\n  {QUARANTINE}")
    loosened = ci.change(502, **NOTHING)
    assert loosened.code == ExitCode.NO, loosened.text
    assert "max_regressed_cases" in loosened.text
    assert "quarantine" in loosened.text


@crossed(name=PLATFORMS)
def test_a_case_that_is_in_quarantine_on_main_does_not_block(ci: CiPlatform) -> None:
    set_up(ci)
    replace(ci.workspace / SETTINGS, "quarantine: []", QUARANTINE)
    merge(ci)
    assert ci.push(**NOTHING).code == ExitCode.OK
    replace(ci.workspace / SAMPLE, WEATHER, "°C in Porto")
    ended = ci.change(**NOTHING)
    assert ended.code == ExitCode.OK, ended.text
    assert "in quarantine" in ended.text


@crossed(name=PLATFORMS)
def test_the_change_that_sets_agent_eval_up_passes(ci: CiPlatform) -> None:
    set_up(ci)
    ended = ci.change(baseline="none", **NOTHING)
    assert ended.code == ExitCode.OK, ended.text


def test_ci_needs_no_argument_where_init_was(tmp_path: Path) -> None:
    assert agent_eval("init", "--out", ".", cwd=tmp_path).code == 0
    replace(tmp_path / SETTINGS, "quarantine: []", "min_pass_rate: 0.95")
    first = agent_eval("ci", cwd=tmp_path)
    assert first.code == 0, first.out
    assert "First run: nothing to compare with" in first.out
    replace(tmp_path / SAMPLE, "It is 18", "")
    replace(tmp_path / SAMPLE, WEATHER, "Rain in Porto")
    replace(tmp_path / SAMPLE, "Please confirm", "Done")
    worse = agent_eval("ci", cwd=tmp_path)
    assert worse.code == 1, worse.out
    assert "an agent that keeps min_pass_rate 95% passes so few" in worse.out
