"""A second job comments on a fork's change from the sealed evidence of its run, and trusts no text of it.

The fork wrote the evidence: the table has packs that were tampered with and texts that want to be markup.
Whatever they are, nothing of them is run, nothing reaches the comment unescaped, no other pull request is
commented on, and they are never a baseline.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.config.spec import Identity, Judging, Output, RunSpec
from agent_eval.evidence.archive import write_bundle
from agent_eval.operations.run import run_suite
from tests.e2e.runner import (
    BASE_BRANCH_RUN,
    BASE_SHA,
    HEAD_SHA,
    OWN_RUN,
    PULL,
    REPOSITORY,
    Runner,
    order,
    orders,
    zipped,
)
from tests.extent import OTHERS, WHOLE_JOB
from tests.factories import make_case, make_suite
from tests.fakes.github import BOT, FakeGitHub, sha
from tests.security.github_markdown import ACTIVE, NASTY, Page
from tests.security.hostile_strings import DEEDS, PLACES
from tests.security.test_pack_agreement import TRICKS, forge
from tests.security.test_pack_archives import ATTACKS, bomb, zip_with

OTHER_PULL = 8
Rows = list[dict[str, Any]]


def pack_of(
    root: Path,
    *cases: dict[str, Any],
    dataset_id: str = "shop",
    commit: str = HEAD_SHA,
    judging: Judging | None = None,
) -> Path:
    """A sealed pack, as the first job makes one."""
    root.mkdir(parents=True, exist_ok=True)
    suite = root / "suite.json"
    suite.write_text(json.dumps(make_suite(*cases, dataset_id=dataset_id)))
    out = Output(pack=root / "pack", layout="compact")
    identity = Identity(git_commit=commit)
    spec = RunSpec(suite=suite, output=out, identity=identity, judging=judging or Judging())
    run_suite(spec, environ=dict(os.environ))
    return root / "pack"


def bundle(root: Path, packs: dict[str, Path]) -> bytes:
    """The artifact: a zip with the archive of the packs, as the step that uploads it makes it."""
    write_bundle(packs, root / "evidence.zip")
    return zipped({"evidence.zip": (root / "evidence.zip").read_bytes()})


@pytest.fixture(scope="module")
def of_main(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The artifact of a run on main."""
    place = tmp_path_factory.mktemp("main")
    return bundle(place, {"shop": pack_of(place, *orders(), commit=BASE_SHA)})


class Fork:
    """A fork's pull request 7, whose first job has finished, another one, and a run on main."""

    def __init__(self, runner: Runner, root: Path, of_main: bytes) -> None:
        self.runner, self.github, self.root = runner, runner.github, root
        self.report = runner.report
        self.github.add_run(OWN_RUN, fork=True, event="pull_request", head_sha=HEAD_SHA, head_branch="topic")
        self.github.add_pull(PULL, HEAD_SHA, fork=True)
        self.github.add_pull(OTHER_PULL, sha("other"))
        self.github.add_run(BASE_BRANCH_RUN, head_sha=BASE_SHA)
        self.github.add_artifact(BASE_BRANCH_RUN, of_main)

    def left(self, *cases: dict[str, Any], place: str = "fork", **fields: Any) -> None:
        """The first job leaves the evidence of these cases."""
        root = self.root / place
        self.github.add_artifact(OWN_RUN, bundle(root, {"shop": pack_of(root, *cases, **fields)}))

    @property
    def comment(self) -> str:
        """The one on its pull request."""
        (comment,) = self.github.bodies(PULL)
        return comment


@pytest.fixture
def fork(runner: Runner, tmp_path: Path, of_main: bytes) -> Fork:
    return Fork(runner, tmp_path, of_main)


# What it does


def test_comment_says_what_got_worse_by_whose_word(fork: Fork) -> None:
    fork.left(*orders(bad=(2,)))
    step = fork.report()
    assert (step.code, step.outcome) == (1, "failed")
    (comment,) = fork.github.bodies(PULL)
    assert comment.startswith(f"<!-- agent-eval id=default sha={HEAD_SHA} run={OWN_RUN} attempt=1 -->")
    assert "order-2" in comment
    assert "the word of the change's author" in comment
    assert f"run {BASE_BRANCH_RUN}" in comment or str(BASE_BRANCH_RUN) in comment
    assert f"/actions/runs/{OWN_RUN}#artifacts" in comment


