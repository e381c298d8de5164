"""The job on each platform: main's first run, a change that breaks nothing, one that breaks all cases."""

from pathlib import Path

import pytest

from tests.blackbox.installed import Program
from tests.blackbox.jobs import CASES, PLATFORMS, WITHOUT_COMMENTS, job_on


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_job_decides_on_a_change(name: str, program: Program, tmp_path: Path) -> None:
    with job_on(name, tmp_path, program) as job:
        code, text = job.push()
        assert (code, job.outcome()) == (0, "no-baseline"), text
        assert job.file("evidence.zip").is_file()
        code, text = job.change(500, escalates=False)
        assert (code, job.outcome()) == (0, "passed"), text
        code, text = job.change(501, escalates=True)
        assert (code, job.outcome()) == (1, "failed"), text
        comments = job.comments()
        assert len(comments) == (name not in WITHOUT_COMMENTS)
        for said in (job.file("report.md").read_text(), *comments):
            assert all(case in said for case in CASES), said
