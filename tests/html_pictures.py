"""Draw the pictures of the HTML report that the documents show, of the bundled demonstration.

`python -m tests.html_pictures` draws them anew.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from agent_eval.config.spec import Identity, Output, RunSpec
from agent_eval.contracts import Thresholds
from agent_eval.demo.support_agent import BASELINE_RUN, CANDIDATE_RUN, write_suites
from agent_eval.evidence.reader import open_pack
from agent_eval.gate.decide import decide
from agent_eval.operations.compare import compared
from agent_eval.operations.run import run_suite
from agent_eval.reports.html.evidence import SuiteEvidence
from agent_eval.reports.html.page import HtmlReport, render_html
from agent_eval.reports.model import BaselineInfo, EvaluationReport, SuiteReport
from tests.browser import chromium
from tests.pictures import FOLDER, made_small

PLACE = FOLDER / "html"
DIGEST = PLACE / "digest.txt"
PICTURES = {"report-900-light.png": (900, False, 1_500), "report-390-dark.png": (390, True, 1_400)}
"""Width, whether dark, and height of each."""
NOW = "2026-11-22T12:00:00+00:00"


def page(folder: Path) -> str:
    """The report of the demonstration's two runs."""
    before, now = write_suites(folder)
    packs = []
    for suite, run_id in ((before, BASELINE_RUN), (now, CANDIDATE_RUN)):
        pack = folder / run_id
        run_suite(
            RunSpec(suite=suite, output=Output(pack=pack), identity=Identity(run_id=run_id)), environ={}
        )
        packs.append(open_pack(pack))
    comparison = compared(packs[0], packs[1], changed="exclude", generated_at=NOW)
    suite_report = SuiteReport(
        slug="support-agent",
        suite_path="support_agent.json",
        decision=decide(comparison, Thresholds(min_pass_rate=0.8, max_regressed_cases=0), generated_at=NOW),
        candidate=comparison.candidate,
        comparison=comparison,
        baseline=BaselineInfo(how="merge base", sha="3f9a1c27aa10", branch="main", age="2 days"),
    )
    report = EvaluationReport(title="Support agent", suites=[suite_report])
    evidence = SuiteEvidence(candidate=packs[1], baseline=packs[0], place="agent-eval-out/support-agent")
    return render_html(HtmlReport(report=report, evidence={"support-agent": evidence}))


def digest_of(markup: str) -> str:
    """Digest of what the pictures show: the style, and the page above the table of all cases."""
    style = markup[markup.index("<style>") : markup.index("</style>")]
    top = markup[markup.index("<body>") : markup.index('id="cases-1"')]
    return hashlib.sha256(f"{style}{top}".encode()).hexdigest()[:16]


def main() -> None:
    """Draw the pictures, and note of what they are."""
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        markup = page(Path(folder))
        file = Path(folder) / "page.html"
        file.write_text(markup, "utf-8")
        for name, (width, dark, height) in PICTURES.items():
            browser.open(file.as_uri(), width=width, dark=dark)
            browser.picture(PLACE / name, tallest=height)
            made_small(PLACE / name)
    DIGEST.write_text(digest_of(markup) + "\n")


if __name__ == "__main__":
    main()
