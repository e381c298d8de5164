"""Cases that got worse are pointed out in the suite's file: ten annotations at most, and escaped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.runner import BASE_BRANCH_RUN, Runner, Step, obeyed, orders
from tests.factories import make_suite


def pointed_out(step: Step) -> list[str]:
    """The commands that the runner would obey and that name a file."""
    return [line for line in obeyed(step.log) if ",file=" in line]


def written(runner: Runner, name: str, cases: list[dict[str, Any]]) -> Path:
    """A suite in the format of its name."""
    suite = make_suite(*cases)
    header = {key: value for key, value in suite.items() if key != "cases"}
    lines = "\n".join(map(json.dumps, [header, *cases]))
    texts = {
        ".json": json.dumps(suite, indent=2),
        ".jsonl": f"{lines}\n",
        ".yml": yaml.safe_dump(suite, sort_keys=False),
    }
    path = runner.workspace / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(texts[path.suffix])
    return path


@pytest.mark.parametrize("name", ["suites/a.json", "suites/a.yml"])
def test_a_case_that_got_worse_is_pointed_out_at_its_line(runner: Runner, name: str) -> None:
    written(runner, name, orders())
    runner.upload(runner.push(suite=name), BASE_BRANCH_RUN)
    path = written(runner, name, orders(bad=(2, 3)))
    step = runner.pull_request(suite=name)
    assert step.outcome == "failed"
    found = pointed_out(step)
    assert len(found) == 2
    for number, line in zip((2, 3), found, strict=True):
        at = int(line.split("line=")[1].split("::")[0])
        assert f"order-{number}" in path.read_text().splitlines()[at - 1]
        assert line.startswith(
            f"::error title=agent-eval,file={name},line={at}::`order-{number}` passed 1 of 1"
        )


def test_no_more_are_pointed_out_than_a_platform_shows(runner: Runner) -> None:
    runner.write_suite(*orders(30))
    runner.upload(runner.push(), BASE_BRANCH_RUN)
    runner.write_suite(*orders(30, bad=tuple(range(1, 31))))
    step = runner.pull_request()
    errors = [line for line in obeyed(step.log) if line.startswith("::error")]
    assert len(errors) == 10
    assert len(pointed_out(step)) == 9


def test_an_unchanged_suite_has_none_and_a_first_run_that_fails_has_them(runner: Runner) -> None:
    runner.write_suite(*orders(bad=(1,)))
    failing = runner.push(min_pass_rate="1")
    assert failing.outcome == "failed"
    assert [line.partition("::order-")[2][:9] for line in pointed_out(failing)] == ["1 fails. "]
    runner.upload(failing, BASE_BRANCH_RUN)
    assert pointed_out(runner.pull_request()) == []


def test_a_text_or_a_name_begins_no_other_command(runner: Runner) -> None:
    hostile = "a\n::error file=x,line=1::b%0A::set-output name=passed::true, c: d"
    name = "suites/a,b%25::c.json"
    good, bad = orders(), orders(bad=(1, 2, 3, 4))
    for case in (*good, *bad):
        case["case_id"] = f"{case['case_id']}{hostile}"
    written(runner, name, good)
    runner.upload(runner.push(suite=name), BASE_BRANCH_RUN)
    written(runner, name, bad)
    step = runner.pull_request(suite=name)
    assert step.outcome == "failed", step.log
    heard = [line for line in obeyed(step.log) if line]
    assert all(line.startswith(("::error title=agent-eval", "::warning title=agent-eval")) for line in heard)
    (first, *_) = pointed_out(step)
    assert ",file=suites/a%2Cb%2525%3A%3Ac.json,line=" in first
    assert first.count("::") >= 2
    assert "\n" not in first


def test_a_suite_outside_of_the_checkout_is_not_pointed_at(runner: Runner, tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps(make_suite(*orders(bad=(1,)))))
    step = runner.push(
        suite=str(outside), min_pass_rate="1", environ={"GITHUB_WORKSPACE": str(runner.workspace)}
    )
    assert step.outcome == "failed"
    assert pointed_out(step) == []
