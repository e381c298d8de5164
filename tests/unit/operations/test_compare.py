from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_eval.config.spec import Judging, Output, RunSpec
from agent_eval.contracts.policy import Preset
from agent_eval.errors import ExitCode, UsageError
from agent_eval.evidence.archive import write_bundle
from agent_eval.operations.compare import PackSources, compare_packs
from agent_eval.operations.gate import Rules, decide_on
from agent_eval.operations.run import run_suite
from tests.factories import make_case, make_suite

PRESETS: tuple[Preset, ...] = ("pull-request", "release")
ENVIRON = {"AGENT_EVAL_CLOCK": "2026-01-14T10:00:00+00:00"}


@pytest.fixture
def packs(tmp_path: Path) -> tuple[Path, Path]:
    """A run and one in which the only case fails."""
    made = []
    for name, output in (("before", "done"), ("after", "no")):
        suite = tmp_path / f"{name}.json"
        suite.write_text(json.dumps(make_suite(make_case("a", output=output, regex_patterns=["done"]))))
        made.append(tmp_path / name)
        run_suite(
            RunSpec(suite=suite, output=Output(pack=made[-1]), judging=Judging(judges=("regex",))),
            environ=ENVIRON,
        )
    return made[0], made[1]


def test_an_archive_is_compared_where_it_is_said_where_to_write(
    packs: tuple[Path, Path], tmp_path: Path
) -> None:
    before, after = packs
    archive = tmp_path / "after.zip"
    write_bundle({"after": after}, archive, {})
    with pytest.raises(UsageError, match="nothing can be written"):
        compare_packs(before, archive, environ=ENVIRON)
    out = tmp_path / "comparison.json"
    found = compare_packs(before, archive, out=out, environ=ENVIRON)
    assert found.path == out
    assert found.comparison.trials is None


def test_a_decision_that_waits_for_more_evidence_has_an_exit_code_of_its_own(
    packs: tuple[Path, Path], tmp_path: Path
) -> None:
    out = tmp_path / "comparison.json"
    compare_packs(packs[0], packs[0], out=out, environ=ENVIRON)
    codes = {
        preset: decide_on(
            out,
            Rules.stated({}, preset=preset),
            packs=PackSources(str(packs[0]), packs[0]),
            environ=ENVIRON,
        ).exit_code
        for preset in PRESETS
    }
    assert codes == {"pull-request": ExitCode.OK, "release": ExitCode.INCONCLUSIVE}
