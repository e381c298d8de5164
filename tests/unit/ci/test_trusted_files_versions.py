"""Which version of a file counts: the base branch's for a fork, and the checkout's otherwise."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_eval.ci.config import gather, values_by_input
from agent_eval.ci.place import JobPlace
from agent_eval.ci.platforms.base import CiRun
from agent_eval.ci.platforms.local import LocalDirectory
from agent_eval.ci.trusted_files import (
    JudgingRules,
    TrustedFiles,
    Versions,
    judging_rules,
    refuse_fork_with_secrets,
)
from agent_eval.errors import InvalidInput, RemoteError, UsageError
from tests.unit.ci.jobs import settings_of
from tests.unit.ci.registries import NAME, registry, waiver

GATE = Path("gate.yml")
NOW = datetime(2026, 1, 14, tzinfo=UTC)
"""A time at which the waivers of `registries` hold."""


class Clone:
    """A private clone whose tip of main has these files."""

    def __init__(self, files: Mapping[str, bytes] | RemoteError) -> None:
        self._files, self.asked, self.top = files, list[str](), Path.cwd()

    def file(self, path: str, commit: str) -> bytes | None:
        """Read a file of the tip."""
        assert commit == TIP
        self.asked.append(path)
        if isinstance(self._files, RemoteError):
            raise self._files
        return self._files.get(path)


TIP = "b" * 40
CHANGE = JobPlace(
    head="c" * 40,
    tip=TIP,
    trusted_branch="main",
    default_branch="main",
    default_tip=TIP,
    base=TIP,
    is_reviewed=False,
    branches=("main",),
)


def trusted(clone: Clone, place: JobPlace | None = CHANGE, *, from_fork: bool = False) -> TrustedFiles:
    platform: Any = SimpleNamespace(run=CiRun(from_fork=from_fork), workspace=Path.cwd())
    return TrustedFiles(platform, place, clone)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def own(base: Mapping[str, bytes] | RemoteError) -> TrustedFiles:
    return trusted(Clone(base))


def fork(base: Mapping[str, bytes] | RemoteError, place: JobPlace | None = CHANGE) -> TrustedFiles:
    return trusted(Clone(base), place, from_fork=True)


def write(data: bytes, path: Path = GATE) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)


def test_an_own_branch_is_judged_by_its_own_files_and_its_differences_are_listed() -> None:
    write(b"preset: pull-request\nmargin: 0.2\n")
    files = own({"gate.yml": b"preset: release\n"})
    assert files.read(GATE) == b"preset: pull-request\nmargin: 0.2\n"
    assert files.changes == [
        "`gate.yml`: `margin` is now `0.2`.",
        "`gate.yml`: `preset` was `release` and is now `pull-request`.",
    ]
    assert (files.warnings, files.has_base) == ([], True)


def test_a_fork_is_judged_by_the_base_branch_and_only_that_its_files_differ_is_said() -> None:
    write(b"preset: pull-request\n")
    files = fork({"gate.yml": b"preset: release\n"})
    assert files.read(GATE) == b"preset: release\n"
    assert (files.changes, files.has_base) == (["`gate.yml` differs from the base branch."], False)
    same = fork({"gate.yml": b"preset: pull-request\n"})
    assert same.read(GATE) == b"preset: pull-request\n"
    assert same.changes == []
    # A file that only the fork brings does not count.
    alone = fork({})
    assert alone.read(GATE) is None
    assert alone.changes == ["`gate.yml` differs from the base branch."]


@pytest.mark.parametrize("base", [b"", b"secret: 1\n", None])
def test_a_file_of_a_fork_that_is_a_link_is_not_followed(base: bytes | None, tmp_path: Path) -> None:
    (tmp_path / "hidden").write_bytes(b"secret: 1\n")
    GATE.symlink_to(tmp_path / "hidden")
    files = fork({} if base is None else {"gate.yml": base})
    assert files.read(GATE) == base
    # It never equals what it leads to, so nothing can be learnt from whether it differs.
    assert bool(files.changes) == (base != b"")
    own_branch = own({"gate.yml": b"secret: 1\n"})
    assert own_branch.read(GATE) == b"secret: 1\n"


def test_a_base_branch_that_cannot_be_read_stops_a_fork_and_warns_an_own_branch_once() -> None:
    write(b"margin: 0.2\n")
    down = RemoteError("HTTP 503.", remedy="Wait.")
    with pytest.raises(RemoteError, match="503"):
        fork(down).read(GATE)
    clone = Clone(down)
    files = trusted(clone)
    assert files.read(GATE) == files.read(GATE) == b"margin: 0.2\n"
    said = "Whether this change alters how it is judged could not be seen: HTTP 503."
    # What cannot be seen may be anything, so it is no pass either.
    assert (files.warnings, files.loosened) == ([said], [f"{said} Wait."])
    assert (clone.asked, files.has_base) == (["gate.yml"], False)


def test_a_fork_whose_base_is_not_known_is_not_judged_by_its_own_files() -> None:
    write(b"margin: 0.2\n")
    with pytest.raises(RemoteError, match="cannot be read from the base branch") as refused:
        fork({}, place=None).read(GATE)
    assert refused.value.details["path"] == "gate.yml"
    on_main = Clone({})
    reviewed = replace(CHANGE, is_reviewed=True)
    assert trusted(on_main, reviewed).read(GATE) == b"margin: 0.2\n"
    assert on_main.asked == []
    # What a fork brings counts no more where its commit is in main.
    assert trusted(Clone({}), reviewed, from_fork=True).read(GATE) is None


def test_a_file_outside_the_repository_is_the_operators_and_has_no_other_version(tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.yml"
    outside.write_bytes(b"margin: 0.2\n")
    clone = Clone({})
    assert trusted(clone, from_fork=True).read(outside) == b"margin: 0.2\n"
    assert clone.asked == []
    # Its place in the repository is what is asked for, however it is written.
    write(b"x: 1\n", Path("config/gate.yml"))
    trusted(clone, from_fork=True).read(Path("config/../config/gate.yml"))
    assert clone.asked == ["config/gate.yml"]


def test_a_file_that_is_used_in_the_checkouts_version_is_watched_on_own_branches_alone() -> None:
    write(b"a: 2\n")
    files = own({"gate.yml": b"a: 1\n"})
    files.watch(GATE)
    assert files.changes == ["`gate.yml`: `a` was `1` and is now `2`."]
    clone = Clone({})
    trusted(clone, from_fork=True).watch(GATE)
    assert clone.asked == []


def rules(files: TrustedFiles, base: dict[str, str] | None = None, **flags: str) -> JudgingRules:
    """The rules of a job with flags, which hold on the base branch too unless `base` has others."""
    head = values(flags)
    versions = Versions(head, (values(base) if base is not None else head) if files.has_base else None)
    return judging_rules(settings_of(**flags), files, versions, now=NOW)


def values(flags: dict[str, str]) -> dict[str, Any]:
    given = {"suite": "s.json", **{name.replace("_", "-"): value for name, value in flags.items()}}
    return values_by_input(gather(given, {}, None))


def test_flags_override_the_policy_and_its_waivers_are_those_of_the_named_baseline() -> None:
    write(b"preset: release\nmax_baseline_error_rate: 0.5\nmargin: 0.1\n")
    waivers = [waiver("a"), {**waiver("b"), "baseline_name": "other"}]
    write(registry(*waivers), Path(NAME))
    on_base = {NAME: registry(*waivers)}
    found = rules(own(on_base), policy="gate.yml")
    assert (found.policy.preset, found.policy.max_baseline_error_rate, found.policy.margin) == (
        "release",
        0.5,
        0.1,
    )
    assert [one.case_id for one in found.waivers] == ["a"]
    assert (found.registry_path, list(found.registry.baselines)) == (Path(NAME), ["main"])
    assert not found.from_base
    overridden = rules(
        own(on_base),
        policy="gate.yml",
        preset="pull-request",
        max_baseline_error_rate="0.1",
        baseline_name="other",
    )
    assert (overridden.policy.preset, overridden.policy.max_baseline_error_rate) == ("pull-request", 0.1)
    assert [one.case_id for one in overridden.waivers] == ["b"]


def test_waivers_that_a_change_brings_are_listed_as_not_reviewed_and_do_not_count() -> None:
    write(registry(waiver("a")), Path(NAME))
    found = rules(own({NAME: registry()}))
    assert found.waivers == []
    assert found.changes[1:] == found.loosened
    assert found.changes[0].startswith(f"`{NAME}`: `waiver w-a` is now")
    assert found.loosened == ["waiver `w-a` (case `a`) is not on the base branch, so it does not count."]
    reviewed = rules(own({NAME: registry(waiver("a"))}))
    assert (reviewed.loosened, [one.case_id for one in reviewed.waivers]) == ([], ["a"])


def test_a_change_is_held_to_the_preset_of_its_policy_and_to_that_of_the_base_branch() -> None:
    write(b"preset: pull-request\n")
    held = rules(own({"gate.yml": b"preset: release\n"}), policy="gate.yml")
    assert (held.is_release, held.blocks_on_inconclusive) == (True, True)
    assert held.loosened[0] == "`preset` was `release` and is now `pull-request`."
    assert held.base_policy is not None
    assert (held.policy.preset, held.base_policy.preset) == ("pull-request", "release")
    free = rules(own({"gate.yml": b"preset: pull-request\n"}), policy="gate.yml")
    assert (free.is_release, free.blocks_on_inconclusive, free.loosened) == (False, False, [])
    write(b"preset: release\n")
    tighter = rules(own({}), policy="gate.yml")
    assert (tighter.is_release, tighter.loosened) == (True, [])


def test_options_that_a_change_loosens_are_listed_with_the_flags_of_either_side() -> None:
    found = rules(own({}), {"min_pass_rate": "0.9"}, min_pass_rate="0.5")
    assert found.loosened == ["`min_pass_rate` was `0.9` and is now `0.5`."]
    assert rules(own({}), {"min_pass_rate": "0.5"}, min_pass_rate="0.9").loosened == []


def test_waivers_of_another_baseline_on_the_base_branch_review_nothing() -> None:
    write(registry(waiver("a")), Path(NAME))
    other = registry({**waiver("a"), "baseline_name": "other"})
    assert len(rules(own({NAME: other})).loosened) == 1


def test_a_base_branch_whose_policy_cannot_be_read_is_no_floor_and_no_pass() -> None:
    write(b"margin: 0.01\n")
    found = rules(own({"gate.yml": b"margin: much\n"}), policy="gate.yml")
    assert found.base_policy is None
    assert len(found.loosened) == len(found.warnings) == 1
    assert "could not be seen" in found.loosened[0]


def test_a_fork_brings_neither_waivers_nor_a_policy() -> None:
    write(registry(waiver("a")), Path(NAME))
    write(b"margin: 0.5\n")
    found = rules(fork({NAME: registry()}), policy="gate.yml")
    assert (found.waivers, found.policy.margin, found.from_base) == ([], None, True)
    [warning] = found.warnings
    assert warning.startswith(
        "The base branch has no `gate.yml`, and a fork cannot bring a policy of its own"
    )


def test_a_policy_that_does_not_exist_is_an_error_on_an_own_branch() -> None:
    with pytest.raises(InvalidInput, match="does not exist") as refused:
        rules(own({}), policy="gate.yml")
    assert refused.value.details["field"] == "policy"
    assert rules(own({})).policy.preset == "pull-request"


def test_judges_that_a_change_configures_otherwise_are_listed() -> None:
    write(b"regex:\n  hard: false\n", Path("judges.yml"))
    found = rules(own({"judges.yml": b"regex:\n  hard: true\n"}), judge_config="judges.yml")
    assert found.changes == ["`judges.yml`: `regex.hard` was `True` and is now `False`."]


@pytest.mark.parametrize(
    ("event", "allowed", "refused"),
    [("pull_request_target", False, True), ("pull_request_target", True, False), ("", False, False)],
)
def test_a_forks_code_does_not_run_beside_secrets_unless_the_workflow_allows_it(
    event: str, allowed: bool, refused: bool
) -> None:
    settings = settings_of(allow_fork_with_secrets=str(allowed).lower())
    platform = LocalDirectory(settings.for_platform, {}, io.StringIO())
    platform.__class__ = type("OfFork", (LocalDirectory,), {"run": CiRun(from_fork=True, fork_event=event)})
    if not refused:
        refuse_fork_with_secrets(settings, platform)
        return
    with pytest.raises(UsageError, match="`pull_request_target` gives the code of a fork") as caught:
        refuse_fork_with_secrets(settings, platform)
    assert caught.value.details["field"] == "allow-fork-with-secrets"
    assert "allow-fork-with-secrets: true" in caught.value.remedy


def test_a_preset_that_a_change_states_as_an_option_is_held_against_that_of_the_base_branch() -> None:
    found = rules(own({}), {"preset": "release"}, preset="pull-request")
    assert (found.policy.preset, found.is_release, found.blocks_on_inconclusive) == (
        "pull-request",
        True,
        True,
    )
    assert any(sentence.startswith("`preset` was `release`") for sentence in found.loosened)
    strict = rules(own({}), {"max_baseline_error_rate": "0.1"}, max_baseline_error_rate="0.9")
    assert strict.loosened == ["`max_baseline_error_rate` was `0.1` and is now `0.9`."]
