"""Reporting on another run is refused where it would be something else."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from agent_eval.ci.job import run_job
from agent_eval.errors import ExitCode, UsageError
from tests.factories import make_case, make_suite


def test_a_platform_that_cannot_find_the_run_evaluates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("suite.json").write_text(json.dumps(make_suite(make_case("a"))))
    log = io.StringIO()
    code = run_job({"report-run-id": "5", "suite": "suite.json"}, {}, log, config_file=None)
    assert code is ExitCode.WRONG_REQUEST
    assert "`report-run-id` is not known on this platform" in log.getvalue()
    assert not Path("agent-eval-out").exists()


def test_without_it_a_suite_is_needed_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="No suite"):
        run_job({}, {}, io.StringIO(), config_file=None)
