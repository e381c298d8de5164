"""Which version of a key or file counts: the tip's for what judges, the change's for its agent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.definitions import define, find_targets
from agent_eval.ci.place import Versions
from agent_eval.ci.rules import Held, hold, rules_of, with_files_of_tip
from agent_eval.errors import InvalidInput, NotEvaluable
from tests.fakes.git_host import git
from tests.unit.ci.jobs import place_of

FILE = Path("agent-eval.yml")
USUAL = "suites: s.json\nagent: {run: python3 agent.py, max_repairs: 0}\npolicy: gate.yml\n"


class Checkout:
    """A repository with a tip of main, and a change that is checked out."""

    def __init__(self, top: Path) -> None:
        self.top, self.clones = top, list[PrivateClone]()
        git(top, "init", "--quiet", "--initial-branch", "main", ".")

    def commit(self, **files: str | None) -> str:
        """Write files, or remove them, and commit; names have `_` for the dot and `__` for a slash."""
        for name, text in files.items():
            path = self.top / name.replace("__", "/").replace("_", ".").replace("agent.eval", "agent-eval")
            path.parent.mkdir(exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        git(self.top, "add", "--all")
        git(self.top, "commit", "--quiet", "--allow-empty", "-m", "change")
        return git(self.top, "rev-parse", "HEAD")

    def at(self, tip: str, *, is_reviewed: bool = False) -> Versions:
        """The versions of a tip and of what is checked out."""
        environ = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(self.top.parent)}
        self.clones.append(clone := PrivateClone.of(self.top, environ))
        return Versions(place_of(clone, tip, is_reviewed=is_reviewed))

    def change(self, main: Mapping[str, str], **own: str) -> Versions:
        """The versions of main with these files, and of a change of them."""
        tip = self.commit(**main)
        self.commit(**own)
        return self.at(tip)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Checkout]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    made = Checkout(tmp_path / "checkout")
    yield made
    for clone in made.clones:
        clone.close()


def held(versions: Versions, *, evidence: bool = True, **flags: str) -> Held:
    return hold(
        {name.replace("_", "-"): text for name, text in flags.items()}, {}, FILE, versions, lambda: evidence
    )


def test_a_reviewed_commit_is_judged_by_its_own_file(checkout: Checkout) -> None:
    tip = checkout.commit(agent_eval_yml=USUAL.replace("repairs: 0", "repairs: 2"), gate_yml="margin: 0.1\n")
    versions = checkout.at(tip, is_reviewed=True)
    found = held(versions)
    assert found.settings.agent is not None
    assert found.settings.agent.max_repairs == 2
    assert rules_of(found, versions).policy.margin == 0.1


def test_an_input_that_the_tip_states_is_not_used_and_said(checkout: Checkout) -> None:
    versions = checkout.change({"agent_eval_yml": USUAL + "ci: {fail_on: gate}\n", "gate_yml": ""})
    found = held(versions, fail_on="never", parallel="3")
    assert found.settings.fail_on == "gate"
    assert found.settings.agent is not None
    assert found.settings.agent.parallel == 3
    assert found.warnings == ["--fail-on is not used: main's `agent-eval.yml` says `ci.fail_on`."]


@pytest.mark.parametrize(("mine", "seconds"), [("5", 5), ("500", 30)])
def test_a_limit_of_an_attempt_is_lowered_at_once_and_raised_once_merged(
    checkout: Checkout, mine: str, seconds: float
) -> None:
    tip = checkout.commit(agent_eval_yml=USUAL + "limits: {attempt: {seconds: 30}}\n", gate_yml="")
    checkout.commit(agent_eval_yml=USUAL + f"limits: {{attempt: {{seconds: {mine}}}}}\n")
    assert held(checkout.at(tip)).settings.limits.attempt.seconds == seconds


def test_keys_of_main_that_this_version_does_not_know_are_named(checkout: Checkout) -> None:
    main = {"agent_eval_yml": USUAL + "later-key: 1\n", "gate_yml": ""}
    assert "`later-key`" in held(checkout.change(main, agent_eval_yml=USUAL)).warnings[0]


@pytest.mark.parametrize("evidence", [True, False])
def test_the_first_rules_hold_where_nothing_was_evaluated(checkout: Checkout, evidence: bool) -> None:
    versions = checkout.change({"readme_md": ""}, agent_eval_yml=USUAL, gate_yml="margin: 0.2\n")
    found = held(versions, evidence=evidence, suite="s.json", policy="gate.yml")
    assert found.is_adoption is not evidence
    margin = rules_of(found, versions).policy.margin
    assert margin == (None if evidence else 0.2)
    assert any("Main has no `gate.yml`" in warning for warning in found.warnings) is evidence


ELSEWHERE = "https://elsewhere.example"


@pytest.mark.parametrize("agent", [ELSEWHERE, f"{{model: 'openai:small', base_url: {ELSEWHERE}}}"])
def test_a_change_names_no_place_for_the_agents_secrets(checkout: Checkout, agent: str) -> None:
    tip = checkout.commit(agent_eval_yml=USUAL, gate_yml="")
    checkout.commit(agent_eval_yml=f"suites: s.json\nagent: {agent}\n")
    with pytest.raises(NotEvaluable, match="counts once it is on main"):
        held(checkout.at(tip))


def test_which_variables_the_agent_gets_and_what_its_key_opens_main_says(checkout: Checkout) -> None:
    tip = checkout.commit(agent_eval_yml="suites: s.json\nagent: {run: python3 a.py, env: [MY_KEY]}\n")
    checkout.commit(
        agent_eval_yml="suites: s.json\njudge_model: openai:x@http://evil.example/v1\n"
        "agent: {run: python3 b.py, env: [THE_TOKEN], case_commands: true}\nsetup: {env: [THE_TOKEN]}\n"
    )
    settings = held(checkout.at(tip)).settings
    assert settings.agent is not None
    assert (settings.agent.command, settings.agent.environment) == ("python3 b.py", ("MY_KEY",))
    assert (settings.agent.case_commands, settings.setup.environment) == (False, ())
    assert (settings.judging.llm.base_url, settings.judging.llm.model) == (None, None)


@pytest.mark.parametrize("tips", [None, "suites: ["])
def test_what_main_does_not_say_of_secrets_no_fork_says(checkout: Checkout, tips: str | None) -> None:
    tip = checkout.commit(**({"agent_eval_yml": tips} if tips is not None else {"readme_md": ""}))
    checkout.commit(agent_eval_yml="suites: s.json\nagent: {run: python3 a.py, env: [MY_KEY]}\n")
    versions = replace(checkout.at(tip), from_fork=True)
    with pytest.raises(NotEvaluable, match=r"`agent.env` counts once it is on main"):
        held(versions, evidence=False)


def test_a_link_of_the_change_is_not_followed(checkout: Checkout, tmp_path: Path) -> None:
    tip = checkout.commit(agent_eval_yml=USUAL, gate_yml="")
    (checkout.top / "agent-eval.yml").unlink()
    (checkout.top / "agent-eval.yml").symlink_to(tmp_path / "secrets.yml")
    (tmp_path / "secrets.yml").write_text(USUAL)
    checkout.commit()
    with pytest.raises(InvalidInput, match="link"):
        held(checkout.at(tip))


def test_files_that_judge_are_those_of_the_tip_and_new_judges_advise(checkout: Checkout) -> None:
    tip = checkout.commit(
        agent_eval_yml=USUAL + "judges: policy\njudge_config: judges.yml\n", judges_yml="{}", gate_yml=""
    )
    checkout.commit(
        agent_eval_yml=USUAL + "judges: [policy, mine:Judge]\njudge_config: judges.yml\n", judges_yml="x: {}"
    )
    versions = checkout.at(tip)
    settings = with_files_of_tip(held(versions), versions)
    assert settings.judging.judges == ("policy",)
    assert settings.judging.judge_config is not None
    assert settings.judging.judge_config.read_text() == "{}"
    assert settings.judging.directory == settings.judging.judge_config.parent
    assert settings.judging.advisory is not None
    assert settings.judging.advisory.judges == ("mine:Judge",)


def suite(*cases: Mapping[str, object], name: str = "shop") -> str:
    return json.dumps({"dataset_id": name, "cases": list(cases)})


ONE = {"case_id": "one", "input": "Where is one?", "policy": {}}
TWO = {"case_id": "two", "input": "Where is two?", "policy": {}}


def test_outside_of_a_change_nothing_is_compared(checkout: Checkout) -> None:
    checkout.commit(s_json=suite(ONE))
    targets = find_targets(["s.json"])
    assert define(targets, ["s.json"], Versions(None)).targets == targets


@pytest.mark.parametrize(
    "files",
    [{"package_json": " " * (2 << 20)}, {"s_json": suite(ONE, {**TWO, "input": "?" * (2 << 20)})}],
    ids=["a file that is no suite", "a suite"],
)
def test_a_file_of_the_base_may_be_large(checkout: Checkout, files: dict[str, str]) -> None:
    tip = checkout.commit(**{"agent_eval_yml": USUAL, "s_json": suite(ONE, TWO), **files})
    checkout.commit(s_json=suite(ONE))
    [found] = define(find_targets(["s.json"]), ["s.json"], checkout.at(tip)).redefinitions.values()
    assert list(found.replaced) == ["two"]


def test_a_suite_of_the_base_may_be_in_a_folder_and_is_none_where_it_is_a_link(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout.top / "b").mkdir()
    (checkout.top / "b" / "link.json").symlink_to("/etc/passwd")
    tip = checkout.commit(agent_eval_yml=USUAL, b__s_json=suite(ONE, TWO), s_json=suite(ONE, name="top"))
    checkout.commit(b__s_json=suite(ONE), b__link_json=None)
    monkeypatch.chdir(checkout.top / "b")
    defined = define(find_targets(["*.json"]), ["*.json", "../s.json"], checkout.at(tip))
    assert [list(found.replaced) for found in defined.redefinitions.values()] == [["two"]]


def test_what_either_version_wants_hidden_is_hidden(checkout: Checkout) -> None:
    tip = checkout.commit(agent_eval_yml=USUAL + "redaction: {patterns: {order: '[0-9]+'}}\n", gate_yml="")
    checkout.commit(agent_eval_yml=USUAL + "redaction: {patterns: {refund: sorry}}\n")
    assert held(checkout.at(tip)).settings.redaction.patterns == ("order=[0-9]+", "refund=sorry")
