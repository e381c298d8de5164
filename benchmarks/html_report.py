"""What the HTML report costs: writing it, its size, and opening it in Chromium; results/html_report.json.

`.venv/bin/python -m benchmarks.html_report` measures 1, 500 and 10,000 cases with 20 events each.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.generate import write_suite
from tests.browser import Browser, chromium

RESULTS = Path(__file__).parent / "results" / "html_report.json"
PROGRAM = [sys.executable, "-m", "agent_eval"]
SIZES = (1, 500, 10_000)
REPEAT = 5

OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
UNPACKED = """
(async () => {
  const link = document.querySelector("tr[data-block] a");
  const begun = performance.now();
  link.click();
  while (!document.querySelector(".opened .case")) await new Promise((go) => setTimeout(go, 1));
  return performance.now() - begun;
})()
"""
FOUND = """
(() => {
  const select = document.querySelector(".filter select");
  const begun = performance.now();
  select.value = "";
  select.dispatchEvent(new Event("change"));
  document.body.getBoundingClientRect();
  return performance.now() - begun;
})()
"""


def measured(cases: int, folder: Path) -> dict[str, Any]:
    """Write the report of two runs of so many cases, and open it several times."""
    packs = [folder / name for name in ("before", "now")]
    for variant, pack in enumerate(packs):
        suite = folder / f"{pack.name}.jsonl"
        write_suite(suite, cases, variant=variant)
        run("run", "--suite", str(suite), "--out", str(pack))
    comparison = packs[1] / "compare" / "baseline_delta.json"
    run("compare", "--baseline", str(packs[0]), "--candidate", str(packs[1]))
    page = folder / "report.html"
    begun = time.perf_counter()
    used = run("report", "html", "--compare", str(comparison), "--out", str(page))
    written = time.perf_counter() - begun
    with chromium() as browser:
        opened = [_opened(browser, page) for _ in range(REPEAT)]
    return {
        "cases": cases,
        "seconds_to_write": round(written, 2),
        "processor_seconds_to_write": round(used.ru_utime + used.ru_stime, 2),
        "megabytes_of_memory": round(used.ru_maxrss / 1024),
        "bytes": page.stat().st_size,
        "milliseconds_to_open": [round(each[0]) for each in opened],
        "milliseconds_to_unpack_a_case": [round(each[1]) for each in opened],
        "milliseconds_to_list_all_cases": [round(each[2]) for each in opened],
    }


def _opened(browser: Browser, page: Path) -> tuple[float, float, float]:
    browser.open(page.as_uri(), width=1600)
    has_packed = browser.value("document.querySelector('tr[data-block] a') !== null")
    unpacked = browser.value(UNPACKED) if has_packed else 0.0
    return browser.value(OPENED), unpacked, browser.value(FOUND)


def run(*arguments: str) -> resource.struct_rusage:
    """Run a command of agent-eval; return what it used."""
    process = subprocess.Popen([*PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, arguments
    return used


def main() -> None:
    """Measure all sizes and write the results."""
    rows = []
    for cases in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measured(cases, Path(folder)))
        last = rows[-1]
        print(cases, last["seconds_to_write"], last["bytes"], median(last["milliseconds_to_open"]), last)
    about = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    RESULTS.write_text(json.dumps({**about, "sizes": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
