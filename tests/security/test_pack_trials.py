"""A pack whose cases have several trials is refused where anything in it does not follow from them."""

import json
from pathlib import Path

import pytest

from agent_eval.config.spec import Output, RunSpec
from agent_eval.contracts import RunConfig, Tally, trials_result
from agent_eval.contracts.trials import ALL
from agent_eval.errors import InvalidPack
from agent_eval.evidence.archive import compact, expand
from agent_eval.evidence.reader import open_pack
from agent_eval.operations.run import run_suite
from tests.factories import (
    DEFAULT_JUDGES,
    make_case,
    make_config,
    make_pack,
    make_result,
    make_suite,
    make_trace,
    seal,
)
from tests.security.packs import GONE, LAYOUTS, Change, apply

CASE = make_case("a", "one") | {"trials": [{"trace": make_trace("two"), "metadata": {}}]}
CONFIG: RunConfig = make_config()


def pack(root: Path, layout: str) -> Path:
    """A case whose second trial failed."""
    result = trials_result([make_result("a"), make_result("a", failed="policy")], ALL)
    return make_pack(root, [result], cases=[CASE], layout=layout, config=CONFIG)


def tamper(root: Path, layout: str, change: Change, place: str = "") -> None:
    """Change a file, its case's verdicts unless another is named, and seal the pack again."""
    path = root / (place or ("cases/a/verdicts.json" if layout == "files" else "cases/verdicts-00000.jsonl"))
    value = json.loads(path.read_bytes())
    apply(value, change)
    path.write_text(json.dumps(value) + "\n")
    seal(root, CONFIG, layout=layout, case_ids=["a"])


@LAYOUTS
def test_trials_are_read_and_the_deciding_one_is_shown(tmp_path: Path, layout: str) -> None:
    if layout == "files":
        found = open_pack(make(tmp_path))
    else:
        compact(open_pack(make(tmp_path)), tmp_path / "compact")
        found = open_pack(tmp_path / "compact")
    [result] = found.results()
    assert (result["outcome"], result["trial"], len(result["trials"])) == ("failed", 1, 2)
    assert found.summary.flaky_cases == 1
    assert [event.tool for event in found.trajectory("a").trace if event.type == "tool_call"] == ["two"]


def make(tmp_path: Path) -> Path:
    """The same, written by the program."""
    case = CASE | {"policy": {"forbidden_tools": ["two"]}}
    (tmp_path / "suite.json").write_text(json.dumps(make_suite(case)))
    spec = RunSpec(suite=tmp_path / "suite.json", output=Output(pack=tmp_path / "pack"))
    run_suite(spec, environ={})
    return tmp_path / "pack"


def test_layouts_convert_byte_for_byte(tmp_path: Path) -> None:
    source = make(tmp_path)
    compact(open_pack(source), tmp_path / "compact")
    expand(open_pack(tmp_path / "compact"), tmp_path / "again")
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        assert (tmp_path / "again" / path.relative_to(source)).read_bytes() == path.read_bytes()
    events = [json.loads(line) for line in (source / "run/events.jsonl").read_bytes().splitlines()]
    assert {event.get("trial") for event in events} == {None, 1}
    [row] = [json.loads(line) for line in (source / "run/index.jsonl").read_bytes().splitlines()]
    assert [call[0] for call in row["calls"]] == ["two"]


@LAYOUTS
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"case_policy": "any"}, "does not decide it"),
        ({"case_policy": None}, "no case_policy"),
        ({"case_policy": "most"}, "no case policy 'most'"),
        (lambda row: row.update(row["trials"][0], trial=0), "does not decide it"),
        ({"verdicts.1.reason": "all is well"}, "does not say what trial 1 says"),
        ({"trials.0.outcome": "failed"}, "trial 0"),
        ({"trials.0": 7}, r"trials\.0: Input should be a valid dictionary"),
        (
            {"trials.0.verdicts.0.passed": "yes"},
            r"trials\.0\.verdicts\.0\.passed: Input should be a valid boolean",
        ),
        ({"trials": {"0": {}}}, "list"),
        ({"trials.0": GONE, "trial": 0}, "single trial"),
        ({"trials": []}, "names a trial but has none"),
    ],
)
def test_what_trials_do_not_say_is_refused(tmp_path: Path, layout: str, change: Change, said: str) -> None:
    root = pack(tmp_path / "pack", layout)
    open_pack(root)
    tamper(root, layout, change)
    with pytest.raises(InvalidPack, match=said):
        open_pack(root)


@pytest.mark.parametrize(
    ("place", "change", "said"),
    [
        ("run/summary.json", {"flaky_cases": 0}, "flaky_cases"),
        ("cases/a/trajectory.json", {"trials": []}, "1 trajectories and the verdicts of 2 trials"),
    ],
    ids=["a summary that hides flakes", "a trajectory without the deciding trial"],
)
def test_what_contradicts_trials_is_refused(tmp_path: Path, place: str, change: Change, said: str) -> None:
    root = pack(tmp_path / "pack", "files")
    tamper(root, "files", change, place)
    with pytest.raises(InvalidPack, match=said):
        open_pack(root)


@LAYOUTS
def test_older_pack_that_counted_skipped_trials_stays_readable(tmp_path: Path, layout: str) -> None:
    trials = [make_result("a"), make_result("a", skipped=DEFAULT_JUDGES)]
    result = trials_result(trials, ALL)
    root = make_pack(tmp_path / "pack", [result], cases=[CASE], layout=layout, config=CONFIG)
    assert open_pack(root).summary.passed_cases == 1
    skipped = trials_result([trials[1], trials[0]], ALL).trials[0]
    older = result.model_copy(update={**skipped.__dict__, "trial": 1})
    root = make_pack(tmp_path / "older", [older], cases=[CASE], layout=layout, config=CONFIG)
    tally = Tally()
    tally.add_row(older.to_json())  # type: ignore[arg-type]
    for counted, flaky in ((False, None), (True, 1)):
        summary = tally.summary("run-1", "shop", count_skipped=counted)
        (root / "run/summary.json").write_text(json.dumps(summary.to_json()))
        seal(root, CONFIG, layout=layout, case_ids=["a"])
        assert (open_pack(root).summary.flaky_cases, summary.flaky_cases) == (flaky, flaky)
