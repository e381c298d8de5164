"""What every committed file keeps to: the project speaks to strangers, on any machine."""

import re
import subprocess
from pathlib import Path

import pytest

from agent_eval.ci.config import INPUTS, OUTPUTS
from agent_eval.config.gone import COMMANDS, OPTIONS
from agent_eval.config.options import variable
from agent_eval.config.rows.file import KEYS
from agent_eval.config.table import FLAGS

ROOT = Path(__file__).parents[2]

# Written with a class of one letter each, so that this file does not find itself.
FORBIDDEN = {
    "a path of somebody's machine": r"(?<![\w.])/(?:w[o]rk|r[o]ot|h[o]me/(?!runner\b)\w+|U[s]ers)/\w",
    "the host of a package registry": (
        r"\b(?:p[y]pi\.org/simple|files\.p[y]thonhosted\.org|registry\.n[p]mjs\.org|d[e]b\.debian\.org)"
    ),
    "a temporary file": r"/t[m]p/(?:seed|bash_jobs)",
}


def committed_texts() -> list[tuple[str, str]]:
    """Name and text of every file that git tracks; binary files are left out."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    found = []
    for name in sorted(filter(None, listing.stdout.split("\0"))):
        try:
            found.append((name, (ROOT / name).read_text(encoding="utf-8")))
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
    return found


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: nothing says what is committed")
@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_no_file_names(what):
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name, text in committed_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"{what}:\n" + "\n".join(found)


NAMES_WHAT_IS_GONE = {
    "CHANGELOG.md": "says when it went",
    "tests/fixtures/packs/0.1.0/README.md": "has the commands of that version",
    "tests/contract/test_sources.py": "is this table",
    "tests/container/docker.py": "calls `env --ignore-environment`",
    **dict.fromkeys(("scripts/release.py", "scripts/release_local.sh"), "has a `--layout` of its own"),
    **dict.fromkeys((".github/workflows/release.yml", "tests/contract/test_release.py"), "call that script"),
    **dict.fromkeys(
        (
            *("tests/e2e/test_dask.py", "tests/e2e/test_gate_outcomes.py", "tests/unit/ci/test_config.py"),
            *("tests/unit/benchmarks/test_generate.py", "tests/unit/cli/test_options_agent.py"),
            *("tests/unit/config/test_gone.py", "tests/unit/cli/test_history.py"),
        ),
        "tests that it is refused",
    ),
    **dict.fromkeys(
        ("agent_eval/storage/redaction_rules.py", "tests/unit/processes/test_child.py"),
        "a job that still sets the variable must be told so in words that are not redacted",
    ),
}
"""By file: why it may name an option, variable, input or command that is gone."""


def of_what_is_gone() -> re.Pattern[str]:
    """As flag, as variable of a job, as line of its inputs, as command."""
    there = {name for row in (*FLAGS, *INPUTS) for name in row.names}
    names = sorted({*OPTIONS, *KEYS} - there)
    inputs = [name for name in names if "-" in name and name not in {output.name for output in OUTPUTS}]
    flags, lines = ("|".join(map(re.escape, each)) for each in (names, inputs))
    return re.compile(
        rf"(?<![\w-])--(?:{flags})(?![\w-])|\b(?:{'|'.join(map(variable, names))})\b"
        rf"|^\s*(?:- )?(?:{lines}):|agent-eval (?:{'|'.join(COMMANDS)})\b",
        re.MULTILINE,
    )


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: nothing says what is committed")
def test_no_file_names_an_option_that_is_gone() -> None:
    gone = of_what_is_gone()
    found = {name: sorted(set(gone.findall(text))) for name, text in committed_texts() if gone.search(text)}
    assert {name: names for name, names in found.items() if name not in NAMES_WHAT_IS_GONE} == {}
    assert sorted(NAMES_WHAT_IS_GONE.keys() - found.keys()) == [], "exceptions that are none"


@pytest.mark.parametrize(
    "line",
    ["run: agent-eval ci --base-cache x", "  base-cache: x", "AGENT_EVAL_BASE_CACHE=x", "`--max-steps 3`"],
)
def test_an_option_that_is_gone_is_found_in_a_flag_a_variable_and_an_input(line: str) -> None:
    assert of_what_is_gone().search(line)


def test_every_room_with_modules_is_a_package():
    rooms = {path.parent for path in (ROOT / "agent_eval").rglob("*.py")}
    assert sorted(str(room) for room in rooms if not (room / "__init__.py").is_file()) == []