@pytest.mark.parametrize(
    ("bad", "inputs", "outcome"), [((2,), {"fail_on": "never"}, "failed"), ((), {}, "passed")]
)
def test_a_job_that_only_reports_and_one_of_an_unchanged_agent_end_well(
    fork: Fork, bad: tuple[int, ...], inputs: dict[str, str], outcome: str
) -> None:
    fork.left(*orders(bad=bad))
    step = fork.report(**inputs)
    assert (step.code, step.outcome) == (0, outcome)


def test_the_rules_are_those_of_the_base_branch(fork: Fork) -> None:
    """A workspace that another job of the same machine left behind is not read."""
    fork.left(*orders(bad=(2,)))
    policy = b"policy: {max_regressed_cases: 4, max_new_hard_fail_cases: 4}\n"
    fork.github.files["agent-eval.yml"] = policy + b"ci: {title: Ours}\n"
    (fork.runner.workspace / "agent-eval.yml").write_text("ci: {title: Theirs, fail_on: never}\n")
    step = fork.report(max_regressed_cases="", max_new_hard_fail_cases="", preset="pull-request")
    assert "Ours" in fork.comment
    assert "Theirs" not in fork.comment + step.log
    assert "differs from the base branch" not in fork.comment


def test_the_evidence_is_neither_kept_nor_offered(fork: Fork) -> None:
    fork.left(*orders())
    step = fork.report()
    assert (step.outputs["evidence-archive"], step.outputs["evidence-pack"]) == ("", "")
    assert not list(fork.runner.workspace.rglob("*.zip"))
    assert not list(fork.runner.workspace.rglob("manifest.json"))


def test_report_on_an_older_run_leaves_the_newer(fork: Fork) -> None:
    fork.left(*orders(bad=(2,)))
    newer = f"<!-- agent-eval id=default sha={HEAD_SHA} run={OWN_RUN + 1} attempt=1 -->\n\nnewer"
    fork.github.add_comment(PULL, newer)
    fork.report()
    assert fork.github.bodies(PULL) == [newer]


# Whose comment is written


def closed(github: FakeGitHub) -> None:
    github.pulls[PULL]["state"] = "closed"


def deleted_fork(github: FakeGitHub) -> None:
    github.contract = None  # GitHub answers so, and its description does not say it
    github.runs[OWN_RUN]["head_repository"] = None


def of_a_victim(head: str, **fields: str) -> Callable[[FakeGitHub], None]:
    """A pull request of this repository takes the place of the fork's."""

    def happen(github: FakeGitHub) -> None:
        del github.pulls[PULL]
        github.add_pull(OTHER_PULL, head, **fields)
        github.ignores_heads = True

    return happen


UNCERTAIN: dict[str, Callable[[FakeGitHub], object]] = {
    "closed": closed,
    "moved on": lambda github: github.pulls[PULL]["head"].update(sha=sha("newer")),
    "of a branch of another fork": lambda github: github.pulls[PULL]["head"]["repo"].update(id=7777),
    "into another repository": lambda github: github.pulls[PULL]["base"]["repo"].update(id=7777),
    "one of two": lambda github: github.add_pull(9, HEAD_SHA, fork=True),
    "of a fork that was deleted": deleted_fork,
    "of the same branch name here": of_a_victim(sha("other"), branch="topic"),
    "of the same commit from here": of_a_victim(HEAD_SHA),
}


@pytest.mark.parametrize("situation", UNCERTAIN)
def test_no_comment_is_written_where_the_pull_request_is_not_certain(fork: Fork, situation: str) -> None:
    fork.left(*orders(bad=(2,)))
    UNCERTAIN[situation](fork.github)
    step = fork.report(fail_on="never")
    assert step.code == 0, step.log
    assert not fork.github.comments
    assert "No comment was written" in step.log
    assert "order-2" in step.summary


def test_pull_request_of_the_evidence_gets_nothing(fork: Fork) -> None:
    """The archive has the files in which other recipes pass on the number of a pull request."""
    pack = pack_of(fork.root / "fork", *orders())
    named = {"event.json": b'{"number": 8}', "pr_number": b"8", "NR": b"8"}
    write_bundle({"shop": pack}, fork.root / "evidence.zip", named)
    archive = (fork.root / "evidence.zip").read_bytes()
    fork.github.add_artifact(OWN_RUN, zipped({"evidence.zip": archive, **named}))
    fork.report()
    assert fork.github.bodies(OTHER_PULL) == []
    assert len(fork.github.bodies(PULL)) == 1


