"""The same inputs give the same bytes, whatever the hash seeds and orders of keys."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.program import agent_eval, tree
from tests.extent import WHOLE_JOB
from tests.factories import make_case, make_suite

CASES = 260


def cases(worse: int) -> list[dict[str, Any]]:
    """Cases in more than one shard, of which every seventh got worse."""
    return [
        make_case(
            f"case-{number}", *(("search", "lookup") if worse and number % worse == 0 else ("lookup",)),
            policy={"required_tools": ["lookup"], "forbidden_tools": ["search"]}, regex_patterns=["done"],
            metadata={"topic": "refund", "usage": {"output_tokens": 5, "input_tokens": 9}},
        )
        for number in range(CASES)
    ]  # fmt: skip


def shuffled(value: Any, order: random.Random) -> Any:
    """The same JSON with keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        order.shuffle(keys)
        return {key: shuffled(value[key], order) for key in keys}
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


def everything(place: Path, *, seed: int | None, layout: str, order: int = 0) -> dict[str, str]:
    """Run every command, and give the digest of all that is written and printed."""
    place.mkdir()
    for name, worse in (("a", 0), ("b", 7)):
        suite = make_suite(*cases(worse))
        if order:
            suite = shuffled(suite, random.Random(order))
        (place / f"{name}.json").write_text(json.dumps(suite))
    environ = {"MY_TOKEN": "0123456789"} | ({} if seed is None else {"PYTHONHASHSEED": str(seed)})
    for suite, out in (("a", "base"), ("b", "cand")):
        options = ("--run-id", out, "--set", f"evidence.layout={layout}")
        ended = agent_eval(
            "run", "--suite", f"{suite}.json", "--out", out, *options, cwd=place, environ=environ
        )
        assert ended.code == 0, ended.err
    compared, decided = "cand/compare/baseline_delta.json", "cand/compare/gate_decision.json"
    for command in (
        ("compare", "--baseline", "base", "--candidate", "cand"),
        ("gate", "--compare", compared, "--max-regressed-cases", "0"),
        ("report", "markdown", "--compare", compared, "--gate", decided, "--out", "report.md"),
        ("ci", "--suite", "b.json", "--baseline", "base"),
    ):
        ended = agent_eval(*command, cwd=place, environ=environ)
        assert ended.code in (0, 1), ended.err
        (place / f"{command[0]}.txt").write_text(ended.out)
    for name in ("a", "b"):
        (place / f"{name}.json").unlink()
    return tree(place)


@pytest.mark.parametrize("layout", ["files", "compact"])
@WHOLE_JOB
def test_hash_seeds_change_nothing(layout: str, tmp_path: Path) -> None:
    one = everything(tmp_path / "one", seed=None, layout=layout)
    assert one == everything(tmp_path / "other", seed=77, layout=layout)
    assert "agent-eval-out/evidence.zip" in one


@WHOLE_JOB
def test_the_order_of_keys_changes_nothing_but_the_digest_of_the_suite(tmp_path: Path) -> None:
    one = everything(tmp_path / "one", seed=None, layout="files")
    other = everything(tmp_path / "other", seed=None, layout="files", order=9)
    assert set(one) == set(other)
    different = {Path(name).name for name in one if one[name] != other[name]}
    of_the_run = {
        *("trajectory.json", "verdicts.json", "index.jsonl", "events.jsonl", "summary.json", "policy.json")
    }
    assert not different & of_the_run
    assert {Path(name).name for name in one} > of_the_run
    configs = [json.loads((tmp_path / at / "cand/run/config.json").read_bytes()) for at in ("one", "other")]
    assert configs[0].pop("suite_digest") != configs[1].pop("suite_digest")
    assert configs[0] == configs[1]
