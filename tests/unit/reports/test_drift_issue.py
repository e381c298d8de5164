"""The body of the issue about a loss, and the section of the summary; every text in them may be hostile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from agent_eval.contracts.history import HistoryRun
from agent_eval.gate.drift import Cause, Counted, DriftReport, FallenCase, drift_since
from agent_eval.reports.drift_issue import (
    MAX_CASES,
    MAX_SUITES,
    DriftWatch,
    SuiteDrift,
    drift_line,
    issue_title,
    render_issue,
    render_section,
)

MARKER = "<!-- agent-eval-drift id=default run=17 attempt=1 up=shop:0/0 -->"
HOSTILE = (
    "x`|\n\n# @acme/owners <script>alert(1)</script> <!-- --> ![](https://evil.example/p.png) #7 /close\n"
    "</details>"
)


def run(number: int, **fields: str) -> HistoryRun:
    facts = {
        "run_id": f"nightly-{number}",
        "git_commit": f"{number + 160:02x}" * 20,
        "started_at": f"2026-11-{number + 1:02}T02:00:00+00:00",
        **fields,
    }
    return HistoryRun(schema_version="1.2.0", dataset_id="shop", key="0f", cases=36, **facts)


def report(
    passed: tuple[int, ...], again: Counted | None = None, cause: Cause | None = None, **fields: str
) -> DriftReport:
    """Nights of 36 trials, held against a release that passed 338 of 360."""
    counts = [Counted(number, 36) for number in passed]
    release = Counted(338, 360)
    fallen = [
        FallenCase(fields.get("case_id", f"order-{number}"), Counted(10, 10), Counted(2, 4))
        for number in (1, 2)
    ]
    return DriftReport(
        drift_since(release, counts),
        [
            run(number, **{key: text for key, text in fields.items() if key != "case_id"})
            for number in range(len(counts))
        ],
        left_out=2,
        cases=36,
        released_agent_fell=None,
        release=release,
        again=again,
        cause=cause,
        fallen=fallen,
        newest_scored=36,
    )


WELL = (34, 35, 33, 34, 34, 33, 35, 34)
FALLEN = (*WELL, 28, 27, 29, 27)


def watch(*suites: SuiteDrift, **fields: object) -> DriftWatch:
    facts = {
        "title": "Agent evaluation",
        "release": "v1.4",
        "suites": suites,
        "run_url": "https://github.com/acme/shop/actions/runs/17",
        "head_sha": "9be1f04" + "0" * 33,
        **fields,
    }
    return DriftWatch(**facts)  # type: ignore[arg-type]  # the names of the fields


def up(**fields: object) -> SuiteDrift:
    return replace(SuiteDrift(slug="shop", report=report(FALLEN), is_up=True), **fields)  # type: ignore[arg-type]


SITUATIONS = {
    "fallen": watch(up()),
    "code-moved": watch(up(report=report(FALLEN, Counted(70, 72), "code")), runs_released_agent=True),
    "model-moved": watch(up(report=report(FALLEN, Counted(55, 72), "model")), runs_released_agent=True),
    "not-run": watch(
        up(note="The release could not be built: `setup-command` failed."), runs_released_agent=True
    ),
    "mended": watch(SuiteDrift(slug="shop", report=report((*FALLEN, *WELL))), was_up=True),
    "quiet": watch(SuiteDrift(slug="shop", report=report(WELL))),
    "suites": watch(
        SuiteDrift(slug="support", report=report(WELL)),
        up(),
        SuiteDrift(slug="returns", problem="The release has no evidence of this suite."),
    ),
    "few-trials": watch(up(report=replace(report(FALLEN), release=Counted(34, 36)))),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_situations_look_as_agreed(name, golden):
    golden(f"drift/{name}.md", render_issue(SITUATIONS[name], MARKER))


def test_the_summary_names_the_issue_and_says_nothing_of_how_it_is_kept():
    section = render_section(SITUATIONS["fallen"], "https://github.com/acme/shop/issues/9")
    assert "[The issue](https://github.com/acme/shop/issues/9)" in section
    assert "Closed by hand" not in section
    assert "[The issue]" not in render_section(SITUATIONS["fallen"], "javascript:alert(1)")


def test_the_line_of_the_log_says_both_rates():
    assert drift_line(SITUATIONS["fallen"]) == (
        "The base branch passes less often than the release v1.4: shop 93.9% then, 85.8% now."
    )
    assert drift_line(SITUATIONS["mended"]) == "Drift since the release v1.4: the loss is mended."
    assert drift_line(SITUATIONS["quiet"]) == "Drift since the release v1.4: no loss is shown."


def test_hostile_text_is_code_wherever_it_comes_from():
    hostile = report(FALLEN, case_id=HOSTILE, run_id=HOSTILE, git_commit=HOSTILE, started_at=HOSTILE)
    body = render_issue(
        watch(
            SuiteDrift(slug=HOSTILE, report=hostile, is_up=True, note=HOSTILE, problem=HOSTILE),
            up(),
            title=HOSTILE,
            release=HOSTILE,
            head_sha=HOSTILE,
            run_url=f"https://evil.example/{HOSTILE}",
        ),
        MARKER,
    )
    assert "evil.example/x`" not in body.replace("`", "")
    page = MarkdownIt("commonmark").enable("table").render(body.removeprefix(MARKER))
    for forbidden in ("<script", "<img", "<h1", "</details>", "<a href"):
        assert forbidden not in page
    # Whatever would mention, refer or command stands in code.
    outside = MarkdownIt("commonmark").enable("table").parse(body.removeprefix(MARKER))
    loose = [
        child.content
        for token in outside
        for child in token.children or []
        if child.type in ("text", "html_inline")
    ]
    assert not any("@acme" in text or "#7" in text or "<script" in text for text in loose)


def test_the_title_is_one_inert_line():
    title = issue_title(watch(up(), title=HOSTILE))
    assert "\n" not in title
    assert title.startswith("`")


def test_many_suites_and_cases_fit_into_an_issue():
    cases = [FallenCase("x" * 500 + str(number), Counted(9, 9), Counted(0, 9)) for number in range(500)]
    many = [
        up(slug="s" * 90 + str(number), report=replace(report(FALLEN, run_id="r" * 900), fallen=cases))
        for number in range(100)
    ]
    body = render_issue(watch(*many), MARKER)
    assert len(body) < 50_000
    assert f"And {100 - MAX_SUITES} more suites." in body
    assert f"And {500 - MAX_CASES} more cases that passed less often." in body


def test_a_suite_that_lost_comes_first():
    body = render_issue(SITUATIONS["suites"], MARKER)
    assert body.index("### `shop`") < body.index("### `support`")
