"""What the architecture page and the contributing guide say is held to the code.

Only `storage` opens files for writing: atomic writes, redaction and limits live there. Only a CI platform's
own folder names it, so that a further platform needs no change elsewhere.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agent_eval"
PAGES = ("docs/architecture.md", "CONTRIBUTING.md")
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
LONGEST_MODULE = 600
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}


def rows(section: str) -> Iterator[list[str]]:
    """The cells of every table row of a section of the architecture page, its heads left out."""
    text = ARCHITECTURE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    assert text, f"there is no section {section!r}"
    lines = [line for line in text.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def configured_floors() -> list[set[str]]:
    """The packages of each floor as import-linter holds them, lowest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["type"] == "layers")
    return [{name.strip(" ()") for name in layer.split("|")} for layer in reversed(contract["layers"])]


def packages() -> set[str]:
    found = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    return found | {path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__")}


def test_every_package_is_listed_on_its_floor():
    floors = configured_floors()
    listed = {name.strip("`"): int(floor) for floor, name, _ in rows("Packages and floors")}
    assert set(listed) == packages()
    assert {name: floor for floor, row in enumerate(floors, 1) for name in row if name in listed} == listed


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:agent_eval|docs|tests|benchmarks|ci-templates|scripts)/[\w./-]*)`", text))
    assert named
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_that_a_page_names_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|true )make ([a-z][\w-]*)", text, re.MULTILINE))
    assert named
    missing = {name for name in named if not re.search(rf"^(?:\w+ )*{name}\b.*:", makefile, re.MULTILINE)}
    assert missing == set()


def test_every_table_that_a_new_part_is_registered_in_exists():
    tables = {
        (row[2].split("`")[3], row[2].split("`")[1]) for row in rows("To add …") if row[2].count("`") == 4
    }
    assert len(tables) >= 3
    for path, table in tables:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^{table}\b", text, re.MULTILINE), (path, table)


WORDS = (ROOT / "docs/reference/words.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^\| ([a-z][a-z ]+) \| [A-Z]", WORDS, re.MULTILINE)
GONE = (
    *("tiers?", "tracked", "collecting", "expected fail", "promote me", "excuses?", "suspects?"),
    *("confirmations?", "fresh trials?", "confirmed", "cleared", "not graded", "zero tolerance", "topics?"),
    *("anchor", "non-inferiority", "loosened", "quality budget", "judged twice", "pooled baseline"),
    *("history key", "drift issue"),
)
"""Words that have plainer ones; the page on versions may name what an earlier version called so."""


def prose(page: Path) -> str:
    """A page without what is in code spans and fences."""
    text = re.sub(r"^(`{3,}).*?^\1`*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`", "", text)


def test_the_glossary_has_each_word_once_and_none_that_no_guide_uses() -> None:
    assert len(TERMS) == len(set(TERMS)) == 25
    guides = " ".join(prose(page) for page in (ROOT / "docs" / "guides").glob("*.md")).lower()
    assert [term for term in TERMS if not re.search(rf"\b{term}", guides)] == []


GUIDES = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if page.parent.name != "decisions" and page.name != "upgrading.md"
)


FIRST = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "AGENTS")]


@pytest.mark.parametrize("page", [*FIRST, *GUIDES], ids=lambda page: page.stem)
def test_no_page_speaks_a_dialect(page: Path) -> None:
    assert re.findall(rf"\b(?:{'|'.join(GONE)})\b", prose(page), re.IGNORECASE) == []


def test_no_module_is_too_long_to_read_or_named_vaguely():
    modules = sorted(PACKAGE.rglob("*.py"))
    lengths = {str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines()) for path in modules}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}
    assert [str(path) for path in modules if path.stem in VAGUE] == []


def test_the_drawing_names_every_step_of_the_data():
    drawing = (ROOT / "docs/architecture.svg").read_text(encoding="utf-8")
    steps = (
        "suite",
        "agent",
        "traces",
        "verdicts",
        "evidence pack",
        "comparison",
        "gate decision",
        "reports",
    )
    assert [step for step in steps if f">{step}<" not in drawing] == []