@pytest.mark.parametrize(
    ("fields", "inputs", "words"),
    [
        ({"event": "push"}, {}, "no run of a pull request"),
        ({"event": "pull_request_target"}, {}, "no run of a pull request"),
        ({"status": "in_progress"}, {}, "is not finished"),
        ({}, {"report_run_id": "501"}, "There is no workflow run 501"),
        ({}, {"baseline_workflow": ""}, "needs `baseline.job`"),
        ({}, {"github_token": ""}, "needs `github-token`"),
        ({}, {"event": "pull_request"}, "may have written"),
        ({}, {"event": "push"}, "may have written"),
        ({}, {"attest": "true"}, "exclude each other"),
    ],
)
def test_a_run_that_may_not_be_reported_on_is_refused(
    fork: Fork, fields: dict[str, str], inputs: dict[str, str], words: str
) -> None:
    fork.left(*orders())
    fork.github.runs[OWN_RUN] |= fields
    step = fork.report(**inputs)
    assert (step.code, step.outcome) == (2, "error")
    assert words in step.summary
    assert fork.github.bodies(OTHER_PULL) == []


# Hostile packs

CONFIG, TRAJECTORIES = "run/config.json", "cases/trajectories-00000.jsonl"


def started_by_a_judge(root: Path) -> None:
    """The evidence names judges that would run: a plug-in, a program, an address."""

    def change(rows: Rows) -> None:
        rows[0]["judges"] = [*rows[0]["judges"], "hostile:Judge"]
        address = {"url": "http://127.0.0.1:1"}
        rows[0]["judge_configs"] = {"program": {"command": "touch started"}, "http": address}

    forge(root, CONFIG, change)


def another_commit(rows: Rows) -> None:
    rows[0]["git_commit"] = sha("another")


def replaced(name: str, before: bytes, after: bytes) -> Callable[[Path], object]:
    return lambda root: (root / name).write_bytes((root / name).read_bytes().replace(before, after))


DEEP = b'{"kind":"run","files":' + b"[" * 100_000
FORGED: dict[str, Callable[[Path], object]] = {
    **{name: (lambda root, trick=trick: forge(root, trick[0], trick[1])) for name, trick in TRICKS.items()},
    "judges that would run": started_by_a_judge,
    "another commit": lambda root: forge(root, CONFIG, another_commit),
    "a file more": lambda root: (root / "extra.sh").write_text("touch started"),
    "a file less": lambda root: (root / TRAJECTORIES).unlink(),
    "a byte changed": replaced(TRAJECTORIES, b"order-1", b"order-9"),
    "not sealed": lambda root: (root / "manifest.json").unlink(),
    "a manifest that is no object": lambda root: (root / "manifest.json").write_bytes(b"[]"),
    "a manifest that leads out": replaced("manifest.json", CONFIG.encode(), b"../../../../etc/passwd"),
    "deep JSON": lambda root: (root / "manifest.json").write_bytes(DEEP),
}

ARCHIVES: dict[str, bytes] = {
    **{f"archive: {name}": zip_with(*members) for name, members in ATTACKS.items()},
    "archive: bomb": bomb(), "archive: no zip": b"<script>alert(1)</script>", "archive: empty": b"",
    "archive: without a pack": zipped({"readme.md": b"hello"}),
    "archive: an archive in an archive in an archive": zipped({"a.zip": zipped({"b.zip": bomb()})}),
}  # fmt: skip


def sampled(names: list[str]) -> list[Any]:
    """Every fifth in any run, all of them in a full one."""
    return [pytest.param(name, marks=[] if number % 5 == 0 else OTHERS) for number, name in enumerate(names)]


def nothing_happened(fork: Fork) -> None:
    """Only the job's own files, and one comment, on the right pull request."""
    top = fork.runner.workspace
    names = {path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file()}
    assert names <= {"hostile.py"} | {name for name in names if name.startswith("agent-eval-out/")}
    assert not [name for name in names if name.endswith((".zip", ".sh"))]
    assert (fork.github.bodies(OTHER_PULL), len(fork.github.bodies(PULL))) == ([], 1)


