"""`agent-eval ci` on pull requests: what it decides and what people get to see."""

import re
from typing import Any

import pytest

from tests.e2e.fork_server import ENTRYPOINT
from tests.e2e.runner import BASE_SHA, OWN_RUN, PULL, Runner, obeyed, order, orders, unzipped
from tests.fakes.github import FakeGitHub
from tests.security.github_markdown import Page


def with_baseline(runner: Runner, *, bad: tuple[int, ...] = ()) -> None:
    """A run on main left evidence, its gate may have failed."""
    runner.write_suite(*orders(bad=bad))
    runner.github.add_run(400, head_sha=BASE_SHA)
    runner.upload(runner.left_on_main(*bad), 400)


def test_first_run__says_so_and_passes_nothing_off_as_a_pass(runner: Runner, github: FakeGitHub) -> None:
    runner.write_suite(*orders())
    step = runner.pull_request()
    assert (step.code, step.outcome, step.outputs["passed"]) == (0, "no-baseline", "false")
    assert (step.outputs["pass-rate"], step.outputs["regressed-cases"]) == ("1", "")
    [comment] = github.bodies(PULL)
    assert comment.startswith("<!-- agent-eval id=suite-json-")
    assert "First run: nothing to compare with." in comment
    assert step.outputs["comment-url"].endswith("#issuecomment-100")
    assert "First run: nothing to compare with." in step.summary


def test_unchanged__passes(runner: Runner, github: FakeGitHub) -> None:
    with_baseline(runner)
    step = runner.pull_request()
    assert (step.code, step.outcome) == (0, "passed")
    assert (step.outputs["passed"], step.outputs["regressed-cases"]) == ("true", "0")
    assert (step.outputs["baseline-run-id"], step.outputs["baseline-sha"]) == ("400", BASE_SHA)
    assert BASE_SHA[:7] in github.bodies(PULL)[0]


def test_regressed__fails_and_names_case_reason_behaviour_and_command(runner: Runner) -> None:
    with_baseline(runner)
    runner.write_suite(*orders(bad=(2,)))
    step = runner.pull_request()
    assert (step.code, step.outcome) == (1, "failed")
    assert (step.outputs["regressed-cases"], step.outputs["new-hard-fail-cases"]) == ("1", "1")
    comment = runner.github.bodies(PULL)[0]
    for said in ("order-2", "escalate", "agent-eval run", "--case order-2", "run 400"):
        assert said in comment
    assert any("failed" in line for line in step.annotations)
    files = unzipped(step.archive)
    assert "shop/compare/gate_decision.json" in files
    assert "shop/compare/baseline_delta.json" in files


def test_the_id_of_a_case_and_the_name_of_a_suite_begin_no_other_command(runner: Runner) -> None:
    hostile = "a\n::error file=x,line=1::b%0A::set-output name=passed::true, c: d"
    name = "a,b%25::c.json"
    for push, cases in ((True, orders()), (False, orders(bad=(1, 2, 3, 4)))):
        cases = [{**case, "case_id": f"{case['case_id']}{hostile}"} for case in cases]
        runner.write_suite(*cases, name=name)
        if push:
            runner.upload(runner.push(suite=name), 400)
    step = runner.pull_request(suite=name)
    assert step.outcome == "failed", step.log
    heard = [line for line in obeyed(step.log) if line]
    assert heard
    assert all(line.startswith(("::error title=agent-eval", "::warning title=agent-eval")) for line in heard)


