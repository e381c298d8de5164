"""The guide to judges names every judge and every key of its configuration, and its example works."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from agent_eval.contracts import Case, Trace
from agent_eval.judges import DEFAULT_JUDGES, JUDGES, JudgeConfig

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "judges.md").read_text("utf-8")


def section(name: str) -> str:
    """What the guide says under a judge's heading; programs share what stands under `command`."""
    assert f"### {name}\n" in GUIDE, f"add a section `### {name}` to docs/guides/judges.md, with its keys"
    text = GUIDE.split(f"### {name}\n", 1)[1]
    return section("command") if name == "lean" else re.split(r"\n##[# ]", text, maxsplit=1)[0]


def config_of(name: str) -> type[JudgeConfig]:
    module, _, judge = JUDGES[name].partition(":")
    found: type[JudgeConfig] = getattr(importlib.import_module(module), judge).Config
    return found


@pytest.mark.parametrize("name", JUDGES)
def test_every_judge_is_in_the_table_with_its_default(name: str) -> None:
    rows = [line for line in GUIDE.splitlines() if line.startswith(f"| [`{name}`](#{name}) |")]
    hard = "yes" if config_of(name).model_fields["hard"].default else "no"
    wanted = f"| [`{name}`](#{name}) | … | {hard} |"
    assert len(rows) == 1, f"add one row to the table of judges in docs/guides/judges.md: {wanted}"
    assert rows[0].endswith(f"| {hard} |"), f"docs/guides/judges.md: the code says {wanted}"
    by_default = name in DEFAULT_JUDGES
    assert ("*default*" in rows[0]) == by_default, (
        f"docs/guides/judges.md: `{name}` {'is' if by_default else 'is not'} one of DEFAULT_JUDGES"
    )


@pytest.mark.parametrize("name", JUDGES)
def test_every_key_is_documented_and_no_other(name: str) -> None:
    keys = set(config_of(name).model_fields) - set(JudgeConfig.model_fields)
    tables = re.findall(r"^\| (?:key|configuration) \|.*\n(?:\|.*\n)*", section(name), re.MULTILINE)
    documented = set(re.findall(r"^\| `(\w+)` \|", "".join(tables), re.MULTILINE))
    assert documented == keys, (
        f"docs/guides/judges.md, table of keys in the section `{name}`: add {sorted(keys - documented)}, "
        f"remove {sorted(documented - keys)}"
    )


def test_the_keys_of_every_judge_are_documented_once() -> None:
    assert all(f"`{key}`" in GUIDE.split("\n### ", 1)[0] for key in JudgeConfig.model_fields)


def test_the_example_is_a_judge() -> None:
    code = GUIDE.split("```python\n", 1)[1].split("```", 1)[0]
    names: dict[str, object] = {}
    exec(code, names)
    judge = names["NoApologies"]()  # type: ignore[operator]
    for text, passed in (("done", True), ("Sorry!", False)):
        case = Case.model_validate(
            {"case_id": "c", "trace": [{"idx": 0, "actor": "agent", "type": "message", "output": text}]}
        )
        assert judge.evaluate(case, Trace(case.trace)).passed is passed


def test_the_first_evaluation_counts_the_default_judges_alike() -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "first-evaluation.md").read_text("utf-8")
    number = {5: "five", 6: "six", 7: "seven"}[len(DEFAULT_JUDGES)]
    sentence = re.search(r"Without `--judge` (\w+) judges run: (.*?)\. ", page, re.DOTALL)
    assert sentence is not None
    assert sentence[1] == number
    assert tuple(re.findall(r"`(\w+)`", sentence[2])) == DEFAULT_JUDGES
    hard = re.search(r"`hard` is true, which is the default of these (\w+)\s+judges", page)
    assert hard is not None
    assert hard[1] == number
    assert all(config_of(name).model_fields["hard"].default for name in DEFAULT_JUDGES)
