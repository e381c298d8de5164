"""Settings from flags, environment and file, and the command's flags."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.ci.config import (
    INPUTS,
    OF_THE_FILE,
    PLATFORM_INPUTS,
    SETTINGS,
    Settings,
    base_branches_in,
    gather,
    refuse_unknown_variables,
    settings_from,
    with_settings,
)
from agent_eval.config.rows.file import KEYS
from agent_eval.contracts import Thresholds
from agent_eval.errors import AgentEvalError, InvalidInput, UsageError


def settings(
    tmp_path: Path, *, flags: dict[str, str] | None = None, file: str = "", **environ: str
) -> Settings:
    path = tmp_path / "agent-eval.yml"
    if file:
        path.write_text(file)
    return settings_from(gather({"suite": "s.json", **(flags or {})}, environ, path))


def test_inputs__hold_every_threshold_and_nothing_more_of_that_kind() -> None:
    assert {row.field for row in SETTINGS if row.part == "thresholds"} == set(Thresholds.model_fields)


def test_inputs__tokens_forks_and_the_store_are_kept_out_of_the_file() -> None:
    kept_out = {row.name for row in INPUTS if row.name not in KEYS}
    of_platforms = {row.name for row in PLATFORM_INPUTS}
    never = {"llm-key", "signing-key", "allow-fork-with-secrets", "evidence", "report-run-id", *OF_THE_FILE}
    assert kept_out - of_platforms == never
    assert {row.name for row in PLATFORM_INPUTS if row.kind in ("secret", "url")} <= kept_out
    assert "baseline-store" in kept_out


def test_agent__is_none_until_one_is_named(tmp_path: Path) -> None:
    assert settings(tmp_path).agent is None
    found = settings(tmp_path, flags={"agent-command": "python agent.py"}).agent
    assert found is not None
    assert (found.called("unknown"), found.trials) == ("command:python agent.py", 1)
    assert (found.parallel, found.cassette) == (1, None)


@pytest.mark.parametrize(
    ("flags", "spec"),
    [
        ({"agent-url": "https://agent.example.org/ask"}, "https://agent.example.org/ask"),
        ({"agent": "https://agent.example.org/ask"}, "https://agent.example.org/ask"),
        ({"agent": "python agent.py"}, "python agent.py"),
        ({"base-url": "http://localhost:1/v1", "model": "small"}, "openai:small"),
        ({"base-url": "http://localhost:1/v1"}, "openai:"),
        ({"agent": "anthropic:large"}, "anthropic:large"),
    ],
)
def test_agent__is_named_in_several_ways(tmp_path: Path, flags: dict[str, str], spec: str) -> None:
    found = settings(tmp_path, flags={**flags, "parallel": "auto"})
    assert found.agent is not None
    assert (found.agent.called(found.identity.model), found.agent.parallel) == (spec, "auto")


def test_agent__takes_several_lines_for_setting_up_and_lists_with_commas(tmp_path: Path) -> None:
    flags = {"agent-command": "a", "setup-command": "one\n  two\n", "agent-env": "A, B\nC"}
    found = settings(tmp_path, flags=flags)
    assert found.agent is not None
    assert (found.setup.command, found.agent.environment) == ("one\n  two", ("A", "B", "C"))


def test_gather__flag_before_input_before_variable_before_file_before_default(tmp_path: Path) -> None:
    everything = {"INPUT_TITLE": "from input", "AGENT_EVAL_TITLE": "from variable"}
    file = "ci: {title: from file}\n"
    found = settings(tmp_path, flags={"title": "from flag"}, file=file, **everything)
    assert found.report_title == "from flag"
    assert settings(tmp_path, file=file, **everything).report_title == "from input"
    del everything["INPUT_TITLE"]
    assert settings(tmp_path, file=file, **everything).report_title == "from variable"
    assert settings(tmp_path, file=file).report_title == "from file"
    (tmp_path / "agent-eval.yml").unlink()
    assert settings(tmp_path).report_title == "agent-eval"


def test_gather__an_empty_input_counts_as_not_given(tmp_path: Path) -> None:
    environ = {"INPUT_COMMENT": " ", "INPUT_OUT": ""}
    assert settings(tmp_path, file="ci: {out: evidence}\n", **environ).out == Path("evidence")


def test_file__takes_lists_numbers_and_truth_values(tmp_path: Path) -> None:
    file = (
        "judges: [policy, regex]\npolicy: {min_pass_rate: 0.5, max_regressed_cases: 2}\n"
        "baseline: {required: true, branches: [release/1.x], name: null}\nlimits:\n"
    )
    found = settings(tmp_path, file=file)
    assert found.judging.judges == ("policy", "regex")
    assert found.thresholds == Thresholds(min_pass_rate=0.5, max_regressed_cases=2)
    assert found.require_baseline is True
    assert found.base_branches == ("release/1.x",)
    assert found.baseline_name == "main"
    assert found.evidence_name == "agent-eval-evidence"


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("github-token: https://example.org", "there is no key"),
        ("github-api-url: https://example.org", "there is no key"),
        ("policy:\n  max_regresed_cases: 1", "line 2: there is no key `policy.max_regresed_cases`"),
        ("policy:\n  max_regresed_cases: 1", "policy.max_regressed_cases"),
        ("suite: suites/*.json", 'Write `suites: "suites/*.json"`'),
        ("agent-command: python agent.py", 'Write `agent: {run: "python agent.py"}`'),
        ("max-case-cost: 0.1", "Write `limits: {case: {cost_usd: 0.1}}`"),
        ("redact-field: [customer.ssn]", "Write `redaction: {fields: [customer.ssn]}`"),
        ("report-title: Support agent", 'Write `ci: {title: "Support agent"}`'),
        ("baseline-runs: 20", "`baseline-runs` is gone"),
        ("baseline-runs: 20", "last 20 runs"),
        ("# nothing", "empty"),
        *((shape, "") for shape in ("- a", "suites: {a: b}", "ci: {title: [a]}", "judges: [1]", "limits: 3")),
    ],
)
def test_file__with_a_key_that_is_none_or_of_the_wrong_shape_is_told_the_right_one(
    tmp_path: Path, file: str, said: str
) -> None:
    with pytest.raises(UsageError if file.startswith("baseline-runs") else InvalidInput) as caught:
        settings(tmp_path, file=f"{file}\n")
    assert said in f"{caught.value.message} {caught.value.remedy}"


@pytest.mark.parametrize(
    ("flags", "environ", "said"),
    [
        ({}, {"INPUT_PRESET": "relaese"}, "pull-request or release"),
        ({}, {"AGENT_EVAL_FAIL_ON": "tuesdays"}, "from AGENT_EVAL_FAIL_ON"),
        ({"suite": ""}, {}, "No suite"),
        ({"agent-command": "python agent.py", "trials": "auto"}, {}, "`trials: auto` is gone"),
        ({"agent-command": "python agent.py", "trials": "auto"}, {}, "trials: 2"),
    ],
)
def test_values__that_are_refused_say_what_is_taken_and_where_they_came_from(
    tmp_path: Path, flags: dict[str, str], environ: dict[str, str], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        settings(tmp_path, flags=flags, **environ)
    assert said in f"{caught.value.message} {caught.value.remedy}"


def test_values__that_are_taken(tmp_path: Path) -> None:
    assert settings(tmp_path, INPUT_PRESET="release").preset == "release"
    assert settings(tmp_path, flags={"suite": "a.json\n\n b,c.json \n"}).suite == ("a.json", "b,c.json")
    assert settings(tmp_path, file="null\n").report_title == "agent-eval"


def test_set__states_what_has_no_flag(tmp_path: Path) -> None:
    stated = "limits.setup_seconds=60\npolicy.safety=[prompt_injection]\nlabels.model=small"
    values, _ = with_settings({"agent": "recorded", "set": stated, "model": "large"}, {})
    found = settings(tmp_path, flags=values, file="policy: {safety: {}}\n")
    assert found.setup.seconds == 60
    assert found.own_policy == {"safety": ["prompt_injection"]}
    assert found.identity.model == "large"
    for wrong in ("limits.case.second=1", "margin", "agent.env: x"):
        with pytest.raises(UsageError):
            with_settings({"set": wrong}, {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("min-pass-rate", rate) for rate in ("NaN", "inf", "1.1", "90%")),
        *(("max-regressed-cases", number) for number in ("-1", "1.5", "٣")),
        *(("baseline", f"run:{number}") for number in ("0", "9" * 30, "last")),
        *(("require-baseline", "maybe"), ("comment", "sometimes"), ("strict-side-effects", "perhaps")),
        *(("comment-id", text) for text in ("a b", "x" * 65, "-->")),
        *(("title", "two\nlines"), ("title", "bell\x07"), ("out", "a\nb"), ("trials", "0")),
        *(("parallel", number) for number in ("0", "257", "٣")),
        *(("max-run-cost", "0"), ("max-run-cost", "inf"), ("command-timeout-seconds", "soon")),
        *(("base-branches", names) for names in ("release/*", "release/1.x next", "a,b~1")),
    ],
)
def test_values__that_make_no_sense_are_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings(tmp_path, flags={name: value})
    assert caught.value.details["field"] == name
    assert caught.value.remedy


def test_token__appears_nowhere(tmp_path: Path) -> None:
    found = settings(tmp_path, **{"INPUT_GITHUB-TOKEN": "ghs_secret_value"})
    assert found.platform["github_token"] == "ghs_secret_value"
    assert "ghs_secret_value" not in repr(found)
    with pytest.raises(AgentEvalError) as caught:
        settings(tmp_path, **{"INPUT_GITHUB-TOKEN": "ghs_secret\nvalue"})
    assert "ghs_secret" not in str(caught.value.to_json())


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"AGENT_EVAL_BASE_CACHE": "/tmp/x"}, "AGENT_EVAL_BASE_CACHE is gone"),
        ({"INPUT_CONFIRM-PAIRS": "0"}, "INPUT_CONFIRM-PAIRS is gone"),
        ({"AGENT_EVAL_MIN_PASRATE": "0.9"}, "AGENT_EVAL_MIN_PASRATE is no input of the job"),
        ({"GITHUB_ACTIONS": "true", "INPUT_MIN_PASS_RATE": "1"}, "INPUT_MIN_PASS_RATE is no input"),
    ],
)
def test_variables__that_nobody_reads_are_refused(environ: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        refuse_unknown_variables(environ)
    assert caught.value.remedy


def test_variables__of_other_commands_of_runners_and_of_the_agent_are_none_of_the_jobs() -> None:
    environ = {
        "AGENT_EVAL_CLOCK": "2026-01-14T10:00:00+00:00",
        "AGENT_EVAL_RESULT_OUTCOME": "passed",
        "AGENT_EVAL_SUITE": "s.json",
        "AGENT_EVAL_MY_KEY": "k",
        "AGENT_EVAL_UNSET": "",
        "INPUT_OF_ANOTHER_ACTION": "1",
    }
    refuse_unknown_variables(environ, named=["AGENT_EVAL_MY_KEY"])


@pytest.mark.parametrize(
    ("stated", "listed"),
    [
        ("[release/1.x, next]", ("release/1.x", "next")),
        ("'release/1.x, next'", ("release/1.x", "next")),
        ("null", ()),
        ("[release/*]", None),
        ("[a, 1]", None),
        ("[a b]", None),
        ("{a: 1}", None),
    ],
)
def test_base_branches__are_whole_names(stated: str, listed: tuple[str, ...] | None) -> None:
    data = f"baseline: {{branches: {stated}}}\n".encode()
    if listed is not None:
        assert base_branches_in(Path("agent-eval.yml"), data) == listed
        return
    with pytest.raises(AgentEvalError, match=r"base-branches|baseline\.branches"):
        base_branches_in(Path("agent-eval.yml"), data)


def test_comment_id__derives_from_what_makes_an_evaluation_its_own() -> None:
    def id_of(environ: dict[str, str] | None = None, **flags: str) -> str:
        return gather(flags, environ or {}, None)["comment-id"].text

    ids = [id_of(suite="a.json"), id_of(suite="b.json"), id_of(suite="a.json", label="model=small")]
    assert len(set(ids)) == 3
    assert ids[0].startswith("a-json-")
    assert id_of(suite="a.json", **{"min-pass-rate": "0.9", "judge": "regex"}) == ids[0]
    assert id_of({"AGENT_EVAL_SUITE": "a.json"}) == ids[0]
    assert id_of(suite="a.json", **{"comment-id": "nightly"}) == "nightly"
    assert id_of() == "default"
