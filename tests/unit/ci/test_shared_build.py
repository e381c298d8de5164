"""Whether both sides of a confirmation would run one program."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent_eval.ci.shared_build import first_altered, names_its_tree, why_same_build, why_shared


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "base"
    (top / "shop").mkdir(parents=True)
    (top / "agent.py").write_text("")
    (top / "agent.jar").write_text("")
    (top / "shop" / "__init__.py").write_text("")
    return top


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    prefix = tmp_path / "prefix"
    for name in ("bin", "lib/python3/site-packages"):
        (prefix / name).mkdir(parents=True)
    return prefix


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("python agent.py", True),
        ("python -m shop", True),
        ("./agent.py --fast", True),
        ("node --require=./agent.py shop/__init__.py", True),
        ("env --file=agent.py run", False),
        ("python /etc/hostname --config agent.py", False),
        ("python -c 'import shop' agent.py", False),
        ("python -m json agent.py", False),
        ("java -jar agent.jar", True),
        ("java -cp shop:/etc Main", False),
        ("java -jar /opt/agent.jar --config agent.py", False),
        ("docker run -v ./agent.py:/agent.py image", False),
        ("my-agent --config agent.py", False),
        ("make -C /etc run", False),
        ("uv run --directory /etc agent.py", False),
        ("npm start", True),
        ("my-agent --fast", False),
        ("python -m json", False),
        ("/opt/agent/run .", False),
        ("python ../base2/agent.py", False),
    ],
)
def test_a_command_names_its_tree_by_a_file_a_module_or_a_tool_that_reads_it(
    tree: Path, command: str, names: bool
) -> None:
    assert names_its_tree(command, tree) is names
    assert bool(why_shared(command, tree, tree.parent / "change", {}, 0.0)) is not names


@pytest.mark.parametrize(
    "command",
    [
        "python {change}/agent.py",
        "python -S {change}/agent.py --config agent.py",
        "python agent.py --library={change}/lib",
        "python agent.py --library {change}",
        "python agent.py -v here:{change}/lib:ro",
        "python -I{change}/lib agent.py",
        "python ../change/agent.py",
        "python {change}/../change/agent.py",
        "python {link}/agent.py agent.py",
        "make -C {change} run",
        "uv run --directory {change} agent.py",
        "sh agent.py 'cd {change} && run'",
    ],
)
def test_a_command_that_names_a_path_of_the_change_is_shared(tree: Path, command: str) -> None:
    change, link = tree.parent / "change", tree.parent / "link"
    change.mkdir()
    (change / "agent.py").write_text("")
    link.symlink_to(change)
    why = why_shared(command.format(change=change, link=link), tree, change, {}, 0.0)
    assert "names a path in the checkout of the change" in why
    assert why_shared("python agent.py --library ../changes", tree, change, {}, 0.0) == ""


def test_a_package_that_is_a_link_into_the_change_is_noticed(tree: Path, installed: Path) -> None:
    workspace = tree.parent / "change"
    workspace.mkdir()
    environ = {"PATH": str(installed / "bin")}
    later = time.time() + 3600
    assert why_shared("python agent.py", tree, workspace, environ, later) == ""
    pth = installed / "lib/python3/site-packages/shop.pth"
    pth.write_text(f"{workspace}/src\n")
    assert "shop.pth" in why_shared("python agent.py", tree, workspace, environ, later)
    pth.unlink()
    (installed / "bin" / "shop").symlink_to(workspace)
    assert "leads from the installed packages" in why_shared(
        "python agent.py", tree, workspace, environ, later
    )


def test_a_setup_that_alters_what_both_sides_use_is_noticed(tree: Path, installed: Path) -> None:
    environ = {"PATH": str(installed / "bin")}
    (installed / "bin" / "my-agent").write_text("#!/bin/sh\n")
    # The clock of the file system may be a little behind.
    since = (installed / "bin" / "my-agent").stat().st_ctime - 0.001
    why = why_shared("python agent.py", tree, tree.parent / "change", environ, since)
    assert "altered `my-agent`" in why
    os.utime(installed / "bin" / "my-agent", (0, 0))
    assert why_shared("python agent.py", tree, tree.parent / "change", environ, since) == why


@pytest.mark.parametrize(
    ("place", "environ", "command"),
    [
        ("lib/node_modules/dep/index.js", {"PATH": "{0}/bin"}, "python agent.py"),
        ("lib/python3/site-packages/dep.py", {"PATH": ""}, "{0}/bin/python agent.py"),
        ("lib/python3/site-packages/dep.py", {"PATH": "{0}/links"}, "python agent.py"),
        ("envs/agent/lib/dep.py", {"PATH": "{0}/condabin"}, "python agent.py"),
        ("versions/3.12/lib/dep.py", {"PATH": "{0}/shims"}, "python agent.py"),
        (".local/lib/python3/site-packages/dep.py", {"HOME": "{0}"}, "python agent.py"),
        ("lib/dep.py", {"VIRTUAL_ENV": "{0}"}, "python agent.py"),
        ("vendored/dep.py", {"PYTHONPATH": "{0}/vendored"}, "python agent.py"),
    ],
    ids=[
        "npm install -g",
        "an environment elsewhere that the command names",
        "an interpreter behind a link",
        "an environment of conda",
        "pyenv",
        "pip install --user",
        "an active environment",
        "pip install --target",
    ],
)
def test_what_setup_installs_outside_of_the_checkout_is_noticed_wherever_it_is(
    tree: Path, tmp_path: Path, place: str, environ: dict[str, str], command: str
) -> None:
    prefix = tmp_path / "prefix"
    for name in ("bin", "links", Path(place).parent):
        (prefix / name).mkdir(parents=True, exist_ok=True)
    (prefix / "bin" / "python").write_text("")
    (prefix / "bin" / "python").chmod(0o755)
    (prefix / "links" / "python").symlink_to(prefix / "bin" / "python")
    time.sleep(0.02)  # The clock of the file system is coarse.
    (prefix / place).write_text("")
    since = (prefix / place).stat().st_ctime - 0.001
    seen = {name: value.format(prefix) for name, value in environ.items()}
    why = why_shared(command.format(prefix), tree, tmp_path / "change", seen, since)
    assert f"altered `{Path(place).name}`" in why


@pytest.mark.parametrize("path", ["{tree}/.venv/bin", ".venv/bin"])
def test_an_environment_in_the_checkout_is_on_the_path_without_a_doubt(
    tree: Path, tmp_path: Path, path: str
) -> None:
    change = tmp_path / "change"
    for side in (tree, change):
        for name in ("bin/python", "lib/python3/site-packages/dep.py"):
            (side / ".venv" / name).parent.mkdir(parents=True)
            (side / ".venv" / name).write_text("")
        (side / ".venv" / "bin" / "python").chmod(0o755)
    environ = {"PATH": path.format(tree=tree), "VIRTUAL_ENV": str(tree / ".venv")}
    for command in ("python agent.py", ".venv/bin/python agent.py"):
        assert why_shared(command, tree, change, environ, 0.0) == ""
        assert first_altered(command, tree, (tree, change), environ, (0.0, time.time() + 9)) is None


def test_what_was_installed_before_the_span_or_after_it_is_not_found(tree: Path, installed: Path) -> None:
    environ, dep = {"PATH": str(installed / "bin")}, installed / "lib" / "dep.py"
    dep.write_text("")
    changed = dep.stat().st_ctime
    spans = ((changed - 9, changed + 9), (changed + 1, changed + 9), (changed - 9, changed - 1))
    found = [first_altered("python agent.py", tree, (tree,), environ, span) for span in spans]
    assert found == ["dep.py", None, None]


@pytest.mark.parametrize(
    ("command", "tracked", "names"),
    [
        ("node dist/agent.js", (), True),
        ("node --require=dist/agent.js main.js", ("main.js",), True),
        ("./dist/agent.js", (), True),
        ("node dist/agent.js", ("dist/agent.js",), False),
        ("node other.js", (), False),
        ("node /etc/hostname", (), False),
        ("npm start", (), False),
    ],
    ids=[
        "a built file",
        "one in an option",
        "one that is the program",
        "a source",
        "a file that only the merge base has",
        "a file from elsewhere",
        "no file",
    ],
)
def test_a_file_that_was_built_and_is_the_same_on_both_sides_is_named(
    tmp_path: Path, command: str, tracked: tuple[str, ...], names: bool
) -> None:
    base, change = tmp_path / "base", tmp_path / "change"
    for top in (base, change):
        (top / "dist").mkdir(parents=True)
        (top / "dist" / "agent.js").write_text("built()")
        (top / "main.js").write_text("")
    (base / "other.js").write_text("")
    said = why_same_build(command, base, (base, change), frozenset(tracked))
    assert said.startswith("`dist/agent.js` is the same on both sides") is names
    (change / "dist" / "agent.js").write_text("built(again)")
    assert why_same_build(command, base, (base, change), frozenset(tracked)) == ""
