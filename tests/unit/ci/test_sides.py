"""Both sides are their commits and nothing else: neither has what the other, or an earlier step, left."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_eval.agents.catalog import open_agent
from agent_eval.ci.clone import PrivateClone
from agent_eval.ci.config import Setup
from agent_eval.ci.sides import NoSuchDirectory, SetupFailed, Side
from agent_eval.ci.workspace import Altered
from agent_eval.config.spec import AgentSpec
from agent_eval.errors import ExitCode
from agent_eval.processes.child import allowed_environment, run_child
from tests.fakes.git_host import commit

PATH = os.environ["PATH"]


@dataclass
class World:
    """A checkout with a base and a change, and the home of the job's user."""

    top: Path
    home: Path
    base: str
    clone: PrivateClone

    def environ(self, **more: str) -> dict[str, str]:
        return {"PATH": PATH, "HOME": str(self.home), **more}

    def side(self, name: str = "change", start: Path | None = None, **more: str) -> Side:
        at = self.clone.head if name == "change" else self.base
        return Side(self.clone, name, at, self.environ(**more), start or self.top)  # type: ignore[arg-type]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    top, home = tmp_path / "work" / "shop", tmp_path / "home"
    home.mkdir()
    base = commit(top, **{"agent.py": "base", "inner/agent.py": "inner", ".gitignore": "ignored\n*.log\n"})
    commit(top, **{"agent.py": "change"})
    with closing(PrivateClone.of(top, {"PATH": PATH, "HOME": str(home)})) as clone:
        yield World(top, home, base, clone)


def shell(side: Side, command: str, names: tuple[str, ...] = ()) -> str:
    """Run a command as the agent of a side, and return what it prints."""
    environ = allowed_environment(side.environ, names)
    done = run_child(["/bin/sh", "-e", "-c", command], env=environ, cwd=side.directory)
    assert done.failure is None, done.stderr
    return done.stdout.decode().strip()


def test_each_side_is_its_commit(world: World) -> None:
    """Not what an earlier step built or altered in the checkout."""
    (world.top / "agent.py").write_text("edited")
    (world.top / "ignored").write_text("built by an earlier step")
    for name, text in (("change", "change"), ("base", "base")):
        side = world.side(name)
        assert shell(side, "cat agent.py; ls") == f"{text}agent.py\ninner"
        assert shell(side, "git rev-parse HEAD") == (world.base if name == "base" else world.clone.head)


def test_sides_share_no_home_caches_or_temporary_directory(world: World) -> None:
    places = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "UV_CACHE_DIR", "npm_config_cache")
    folders = " ".join(f'"${{{name}}}"' for name in places)
    leave = f"for place in {folders}; do mkdir -p $place; test ! -e $place/left; touch $place/left; done"
    shared = {
        name: str(world.home / "caches") for name in ("UV_CACHE_DIR", "npm_config_cache", "XDG_CACHE_HOME")
    }
    for name in ("change", "base"):
        shell(world.side(name, **shared), leave, tuple(shared))
    assert not (world.home / "caches").exists()


def test_no_directory_above_a_worktree_is_the_temporary_one(world: World) -> None:
    """Node looks upwards for modules, and whatever runs leaves files in `/tmp`."""
    sides = [world.side(name) for name in ("change", "base")]
    assert all(side.top.is_relative_to(world.home / ".cache") for side in sides)
    assert sides[0].top.parent != sides[1].top.parent


def test_settings_of_package_managers_are_copied(world: World) -> None:
    (world.home / ".npmrc").write_text("registry=https://packages.example.org")
    (world.home / ".config" / "pip").mkdir(parents=True)
    (world.home / ".config" / "pip" / "pip.conf").write_text("[global]")
    copied = shell(world.side(), "cat ~/.npmrc ~/.config/pip/pip.conf; echo altered > ~/.npmrc")
    assert copied == "registry=https://packages.example.org[global]"
    assert (world.home / ".npmrc").read_text() == "registry=https://packages.example.org"


