"""The job on each platform: main's first run, a change that breaks nothing, one that breaks all cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.blackbox.installed import Program
from tests.blackbox.jobs import CASES, PLATFORMS, Job, job_on


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_job_decides_on_a_change(name: str, program: Program, tmp_path: Path) -> None:
    with job_on(name, tmp_path, program) as job:
        first = job.push()
        assert (first.code, job.outcome()) == (0, "no-baseline"), first
        assert job.file("evidence.zip").is_file()
        unchanged = job.change(500, escalates=False)
        assert (unchanged.code, job.outcome()) == (0, "passed"), unchanged
        broken = job.change(501, escalates=True)
        assert (broken.code, job.outcome()) == (1, "failed"), broken
        assert_names_what_broke(job)


def assert_names_what_broke(job: Job) -> None:
    """The report names each case, and so does the one comment, where the platform has a place for it."""
    comments = job.comments()
    assert comments is None or len(comments) == 1
    for text in (job.file("report.md").read_text(), *(comments or ())):
        assert all(case in text for case in CASES), text