@pytest.mark.parametrize("attack", sampled([*FORGED, *ARCHIVES]))
def test_evidence_that_is_not_what_it_says_is_refused_and_runs_nothing(fork: Fork, attack: str) -> None:
    (fork.runner.workspace / "hostile.py").write_text("open('started', 'w')\nclass Judge: ...\n")
    if attack in ARCHIVES:
        fork.github.add_artifact(OWN_RUN, ARCHIVES[attack])
    else:
        two = make_case("two")
        two["trials"] = [{"trace": make_case("two")["trace"], "metadata": {"cost_usd": 0.5}}]
        pack = pack_of(fork.root / "fork", make_case("order-1"), two)
        FORGED[attack](pack)
        files = {f"shop/{at.relative_to(pack)}": at.read_bytes() for at in pack.rglob("*") if at.is_file()}
        fork.github.add_artifact(OWN_RUN, zipped({"evidence.zip": zipped(files)}))
    step = fork.report()
    assert (step.code, step.outcome) == (2, "error"), step.log
    assert "Not evaluated: " in fork.comment
    nothing_happened(fork)
    assert fork.github.violations == []


@pytest.mark.parametrize(
    "dataset_id", ["../../escape", "report.md", "evidence.zip", "/etc", "agent-eval-x.html"]
)
def test_a_dataset_leads_nowhere(fork: Fork, dataset_id: str) -> None:
    fork.left(*orders(), dataset_id=dataset_id)
    fork.report()
    nothing_happened(fork)
    escaped = fork.root.rglob("*escape*")
    assert all("agent-eval-out" in str(path) or "fork" in path.parts for path in escaped)


def test_two_packs_of_one_dataset_are_refused(fork: Fork) -> None:
    good, bad = pack_of(fork.root / "a", *orders()), pack_of(fork.root / "b", *orders(bad=(1,)))
    fork.github.add_artifact(OWN_RUN, bundle(fork.root, {"a": good, "b": bad}))
    step = fork.report()
    assert (step.code, step.outcome) == (4, "error")
    assert "has `shop` twice" in fork.comment


@pytest.mark.parametrize(("expired", "words"), [(True, "expired"), (None, "left no artifact")])
def test_a_run_without_evidence_is_said_to_have_none(fork: Fork, expired: bool | None, words: str) -> None:
    if expired:
        fork.github.add_artifact(OWN_RUN, b"", expired=True)
    step = fork.report()
    assert (step.code, step.outcome) == (2, "error")
    assert words in fork.comment


def test_evidence_of_another_digest_is_refused(fork: Fork) -> None:
    pack = pack_of(fork.root / "fork", *orders())
    fork.github.add_artifact(OWN_RUN, bundle(fork.root, {"shop": pack}), digest=f"sha256:{'0' * 64}")
    step = fork.report()
    assert (step.code, step.outcome) == (2, "error")


TOUCHES = """
from pathlib import Path
from agent_eval.judges.base import BaseJudge
Path({started!r}).touch()

class Hostile(BaseJudge):
    judge_id = "hostile"

    def evaluate(self, case, trace):
        Path({started!r}).touch()
        return self.passed(case, "yes")
"""


@pytest.mark.parametrize("judge", ["command", "hostile_judge:Hostile"])
def test_no_judge_of_the_evidence_is_run(fork: Fork, monkeypatch: pytest.MonkeyPatch, judge: str) -> None:
    """The pack is in order: its run had a program or a plug-in as a judge, and the baseline had none."""
    started = fork.root / "started"
    script = f'touch {started}; echo \'{{"passed": true, "reason": "as it is"}}\''
    configs = fork.root / "judges.json"
    command = {"command": {"command": ["sh", "-c", script]}}
    configs.write_text(json.dumps(command if judge == "command" else {}))
    for place in (fork.root, fork.runner.workspace):
        (place / "hostile_judge.py").write_text(TOUCHES.format(started=str(started)))
    monkeypatch.syspath_prepend(str(fork.root))
    judging = Judging(judges=("policy", judge), judge_config=configs)
    pack = pack_of(fork.root / "fork", *orders(bad=(2,)), judging=judging)
    started.unlink()
    fork.github.add_artifact(OWN_RUN, bundle(fork.root, {"shop": pack}))
    step = fork.report(fail_on="never")
    assert step.code == 0, step.log
    assert "order-2" in fork.comment
    assert not started.exists()


# Hostile texts


def worded(text: str) -> list[dict[str, Any]]:
    """Cases that got worse, in which the text is wherever a fork can write without asking something else."""
    cases = orders(bad=(1, 2))
    for case in cases[:2]:
        case["trace"][0]["tool"] = text[:100]
        case["trace"][1]["tool"] = text[:100]
        case["trace"][-1]["output"] = text
    named = order(5, escalates=True)
    named |= {"case_id": f"{text}-case", "tags": [text], "metadata": {"note": text}}
    return [*cases, named]


