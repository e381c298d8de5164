"""An exception that a change makes for itself does not count, on any platform."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.errors import ExitCode
from tests.e2e.platforms import platform
from tests.e2e.runner import orders
from tests.extent import crossed
from tests.unit.ci.registries import NAME, registry, waiver

PLATFORMS = ("github", "gitlab", "buildkite", "circleci", "jenkins")
UNTIL = "2027-01-31T00:00:00+00:00"
EXCEPTIONS: dict[str, tuple[str, bytes]] = {
    "in quarantine": ("gate.yml", b"quarantine: [{case: order-2, reason: flaky, until: 2027-01-31}]\n"),
    "waived": (NAME, registry(waiver("order-2", expires_at=UNTIL))),
}
"""The file that a change brings, by what it makes of the case that it breaks."""


@crossed(name=PLATFORMS, way=tuple(EXCEPTIONS))
def test_a_change_does_not_excuse_the_case_that_it_breaks(
    name: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with platform(name, tmp_path) as ci:
        monkeypatch.chdir(ci.workspace)
        (ci.workspace / "gate.yml").write_text("preset: pull-request\n")
        ci.write_suite(*orders())
        assert ci.push(policy="gate.yml").code == ExitCode.OK
        ci.write_suite(*orders(bad=(2,)))
        file, data = EXCEPTIONS[way]
        (ci.workspace / file).parent.mkdir(exist_ok=True)
        (ci.workspace / file).write_bytes(data)
        ended = ci.change(policy="gate.yml")
        assert ended.code == ExitCode.NO, ended.text
        assert file in ended.text
        assert ci.violations == []