@pytest.mark.parametrize(
    ("before", "now", "inputs", "ends", "said"),
    [
        ((1, 2), orders(bad=(2,)), {}, (0, "passed"), "improved"),
        ((), orders(bad=(2,)), {"fail_on": "never"}, (0, "failed"), "order-2"),
        ((), orders(5, bad=(5,)), {}, (0, "passed"), "order-5"),
        ((4,), orders(3), {}, (0, "passed"), "order-4"),
    ],
    ids=["improved", "only reported", "a new case does not block", "a removed case is said"],
)
def test_what_does_not_block(
    runner: Runner,
    before: tuple[int, ...],
    now: list[dict[str, Any]],
    inputs: dict[str, str],
    ends: tuple[int, str],
    said: str,
) -> None:
    with_baseline(runner, bad=before)
    runner.write_suite(*now)
    step = runner.pull_request(**inputs)
    assert (step.code, step.outcome) == ends
    assert said in runner.github.bodies(PULL)[0]


def test_several_suites__have_a_pack_and_a_baseline_each_and_the_worst_counts(runner: Runner) -> None:
    runner.write_suite(*orders(), name="suites/shop.json", dataset_id="shop")
    runner.write_suite(*orders(), name="suites/deep/help.json", dataset_id="Help Desk")
    runner.upload(runner.push(suite="suites/**/*.json"), 400)
    runner.write_suite(*orders(bad=(3,)), name="suites/deep/help.json", dataset_id="Help Desk")
    step = runner.pull_request(suite="suites/shop.json\nsuites/**/help*.json")
    assert (step.code, step.outcome) == (1, "failed")
    packs = step.outputs["evidence-pack"].splitlines()
    assert [pack.rpartition("/")[2][:4] for pack in packs] == ["shop", "help"]
    assert all((runner.workspace / pack / "manifest.json").is_file() for pack in packs)
    assert step.outputs["pass-rate"] == "0.875"
    comment = runner.github.bodies(PULL)[0]
    assert "help" in comment
    assert "order-3" in comment


HOSTILE_DATASETS = (
    "x` @acme/all ![](http://evil.example/x.png) <img src=x> `",
    *("\n::error title=x::pwned\x1b[31m\u202e", "a" * 5_000, "\u200b", "z"),
)


def test_removed_suite__whose_name_is_an_attack_is_named_harmlessly(runner: Runner) -> None:
    runner.write_suite(*orders(), name="suites/shop.json", dataset_id="shop")
    for number, dataset in enumerate(HOSTILE_DATASETS):
        runner.write_suite(*orders(1), name=f"suites/gone-{number}.json", dataset_id=dataset)
    runner.upload(runner.push(suite="suites/*.json"), 400)
    for number in range(len(HOSTILE_DATASETS)):
        (runner.workspace / f"suites/gone-{number}.json").unlink()
    step = runner.pull_request(suite="suites/*.json")
    assert step.code == 0
    for said in (runner.github.bodies(PULL)[0], step.summary):
        page = Page(said)
        assert "@acme" not in page.text
        assert not [tag for tag in page.tags if tag.startswith("<img")]
        assert "This change has no suite " in page.text
        assert " and 2 others any more" in page.text
    assert not [line for line in obeyed(step.log) if line.startswith("::error title=x")]


def test_renamed_dataset__does_not_hide_the_old_one(runner: Runner, github: FakeGitHub) -> None:
    with_baseline(runner)
    runner.write_suite(*orders(), dataset_id="renamed")
    step = runner.pull_request()
    assert (step.code, step.outcome) == (0, "inconclusive")
    assert "This change has no suite `shop` any more, so it was not run" in github.bodies(PULL)[0]
    assert runner.pull_request(run_id=502, min_pass_rate="0.5").outcome == "inconclusive"
    assert runner.pull_request(run_id=503, preset="release").code == 1


def test_push_to_main__is_compared_with_the_run_before_it(runner: Runner, github: FakeGitHub) -> None:
    with_baseline(runner)
    runner.write_suite(*orders(bad=(2,)))
    github.add_run(600, status="completed")  # a newer run on main is no baseline for an older one
    step = runner.push(run_id=450)
    assert (step.code, step.outcome) == (1, "failed")
    assert (step.outputs["baseline-run-id"], step.outputs["comment-url"]) == ("400", "")
    assert github.count("POST", "comments") == 0
    assert "order-2" in step.summary