TEXTS = [place.format(deed=DEEDS[0]) for place in PLACES] + [
    text for text in NASTY if text.strip(" \n\r\t\x00\ud800")
]


def reported_on(fork: Fork, text: str, number: int) -> tuple[str, str]:
    """Report on evidence with a text in it: the comment, and the HTML report."""
    fork.github.comments.clear()
    fork.github.artifacts = {key: row for key, row in fork.github.artifacts.items() if row[0] != OWN_RUN}
    fork.left(*worded(text), place=str(number))
    step = fork.report(run_id=700 + number)
    assert step.outcome in ("failed", "error"), step.log
    page = fork.runner.workspace / step.outputs["html-report"] if step.outputs["html-report"] else None
    return fork.comment, page.read_text() if page is not None and page.is_file() else ""


@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=[] if at % 12 == 0 else OTHERS) for at, text in enumerate(TEXTS)]
)
@WHOLE_JOB
def test_a_text_of_the_fork_stays_text(fork: Fork, text: str) -> None:
    comment, html = reported_on(fork, text, 1)
    page = Page(comment)
    harmless_comment, harmless_html = reported_on(fork, "harmless", 2)
    harmless = Page(harmless_comment)
    assert page.balanced()
    assert page.tags_in_code == []
    assert set(page.tags) <= set(harmless.tags)
    assert all(link.startswith("https://github.com/acme/shop/") for link in page.links)
    assert len(page.comments) == 1
    assert page.comments[0].startswith(" agent-eval id=default ")
    hidden = re.sub(r"run \d+|`[^`]*`", "", page.text)
    assert ACTIVE.search(hidden) is None or ACTIVE.search(hidden)[0] in harmless.text  # type: ignore[index]
    assert html.count("<script") == harmless_html.count("<script")
    assert not re.search(r"<(img|iframe|svg|object|embed|base|form)[^>]*hostile", html)
    assert fork.github.bodies(OTHER_PULL) == []


# No baseline is poisoned


def test_no_forks_run_nor_report_is_a_baseline(fork: Fork) -> None:
    """The fork's branch is called main, and the workflow of the second job uploads the evidence once more."""
    fork.github.runs[OWN_RUN]["head_branch"] = "main"
    fork.github.pulls[PULL]["head"]["ref"] = "main"
    fork.left(*orders(bad=(1, 2, 3, 4)))
    poison = fork.github.artifacts[max(fork.github.artifacts)][2]
    fork.report()
    fork.github.add_artifact(600, poison)
    fork.github.runs[600]["status"] = "completed"
    fork.runner.write_suite(*orders(bad=(1, 2, 3, 4)))
    step = fork.runner.pull_request(run_id=800, head=sha("own"), baseline_workflow="nightly.yml", out="own")
    assert step.outputs["baseline-run-id"] == str(BASE_BRANCH_RUN)
    assert step.outcome == "failed"


def test_comment_of_another_with_our_marker_stays(fork: Fork) -> None:
    spoofed = f"<!-- agent-eval id=default sha={HEAD_SHA} run=999 attempt=1 -->\n\n## passed"
    fork.github.add_comment(PULL, spoofed, author="mallory")
    fork.left(*orders(bad=(2,)))
    fork.report()
    assert fork.github.bodies(PULL)[0] == spoofed
    assert "order-2" in fork.github.bodies(PULL)[1]
    assert fork.github.comments[max(fork.github.comments)][1]["user"]["login"] == BOT


# The template


def test_the_template_checks_out_nothing_and_gives_the_run_and_the_baselines_workflow() -> None:
    workflow = yaml.safe_load((REPOSITORY / "ci-templates" / "github-fork.yml").read_text())
    (job,) = workflow["jobs"].values()
    (step,) = job["steps"]
    action = yaml.safe_load((REPOSITORY / "action.yml").read_text())
    assert set(step["with"]) <= set(action["inputs"])
    assert step["with"]["report-run-id"] == "${{ github.event.workflow_run.id }}"
    assert step["with"]["set"] == "baseline.job=agent-eval.yml"
    assert workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read", "actions": "read", "pull-requests": "write"}
    assert "secrets." not in (REPOSITORY / "ci-templates" / "github-fork.yml").read_text()
    first = yaml.safe_load((REPOSITORY / "ci-templates" / "github.yml").read_text())
    assert workflow[True]["workflow_run"]["workflows"] == [first["name"]]
