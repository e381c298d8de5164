"""Which files are the code of a judge, so that a judge that changed is seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_eval.judges.catalog import load_judges
from agent_eval.judges.code import code_digest, code_digests


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "repository").mkdir()
    monkeypatch.chdir(tmp_path / "repository")
    Path("check.py").write_text("print(1)")
    return tmp_path


def of_command(*command: str) -> str | None:
    judges = load_judges(["command", "regex"], {"command": {"command": list(command)}})
    found = code_digests(judges)
    assert found.keys() <= {"command"}
    return found.get("command")


def test_a_built_in_judge_has_no_code_of_its_own() -> None:
    assert code_digests(load_judges(["regex", "policy", "prompt_injection"])) == {}


@pytest.mark.parametrize(
    "command", [("python", "check.py"), ("./check.py",), ("sh", "-c", "python check.py | tail -1")]
)
def test_the_files_that_a_command_names_are_its_code(command: tuple[str, ...], here: Path) -> None:
    before = of_command(*command)
    assert before is not None
    assert of_command(*command) == before
    Path("check.py").write_text("print(2)")
    assert of_command(*command) != before


@pytest.mark.parametrize(
    "command", [("/bin/sh", "-c", "true"), ("python", "-c", "print('"), ("x" * 5_000,), ("a\0b",), ("..",)]
)
def test_what_is_no_file_of_the_repository_is_none(command: tuple[str, ...], here: Path) -> None:
    assert of_command(*command) is None


def test_a_file_beside_the_repository_is_none_also_behind_a_link(here: Path) -> None:
    (here / "outside.py").write_text("print(1)")
    Path("link.py").symlink_to(here / "outside.py")
    assert of_command("python", "../outside.py") is None
    assert of_command("python", "link.py") is None


def test_the_code_of_a_plug_in_is_its_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    text = (
        "from agent_eval.judges.base import BaseJudge\n"
        "class Fine(BaseJudge):\n"
        "    judge_id = 'all_is_fine'\n"
        "    def evaluate(self, case, trace):\n"
        "        return self.passed(case, 'fine')\n"
    )
    changed = text.replace("'fine')", "'well')")
    for name, code in (("fine_one", text), ("fine_two", text), ("fine_three", changed)):
        (tmp_path / f"{name}.py").write_text(code)
    one, two, three = (
        code_digests(load_judges([f"{name}:Fine"]))["all_is_fine"]
        for name in ("fine_one", "fine_two", "fine_three")
    )
    assert one == two != three


SAME = [
    "class A:\n    def f(self):\n        return 'x'\n",
    "# a comment\nclass A:  # another\n\n    def f(self):\n        return 'x'\n",
    '"""What."""\nclass A:\n    """What."""\n    def f(self):\n        """How."""\n        return "x"\n',
    "class A:\n  def f(\n    self,\n  ):\n    return ('x')\n",
]


def test_comments_docstrings_and_layout_are_no_code(here: Path) -> None:
    digests = set()
    for text in SAME:
        Path("check.py").write_text(text)
        digests.add(code_digest(Path("check.py")))
    assert len(digests) == 1
    for text in (SAME[0].replace("'x'", "'y'"), SAME[0].replace("f(", "g("), SAME[0].replace("self", "a")):
        Path("check.py").write_text(text)
        digests.add(code_digest(Path("check.py")))
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("name", "comment"), [("check.sh", "# why"), ("check.js", "// why"), ("Check.lean", "-- why")]
)
def test_lines_of_comment_in_other_languages_are_no_code_either(name: str, comment: str, here: Path) -> None:
    found = []
    for text in ("first\nlast\n", f"{comment}\nfirst\n\n  {comment}\nlast\n", f"first {comment}\nlast\n"):
        Path(name).write_text(text)
        found.append(code_digest(Path(name)))
    assert found[0] == found[1] != found[2]


def test_every_line_of_what_may_be_no_program_counts(here: Path) -> None:
    Path("rubric.md").write_text("# Be polite\n")
    before = code_digest(Path("rubric.md"))
    Path("rubric.md").write_text("# Be rude\n")
    assert code_digest(Path("rubric.md")) != before


def test_python_that_cannot_be_parsed_is_taken_as_it_is(here: Path) -> None:
    Path("check.py").write_text("def (:\n")
    assert code_digest(Path("check.py")) is not None
