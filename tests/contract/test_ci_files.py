"""The files for CI platforms are what the table of inputs says."""

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from check_jsonschema.builtin_schemas import get_builtin_schema

from agent_eval.ci.config import INPUTS
from agent_eval.ci.platforms.catalog import platform_specs
from agent_eval.config.options import CI, SECRET, Option
from agent_eval.config.rows.commands import CI_FILES
from agent_eval.config.table import options_of
from agent_eval.demo.scaffold import ALL, PLATFORMS
from tests.ci_files import composite_action, rows
from tests.ci_files.catalog import FILES, STARTERS

ROOT = Path(__file__).parents[2]
MAX_LINES = 40
COMPONENT = "templates/agent-eval.yml"
PLUGIN = "ci-templates/agent-eval-buildkite-plugin/plugin.yml"
HOOK = "ci-templates/agent-eval-buildkite-plugin/hooks/command"
ORB = "ci-templates/circleci-orb/src/@orb.yml"
STEP = "vars/agentEval.groovy"
COMPOSITE = "ci-templates/composite/action.yml"
PLATFORM_OF = {COMPONENT: "gitlab", PLUGIN: "buildkite", ORB: "circleci"}
"""Files that offer every input, by what they are for."""


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_platform_has_a_file_that_init_writes_and_a_guide_names() -> None:
    names = {spec.name for spec in platform_specs()} - {"local"}
    assert set(ALL) == names, "a platform has its file in PLATFORMS of agent_eval/demo/scaffold.py"
    assert set(CI_FILES) == {"all", "none", *PLATFORMS}, "CI_FILES of agent_eval/config/rows/commands.py"
    guides = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs/guides").glob("*.md"))
    assert [name for name in ALL if f"`{PLATFORMS[name][0]}`" not in guides] == []


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_what_the_table_says(path: str) -> None:
    made, file = FILES[path](), ROOT / path
    if os.environ.get("UPDATE_GOLDEN") == "1":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made, encoding="utf-8")
        if made.startswith("#!"):
            file.chmod(0o755)
    assert os.access(file, os.X_OK) == made.startswith("#!")
    assert file.read_text(encoding="utf-8") == made, "the table changed: run `make generated`"


@pytest.mark.parametrize("path", [COMPONENT, PLUGIN, HOOK, ORB, STEP, COMPOSITE])
def test_a_new_input_makes_the_committed_file_stale(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new = Option("max-surprises", "count", "New.", goes_to="surprises", commands=(CI,))
    monkeypatch.setattr(rows, "options_of", lambda command: (*options_of(command), new))
    extended = (*composite_action.ACTION_INPUTS, new)
    monkeypatch.setattr(composite_action, "ACTION_INPUTS", extended)
    made = FILES[path]()
    assert made != read(path)
    assert any(name in made for name in ("max-surprises", "MAX_SURPRISES"))


def test_a_first_input_that_is_renamed_in_the_table_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FIRST", (("suites", "a.json"),))
    with pytest.raises(KeyError, match="suites"):
        FILES["ci-templates/buildkite-shards.yml"]()


@pytest.mark.parametrize("name", [*STARTERS, "buildkite-shards.yml", "github.yml", "github-fork.yml"])
def test_a_file_to_start_from_is_short(name: str) -> None:
    assert len(read(f"ci-templates/{name}").splitlines()) <= MAX_LINES


def offered(path: str) -> set[str]:
    """The inputs that a file offers."""
    if path == COMPONENT:
        return set(next(yaml.safe_load_all(read(path)))["spec"]["inputs"])
    if path == PLUGIN:
        return set(yaml.safe_load(read(path))["configuration"]["properties"])
    return set(yaml.safe_load(read(path))["jobs"]["evaluate"]["parameters"])


@pytest.mark.parametrize("path", PLATFORM_OF)
def test_every_input_is_offered_and_no_secret_nor_one_of_another_platform(path: str) -> None:
    others = {row.name for spec in platform_specs() if spec.name != PLATFORM_OF[path] for row in spec.inputs}
    wanted = {row.name for row in INPUTS if row.name not in others and not (row.kind in SECRET or row.hidden)}
    own = offered(path) - wanted
    assert wanted <= offered(path)
    assert not own & {row.name for row in INPUTS}
    assert own <= {"image", "machine-image", "results", "job-name", "stage"}


def test_the_composite_variant_has_the_inputs_and_outputs_of_the_action() -> None:
    action, composite = (yaml.safe_load(read(path)) for path in ("action.yml", COMPOSITE))
    assert composite["inputs"] == action["inputs"]
    described = {name: row["description"] for name, row in composite["outputs"].items()}
    assert described == {name: row["description"] for name, row in action["outputs"].items()}


def complain(schema: str, document: Any) -> list[str]:
    """What a vendor's schema, as check-jsonschema bundles it, says against a document."""
    validator = jsonschema.Draft7Validator(get_builtin_schema(f"vendor.{schema}"))
    return [f"{list(error.path)}: {error.message[:200]}" for error in validator.iter_errors(document)]


def test_the_jobs_of_the_component_are_valid_for_gitlab() -> None:
    header, jobs = yaml.safe_load_all(read(COMPONENT))
    assert set(header) == {"spec"}
    assert complain("gitlab-ci", jobs) == []
    assert complain("gitlab-ci", {**jobs, "further": {"script": 7}})


def test_the_orb_is_valid_for_circleci() -> None:
    orb = yaml.safe_load(read(ORB))
    del orb["version"]  # of a configuration, which an inline orb is a part of
    use = {"jobs": [{"agent-eval/evaluate": {"suite": "s.json"}}]}
    config = {"version": 2.1, "orbs": {"agent-eval": orb}, "workflows": {"main": use}}
    assert complain("circle-ci", config) == []
    assert complain("circle-ci", {**config, "orbs": {"agent-eval": {"jobs": {"x": {"steps": 7}}}}})


def test_the_plugin_is_described_as_buildkite_wants_it() -> None:
    plugin = yaml.safe_load(read(PLUGIN))
    assert set(plugin) == {"name", "description", "author", "requirements", "configuration"}
    # The name of the folder is the name of the variables that its hooks are given.
    assert f"{plugin['name']}-buildkite-plugin" == Path(PLUGIN).parent.name
    jsonschema.Draft7Validator.check_schema(plugin["configuration"])
    configuration = jsonschema.Draft7Validator(plugin["configuration"])
    assert not list(
        configuration.iter_errors(
            {"suite": ["a.json", "b.json"], "trials": 3, "allow-fork-with-secrets": True}
        )
    )
    assert list(configuration.iter_errors({"suites": "a.json"}))
    assert list(configuration.iter_errors({"comment": "sometimes"}))


def test_a_pipeline_with_the_plugin_is_valid_for_buildkite() -> None:
    plugin = {"./ci-templates/agent-eval-buildkite-plugin": {"suite": "s.json"}}
    step = {"label": "agent-eval", "plugins": [plugin]}
    assert complain("buildkite", {"steps": [step]}) == []
    assert complain("buildkite", {"steps": [{**step, "soft_fail": 7}]})
