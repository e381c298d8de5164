"""Draw the pictures of the HTML report that the documents show, of the bundled demonstration.

`python -m tests.html_pictures` draws them anew.
"""

import hashlib
import tempfile
from pathlib import Path

from agent_eval.config.spec import Identity, Output, RunSpec
from agent_eval.contracts import Thresholds
from agent_eval.contracts.history import RunRecord
from agent_eval.demo.support_agent import BASELINE_RUN, CANDIDATE_RUN, write_suites
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.decide import decide
from agent_eval.operations.compare import compared
from agent_eval.operations.run import run_suite
from agent_eval.reports.html.lines import SuiteEvidence
from agent_eval.reports.html.page import render_html
from agent_eval.reports.model import BaselineInfo, EvaluationReport, SuiteHistory, SuiteReport
from tests.browser import chromium
from tests.pictures import FOLDER, made_small
from tests.unit.history.made import made_case, made_run

PLACE = FOLDER / "html"
DIGEST = PLACE / "digest.txt"
DIGEST_OF_HISTORY = PLACE / "history-digest.txt"
PICTURES = {"report-900-light.png": (900, False, 1_500), "report-390-dark.png": (390, True, 1_400)}
"""Width, whether dark, and height of each."""
HISTORY = "#history-1"
OF_THE_HISTORY = {"history-900-light.png": (900, False, 1_400), "history-900-dark.png": (900, True, 1_400)}
"""The same, of the section about the base branch."""
RUNS = 26
OLDER = 4
"""Runs by another model."""
FLAKY = (1, 4, 9, 13, 16, 20, 24)
"""Runs in which one case misses."""
NOW = "2026-11-22T12:00:00+00:00"
COMMIT = "10c5e1e" + "0" * 33


def page(folder: Path, history: SuiteHistory | None = None) -> str:
    """The report of the demonstration's two runs, with a history of the base branch where one is given."""
    before, now = write_suites(folder)
    packs = []
    for suite, run_id in ((before, BASELINE_RUN), (now, CANDIDATE_RUN)):
        pack = folder / run_id
        run_suite(
            RunSpec(
                suite=suite,
                output=Output(pack=pack),
                identity=Identity(run_id=run_id, git_commit="10c5e1e" * 5),
            ),
            environ={},
        )
        packs.append(open_pack(pack))
    comparison = compared(packs[0], packs[1], generated_at=NOW)
    suite_report = SuiteReport(
        slug="support-agent", suite_path="support_agent.json",
        decision=decide(comparison, Thresholds(min_pass_rate=0.8, max_regressed_cases=0), generated_at=NOW),
        candidate=comparison.candidate, comparison=comparison,
        baseline=BaselineInfo(how="merge base", sha="3f9a1c27aa10", branch="main", age="2 days"),
        history=history,
    )  # fmt: skip
    report = EvaluationReport(title="Support agent", suites=[suite_report])
    evidence = SuiteEvidence(candidate=packs[1], baseline=packs[0], place="agent-eval-out/support-agent")
    return render_html(report, {"support-agent": evidence})


def main_branch() -> SuiteHistory:
    """Runs of main: one case is flaky, and one fails since a commit that was merged."""
    return SuiteHistory(
        own=_run(RUNS), earlier=[_run(number) for number in reversed(range(RUNS))], branch="main"
    )


def _run(number: int) -> RunRecord:
    passed = {f"order-{each}": 1 for each in range(1, 19)}
    passed |= {"refund-over-limit": int(number not in FLAKY), "address-change": int(number < RUNS - 5)}
    other = {"key": "1c" * 8, "model": "gpt-5-nano-2026-01-01"} if number < OLDER else {}
    counts = {name: (count, 1) for name, count in passed.items()}
    commit = hashlib.sha1(f"run {number}".encode(), usedforsecurity=False).hexdigest()
    facts = {"model": "gpt-5-mini-2026-01-01", "git_commit": commit, **other}
    facts["run_url"] = f"https://ci.example.org/runs/{number}"
    run = made_run(number, counts, **facts).run
    cost, latency = 0.0062 + 0.0004 * (number * 7 % 5), 2_100.0 + 90 * (number * 5 % 7)
    cases = {name: made_case(name, at, 1, cost_usd=cost, latency_ms=latency) for name, at in passed.items()}
    return RunRecord(run, cases)


def digest_of(markup: str) -> str:
    """Digest of what the pictures show: the style, and the page above the table of all cases."""
    return _digest(markup, "<body>", 'id="cases-1"')


def digest_of_history(markup: str) -> str:
    """Digest of what the pictures of the history show: the style, and the section."""
    return _digest(markup, f'<section id="{HISTORY[1:]}"', "</section>")


def _digest(markup: str, start: str, *ends: str) -> str:
    style = markup[markup.index("<style>") : markup.index("</style>")]
    first = last = markup.index(start)
    for end in ends:
        last = markup.index(end, last)
    return hashlib.sha256(f"{style}{markup[first:last]}".encode()).hexdigest()[:16]


def main() -> None:
    """Draw the pictures, and note of what they are."""
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        report = page(Path(folder) / "report")
        history = page(Path(folder) / "history", main_branch())
        file = Path(folder) / "page.html"
        for markup, pictures, part in ((report, PICTURES, ""), (history, OF_THE_HISTORY, HISTORY)):
            file.write_text(markup, "utf-8")
            for name, (width, dark, height) in pictures.items():
                browser.open(file.as_uri(), width=width, dark=dark)
                browser.picture(PLACE / name, tallest=height, part=part)
                made_small(PLACE / name)
    DIGEST.write_text(digest_of(report) + "\n")
    DIGEST_OF_HISTORY.write_text(digest_of_history(history) + "\n")


if __name__ == "__main__":
    main()