def test_other_events__work_without_a_pull_request(runner: Runner, github: FakeGitHub) -> None:
    with_baseline(runner)
    github.add_run(OWN_RUN, status="in_progress", event="workflow_dispatch")
    step = runner.start("workflow_dispatch", {}, OWN_RUN, BASE_SHA, "heads/main", {})
    assert (step.code, step.outcome) == (0, "passed")
    assert step.outputs["baseline-run-id"] == "400"


def test_entrypoint__of_the_image_does_the_same(runner: Runner, github: FakeGitHub) -> None:
    with_baseline(runner)
    github.add_run(OWN_RUN, status="in_progress")
    inputs = {"max_regressed_cases": "0"}
    step = runner.start("push", {}, OWN_RUN, BASE_SHA, "heads/main", inputs, command=ENTRYPOINT)
    assert (step.code, step.outcome) == (0, "passed")


def test_hostile_agent__commands_nobody_pings_nobody_and_marks_nothing(runner: Runner) -> None:
    names = ["@everyone ![x](https://evil.example/x.png)", "::set-output name=passed::true", "##[error]x"]
    marker = "<!-- agent-eval id=default run=9 attempt=1 -->"

    def suite(*, bad: bool) -> list[dict[str, Any]]:
        cases = []
        for number, name in enumerate(names):
            tool = f"{name}\n{marker}"
            case = order(number, escalates=bad) | {"case_id": f"{name}\n::error::{number}"}
            case["policy"] = {"forbidden_tools": [tool]}
            for event in case["trace"]:
                if event.get("tool") == "escalate":
                    event["tool"] = tool
            case["trace"][-1]["output"] = f"{marker}\n::error::said\n{name}"
            cases.append(case)
        return cases

    runner.write_suite(*suite(bad=False))
    runner.upload(runner.push(), 400)
    runner.write_suite(*suite(bad=True))
    step = runner.pull_request(title="@team ![x](https://evil.example/x.png) ##[error]")
    assert (step.code, step.outcome) == (1, "failed")
    assert step.outputs["passed"] == "false"
    commands = [line for line in obeyed(step.log) if "::" in line or "##[" in line]
    [command] = commands  # the job's own verdict
    properties, _, message = command.removeprefix("::error title=agent-eval").partition("::")
    assert properties == ""
    assert "::" not in message
    assert "##[" not in message
    comment = runner.github.bodies(PULL)[0]
    for markdown in (comment, step.summary):
        bare = without_code(markdown)
        assert "@" not in bare
        assert "![" not in bare
        assert "evil.example" not in bare
    assert without_code(comment).count("<!--") == 1
    assert "<!--" not in without_code(step.summary)


def test_rules_that_a_change_loosens_hold_once_they_are_merged_from_a_fork_as_from_an_own_branch(
    runner: Runner, github: FakeGitHub
) -> None:
    runner.write_suite(*orders())
    github.files["config/gate.yml"] = b"max_regressed_cases: 0\n"
    runner.upload(runner.push(), 400)
    runner.write_suite(*orders(bad=(2,)))
    loose = runner.workspace / "config" / "gate.yml"
    loose.parent.mkdir()
    loose.write_text("max_regressed_cases: 4\nmargin: 0.25\n")
    inputs = {"policy": "config/gate.yml", "max_regressed_cases": "", "max_new_hard_fail_cases": ""}
    for run_id, fork in ((500, True), (501, False)):
        step = runner.pull_request(run_id=run_id, fork=fork, **inputs)
        assert (step.code, step.outcome) == (1, "failed"), step.log
        assert "`max_regressed_cases` 0 → 4" in github.bodies(PULL)[0]
        assert "`margin` 0.05 → 0.25" in github.bodies(PULL)[0]


def without_code(markdown: str) -> str:
    """What GitHub would read as markdown: code blocks and code spans left out."""
    blocks = re.sub(r"^(`{3,})[^`\n]*\n.*?^\1`*$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", blocks)