WRITING_METHODS = {"write_text", "write_bytes", "touch", "rename", "symlink_to", "copyfile"}
WRITING_MODES = set("wax+")


def writes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every call that creates or changes a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in WRITING_METHODS or (name in {"open", "fdopen"} and opens_for_writing(node)):
            yield node.lineno, name


def opens_for_writing(call: ast.Call) -> bool:
    """Whether a mode among the arguments says so."""
    texts = [
        argument.value
        for argument in (*call.args, *(keyword.value for keyword in call.keywords))
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    return any(len(text) <= 3 and WRITING_MODES & set(text) for text in texts)


def test_only_storage_writes_files():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0] != "storage"
        for line, name in writes(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


def test_a_call_that_writes_is_found():
    text = "open('a', 'w'); path.open(mode='ab'); open('r'); path.write_text('x'); path.read_text()"
    assert [name for _, name in writes(ast.parse(text))] == ["open", "open", "write_text"]


PLATFORMS = "ci/platforms/"
SHARED = {"base", "catalog", "spec"}
"""Modules of the folder of platforms that belong to none of them."""

NAMES = re.compile(
    r'(?i:github|gitlab|buildkite|circleci|jenkins)(?!\.com/google/re2)|\bGH_|\bCI_JOB_|"INPUT_[\"{]'
)
"""A platform, or a variable of its runner."""

ITS_WORDS = re.compile(
    r"pull request|merge request|merge group|job'?s?.summary|step.summary|workflow run"
    r"|actions: read|pull-requests: write",
    re.IGNORECASE,
)
"""What one platform calls things, and how it is told to permit them."""

ALLOWED = {
    "ci/platforms/catalog.py": "its table names every platform",
    "ci/platforms/spec.py": "the example of a platform", "ci/sides.py": "what a pointer of LFS begins with",
    "cli/main.py": "what the program is for", "cli/ci.py": "what `init` asks at a terminal",
    "demo/scaffold.py": "the table of the files that `init` writes for each platform",
    "demo/support_agent.py": "the story of the demonstration",
    "config/gone.py": "the variables that an action gave its inputs in",
    "config/rows/commands.py": "the choices of `init --ci`",
    "importers/agent_sessions.py": "the name of a tool whose sessions it reads",
    "storage/redaction_rules.py": "the shapes of the tokens that vendors give",
}  # fmt: skip
"""Files that may, and why."""


def modules() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def platform_of(module: str) -> str:
    """The platform to whose folder or file a module belongs; empty for none."""
    if not module.startswith(PLATFORMS):
        return ""
    name = module.removeprefix(PLATFORMS).split("/")[0].removesuffix(".py")
    return "" if name in SHARED | {"__init__"} else name.partition("_")[0]


@pytest.mark.parametrize("pattern", [NAMES, ITS_WORDS], ids=["names", "terms"])
def test_only_a_platforms_own_folder_speaks_of_it(pattern: re.Pattern[str]) -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in modules()
        if not platform_of(name) and name not in ALLOWED
        for number, line in enumerate((PACKAGE / name).read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "a platform's words belong into its `PlatformSpec`:\n" + "\n".join(found)


@pytest.mark.parametrize("name", sorted(ALLOWED))
def test_every_exception_is_still_needed(name: str) -> None:
    text = (PACKAGE / name).read_text(encoding="utf-8")
    assert NAMES.search(text) or ITS_WORDS.search(text)


def test_no_module_imports_a_platform_but_itself_and_the_demonstration() -> None:
    imports = re.compile(r"^\s*from agent_eval\.ci\.platforms\.(\w+)(?:\.\w+)? import", re.MULTILINE)
    found = {
        (name, folder)
        for name in modules()
        for folder in imports.findall((PACKAGE / name).read_text(encoding="utf-8"))
        if folder not in SHARED and folder.partition("_")[0] != platform_of(name)
    }
    # The one runs outside CI; the other has no pull requests of its own, and comments on those of GitHub.
    assert found == {("ci/demonstration.py", "local"), ("ci/platforms/circleci.py", "github_api")}
