"""The guides name every judge, every key and every field there is, and their examples and lines are right."""

import importlib
import importlib.util
import json
import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_eval.contracts import Case, ContentPart, Event, TokenUsage, Trace
from agent_eval.contracts.event import EVENT_TYPES
from agent_eval.gate.sentences import SENTENCES
from agent_eval.importers.catalog import FORMATS
from agent_eval.judges import DEFAULT_JUDGES, JUDGES, JudgeConfig
from agent_eval.judges.catalog import known_judges, load_judges
from agent_eval.models.catalog import MODELS
from agent_eval.suites.validate import validate_suite

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
JUDGES_GUIDE, TRACES_GUIDE, WHICH_JUDGE = (
    (GUIDES / f"{name}.md").read_text(encoding="utf-8") for name in ("judges", "traces", "which-judge")
)
OF_MODELS = ("--provider", "--llm-key")
ROWS = re.findall(r"^\| (`.*`) \| .+ \| `(\{.*\})` \|$", TRACES_GUIDE, re.MULTILINE)


def section(name: str) -> str:
    """What the guide says under a judge's heading; programs share what stands under `command`."""
    assert f"### {name}\n" in JUDGES_GUIDE, (
        f"add a section `### {name}` to docs/guides/judges.md, with its keys"
    )
    text = JUDGES_GUIDE.split(f"### {name}\n", 1)[1]
    return section("command") if name == "lean" else re.split(r"\n##[# ]", text, maxsplit=1)[0]


def config_of(name: str) -> type[JudgeConfig]:
    module, _, judge = JUDGES[name].partition(":")
    found: type[JudgeConfig] = getattr(importlib.import_module(module), judge).Config
    return found


def test_every_judge_is_in_the_table_with_its_default() -> None:
    for name in JUDGES:
        rows = [line for line in JUDGES_GUIDE.splitlines() if line.startswith(f"| [`{name}`](#{name}) |")]
        hard = "yes" if config_of(name).model_fields["hard"].default else "no"
        wanted = f"| [`{name}`](#{name}) | … | {hard} |"
        assert len(rows) == 1, f"add one row to the table of judges in docs/guides/judges.md: {wanted}"
        assert rows[0].endswith(f"| {hard} |"), f"docs/guides/judges.md: the code says {wanted}"
        assert ("*default*" in rows[0]) == (name in DEFAULT_JUDGES), f"docs/guides/judges.md: {name}"


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
    assert all(f"`{key}`" in JUDGES_GUIDE.split("\n### ", 1)[0] for key in JudgeConfig.model_fields)


def test_the_example_is_a_judge() -> None:
    code = JUDGES_GUIDE.split("```python\n", 1)[1].split("```", 1)[0]
    names: dict[str, object] = {}
    exec(code, names)
    judge = names["NoApologies"]()  # type: ignore[operator]
    for text, passed in (("done", True), ("Sorry!", False)):
        case = Case.model_validate(
            {"case_id": "c", "trace": [{"idx": 0, "actor": "agent", "type": "message", "output": text}]}
        )
        assert judge.evaluate(case, Trace(case.trace)).passed is passed


def test_the_first_evaluation_counts_the_default_judges_alike() -> None:
    page = (GUIDES / "first-evaluation.md").read_text("utf-8")
    number = {5: "five", 6: "six", 7: "seven"}[len(DEFAULT_JUDGES)]
    sentence = re.search(r"Without `--judge` (\w+) judges run: (.*?)\. ", page, re.DOTALL)
    assert sentence is not None
    assert sentence[1] == number
    assert tuple(re.findall(r"`(\w+)`", sentence[2])) == DEFAULT_JUDGES
    hard = re.search(r"`hard` is true, which is the default of these (\w+)\s+judges", page)
    assert hard is not None
    assert hard[1] == number
    assert all(config_of(name).model_fields["hard"].default for name in DEFAULT_JUDGES)


def test_every_type_has_the_meaning_that_the_code_gives_it() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", TRACES_GUIDE.split("## Fields")[0], re.MULTILINE))
    assert rows == dict(EVENT_TYPES), "docs/guides/traces.md: the table of types is EVENT_TYPES"


@pytest.mark.parametrize(("names", "example"), ROWS)
def test_an_example_sets_the_fields_of_its_row(names: str, example: str) -> None:
    fields = json.loads(example)
    assert list(fields) == re.findall(r"`(\w+)`", names)
    event = Event.model_validate({"idx": 0, "actor": "agent", "type": "message", **fields})
    assert not event.model_extra
    assert event.model_dump(include=set(fields), exclude_unset=True, mode="json") == fields


def test_every_field_has_a_row() -> None:
    documented = [name for names, _ in ROWS for name in re.findall(r"`(\w+)`", names)]
    assert sorted(documented) == sorted(Event.model_fields)
    examples = {next(iter(fields)): fields for fields in (json.loads(example) for _, example in ROWS)}
    assert set(examples["usage"]["usage"]) == set(TokenUsage.model_fields)
    assert set(examples["parts"]["parts"][0]) <= set(ContentPart.model_fields)


def configurations() -> dict[str, tuple[str, dict[str, Any]]]:
    """What the page on judges shows: by fear, the cell of judges, and the lines as YAML."""
    cells = [row.strip("| ").split(" | ") for row in WHICH_JUDGE.splitlines() if row.startswith("| ")]
    judges = {fear: judge for fear, judge in cells if "`" in judge}
    blocks = re.findall(r"^\*\*([^*\n]+)\*\*:\n\n```yaml\n(.*?)```", WHICH_JUDGE, re.MULTILINE | re.DOTALL)
    lines = {fear[0].lower() + fear[1:]: yaml.safe_load(block) for fear, block in blocks}
    assert list(lines) == list(judges)
    return {fear: (judge, lines[fear]) for fear, judge in judges.items()}