def test_tools_are_found_before_home_changes(world: World) -> None:
    for below in (".rustup", ".pyenv", ".cargo/bin"):
        (world.home / below).mkdir(parents=True)
    tool = world.home / ".cargo" / "bin" / "our-cargo"
    tool.write_text("#!/bin/sh\necho cargo with $RUSTUP_HOME\n")
    tool.chmod(0o755)
    side = world.side(NVM_DIR="/opt/nvm")
    assert shell(side, "our-cargo") == f"cargo with {world.home}/.rustup"
    assert shell(side, "echo $PYENV_ROOT $NVM_DIR") == f"{world.home}/.pyenv /opt/nvm"


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")
def test_cargo_of_rustup_works(world: World) -> None:
    side = Side(world.clone, "change", world.clone.head, os.environ, world.top)
    assert shell(side, "cargo --version").startswith("cargo ")


def test_no_variable_leads_into_the_checkout(world: World) -> None:
    """But a directory beside it, whose name begins as that of the checkout, stays."""
    path = f"{world.top}/bin:{world.top}-tools/bin:{PATH}"
    side = world.side(PATH=path, DATA=f"file://{world.top}/data", VIRTUAL_ENV="/opt/venv")
    assert shell(side, 'echo "${VIRTUAL_ENV-none}"') == "none"
    seen = shell(side, "echo $PATH $DATA", ("DATA",))
    assert seen.startswith(f"{side.top}/bin:{world.top}-tools/bin:")
    assert seen.endswith(f"file://{side.top}/data")


def test_a_file_that_an_earlier_step_made_for_a_variable_is_found(world: World) -> None:
    """A step writes credentials into the checkout; what is committed is the side's own."""
    (world.top / "credentials.json").write_text("key of an earlier step")
    variables = {"CREDENTIALS": f"{world.top}/credentials.json", "PROGRAM": f"{world.top}/agent.py"}
    side = world.side("base", **variables)
    assert shell(side, "cat $CREDENTIALS $PROGRAM", tuple(variables)) == "key of an earlier stepbase"


def test_a_side_works_in_the_same_directory_as_the_job(world: World) -> None:
    side = world.side(start=world.top / "inner")
    assert shell(side, "cat agent.py") == "inner"
    assert side.path(world.top / "prompt.txt") == side.top / "prompt.txt"
    assert side.path(Path("prompt.txt")) == side.top / "inner" / "prompt.txt"


def test_commands_that_name_the_checkout_run_in_the_worktree(world: World) -> None:
    side = world.side("base")
    side.set_up(Setup(command=f"cp {world.top}/agent.py {world.top}/built"), print)
    assert (side.top / "built").read_text() == "base"
    spec = AgentSpec(command=f"{world.top}/run --in {world.top}-data", repair_command=f"sh {world.top}/r")
    agent = side.agent(spec)
    assert agent.command == f"{side.top}/run --in {world.top}-data"
    assert agent.repair_command == f"sh {side.top}/r"
    assert side.agent(agent) == agent


def test_a_directory_that_the_base_does_not_have_is_named(world: World) -> None:
    (world.top / "new").mkdir()
    with pytest.raises(NoSuchDirectory, match="There is no directory `new` in commit"):
        world.side("base", start=world.top / "new")


def test_a_setup_runs_in_the_worktree(world: World) -> None:
    side, said = world.side("base"), list[str]()
    side.set_up(Setup(command="cp agent.py built; echo generated > agent.py; touch $HOME/x"), said.append)
    assert (side.top / "built").read_text() == "base"
    assert not (world.top / "built").exists()
    assert said[0] == "Running `setup` of the base."
    assert side.sources.altered() is None
    with pytest.raises(SetupFailed) as failed:
        side.set_up(Setup(command="exit 3"), said.append)
    assert said[-1] == "`setup` exited with code 3. It printed nothing."
    assert failed.value.remedy == "Correct it; variables it needs are named in `setup.env`."


def test_an_agent_runs_in_its_worktree_with_the_system_prompt_of_its_side(world: World) -> None:
    (world.top / "agent.py").write_text("edited")
    side, command = world.side("base", SHOP="eu"), f"command:{sys.executable} agent.py"
    for path in (Path("agent.py"), world.top / "agent.py"):
        options = side.options(AgentSpec(name=command, environment=("SHOP",), system_prompt=path))
        assert (options.cwd, options.system) == (side.directory, "base")
    open_agent(command, side.options(AgentSpec(name=command))).close()


def test_altered_sources_are_named_and_logs_are_not(world: World) -> None:
    side = world.side("base")
    for name in ("app.log", "ignored", "untracked"):
        (side.top / name).write_text("of the agent")
    assert side.sources.altered() is None
    side.refuse_altered()
    with open(side.top / "agent.py", "a") as file:
        file.write("\n# more")
    assert side.sources.altered() == "agent.py"
    with pytest.raises(Altered) as raised:
        side.refuse_altered()
    assert raised.value.exit_code == ExitCode.NOT_EVALUABLE
    assert raised.value.message == "Files of the base were altered while the other side ran: `agent.py`."
    with pytest.raises(Altered):
        side.set_up(Setup(), print)
    side.sources.renew()
    assert side.sources.altered() is None


@pytest.mark.parametrize("how", ["removed", "linked", "executable"])
def test_what_else_is_an_altered_source(world: World, how: str) -> None:
    side = world.side()
    source = side.top / "inner" / "agent.py"
    if how == "executable":
        source.chmod(0o755)
    else:
        source.unlink()
    if how == "linked":
        source.symlink_to("../agent.py")
    assert side.sources.altered() == "inner/agent.py"


def environment(world: World) -> tuple[Path, Mapping[str, str]]:
    """Make an environment that both sides use, with an editable install of the change."""
    packages = world.home / "venv" / "lib" / "python3.11" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "lib").mkdir()
    (world.home / "venv" / "bin").mkdir()
    (packages / "shop.pth").write_text("/change")
    return packages, {"PATH": f"{world.home}/venv/bin:{PATH}"}


@pytest.mark.parametrize(
    ("how", "path", "program"),
    [
        ("echo /base > {}/shop.pth", "shop.pth", "shop --serve"),
        ("mkdir {}/shop-2.dist-info", "shop-2.dist-info", "shop --serve"),
        ("rm -r {0}/lib; mkdir {0}/other {0}/lib", "lib", "shop --serve"),
        ("echo x > {}/../../../bin/shop", "bin/shop", "shop --serve"),
        ("echo /base > {}/shop.pth", "shop.pth", "/venv/bin/python agent.py"),
    ],
)
def test_a_setup_that_alters_the_other_side_is_seen(world: World, how: str, path: str, program: str) -> None:
    packages, variables = environment(world)
    if program.startswith("/"):
        program, variables = f"{world.home}{program}", {}
    change, base = world.side("change", **variables), world.side("base", **variables)
    change.note_installed(program)
    base.set_up(Setup(command=how.format(packages)), print)
    found = change.installed_altered(program)
    assert found is not None
    assert found.endswith(path)


def test_a_setup_that_finds_everything_installed_alters_nothing(world: World) -> None:
    packages, variables = environment(world)
    change, base = world.side("change", **variables), world.side("base", **variables)
    change.note_installed("shop")
    own = f"mkdir -p {packages}/lib/__pycache__ {packages}/__pycache__ .venv/bin; touch ~/x"
    base.set_up(Setup(command=own), print)
    assert change.installed_altered("shop") is None


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_a_package_that_is_linked_for_all_of_node_is_seen(world: World) -> None:
    prefix = world.home / "node"
    prefix.mkdir()
    (world.top / "package.json").write_text('{"name": "shop", "version": "1.0.0", "bin": "agent.py"}')
    head = commit(world.top)
    world.clone.fetch(head)
    environ = world.environ(PATH=f"{prefix}/bin:{PATH}", npm_config_prefix=str(prefix))
    change = Side(world.clone, "change", head, environ, world.top)
    base = Side(world.clone, "base", head, environ, world.top)
    link = Setup(command="npm link --offline --no-audit --no-fund", environment=("npm_config_prefix",))
    change.set_up(link, print)
    change.note_installed("shop")
    base.set_up(link, print)
    assert change.installed_altered("shop") is not None