def test_the_table_of_judges_is_read() -> None:
    assert len(configurations()) == 13


@pytest.mark.parametrize("fear", configurations())
def test_the_lines_of_a_judge_work(fear: str, tmp_path: Path) -> None:
    judges, lines = configurations()[fear]
    names = re.findall(r"\[`(\w+)`\]", judges)
    assert set(names) <= set(known_judges())
    if not set(lines) <= Case.model_fields.keys():
        load_judges(list(lines), lines)
        return
    path = tmp_path / "suite.yaml"
    case = {"case_id": "a", "input": "x", **lines}
    path.write_text(
        yaml.safe_dump({"dataset_id": "a", "metadata": {"schema_version": "1.2.0"}, "cases": [case]})
    )
    report = validate_suite(path, strict=True)
    assert (report.passed, report.warnings) == (True, [])


def test_every_provider_of_models_is_named_with_its_key() -> None:
    page = (GUIDES / "llm-judge.md").read_text(encoding="utf-8")
    rows = {
        option: next(line for line in page.splitlines() if f"| `{option}`" in line) for option in OF_MODELS
    }
    assert [name for name in MODELS if f"`{name}`" not in rows["--provider"]] == []
    keys = {kind.key_variable for kind in MODELS.values() if kind.key_variable}
    assert sorted(key for key in keys if f"`{key}`" not in rows["--llm-key"]) == []
    agents = (GUIDES / "live-agents.md").read_text(encoding="utf-8")
    hosted = [f"{name}:MODEL" for name, kind in MODELS.items() if kind.is_agent]
    assert [form for form in hosted if f"| `{form}` |" not in agents] == []


def test_every_format_that_is_imported_is_named() -> None:
    guide = (GUIDES / "importing.md").read_text(encoding="utf-8")
    assert [entry.name for entry in FORMATS if f"`{entry.name}`" not in guide] == []


OF_LIMITS = (
    r"\d+ cases? regressed, above max_regressed_cases \d+\.",
    r"\d+ of \d+ passed \(\S+%\): an agent that keeps min_pass_rate \d+% passes so few in .+ of runs\.",
    "Not evaluated",
)
"""What limits say, and a job that decided nothing."""


def pattern_of(sentence: str) -> str:
    """What a sentence can be, in either form, with any values."""
    made = []
    for part in re.split(r"(\[[^\]]*\]|\{\w+\})", sentence.replace("`", "")):
        if part.startswith("["):
            made.append(f"(?:{'|'.join(map(pattern_of, part[1:-1].split('|')))})")
        else:
            made.append(".+?" if part.startswith("{") else re.escape(part))
    return "".join(made)


def test_the_page_for_who_was_blocked_has_the_comments_own_sentences() -> None:
    page = (GUIDES / "why-blocked.md").read_text(encoding="utf-8")
    said = re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)
    assert len(said) >= 13
    sentences = [*OF_LIMITS, *map(pattern_of, SENTENCES.values())]
    assert [cell for cell in said if not any(re.fullmatch(each, cell) for each in sentences)] == []


# The page of attacks names tests that exist

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "decisions" / "attacks.md"
TESTS = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE.read_text("utf-8"))


def test_every_row_has_a_test() -> None:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    heads = [line for line in rows if line.endswith("| test |")]
    assert len(heads) == 4
    assert [row for row in rows if row not in heads and "`tests/" not in row] == []
    assert len(rows) - len(heads) == len(TESTS) >= 45


def test_the_test_of_an_attack_exists() -> None:
    for file, name in TESTS:
        text = (REPOSITORY / file).read_text("utf-8")
        assert not name or re.search(rf"^def {name}\(", text, re.MULTILINE), (file, name)


# Pages show the workflows and the keys that there are

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def workflow() -> str:
    bundled = (files("agent_eval.demo") / "starter" / "workflow.yml").read_text(encoding="utf-8")
    return f"```yaml\n{bundled}```\n"


def fork_workflow() -> str:
    return f"```yaml\n{(ROOT / 'ci-templates' / 'github-fork.yml').read_text(encoding='utf-8')}```\n"


def keys() -> str:
    spec = importlib.util.spec_from_file_location("reference_pages", DOCS / "reference_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: str = module.keys()
    return f"\n{table}"


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "workflow": ("guides/github-action.md", workflow),
    "fork workflow": ("guides/github-forks.md", fork_workflow),
    "keys": ("reference/config.md", keys),
}
"""By the comment that stands before it: the page, and what it shows."""


@pytest.mark.parametrize("name", PARTS)
def test_guide__shows_what_there_is(name: str) -> None:
    guide, shown = PARTS[name]
    text = (DOCS / guide).read_text(encoding="utf-8")
    part = re.compile(rf"(<!-- {name} -->\n)(.*?)(?=\n## |\nEvery action is|\Z)", re.DOTALL)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        text = part.sub(lambda found: found.group(1) + shown(), text)
        (DOCS / guide).write_text(text, encoding="utf-8")
    found = part.search(text)
    assert found is not None
    assert found.group(2) == shown(), "`make generated` writes the guide anew"
