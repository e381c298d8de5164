"""The front door: help, version, errors, exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
import pytest

from agent_eval import __version__
from agent_eval.cli import main as front
from agent_eval.cli.main import ALIASES, COMMANDS, GROUPS, main, unaliased
from agent_eval.errors import InvalidInput, StorageError
from agent_eval.storage.redaction_rules import is_secret_name
from tests.unit.cli.shell import Shell, Terminal

PROGRAM = [sys.executable, "-m", "agent_eval"]


def test_alone_it_lists_the_commands_by_group_and_that_is_no_error(cli: Shell) -> None:
    shown = cli.out()
    assert shown == cli.out("-h") == cli.out("--help") == cli.out("help")
    listed = re.findall(r"^[A-Z]?[A-Za-z]* +([a-z-]+)  +\S", shown.partition("Examples")[0], re.MULTILINE)
    grouped = {name for name, entry in {**COMMANDS, **GROUPS}.items() if entry.group}
    assert (set(listed), len(listed)) == (grouped, len(grouped))
    assert 26 <= len(listed) <= 30


@pytest.mark.parametrize("group", [name for name, entry in GROUPS.items() if " | " in entry.summary])
def test_a_group_that_lists_its_commands_lists_all_but_its_usual_one(group: str) -> None:
    listed = set(re.findall(r"\w+(?= \| )|(?<= \| )\w+", GROUPS[group].summary))
    every = {name.split()[1] for name in COMMANDS if name.startswith(f"{group} ")}
    assert listed | {"show"} == every | {"show"}


@pytest.mark.parametrize("typed", ALIASES)
def test_an_earlier_name_is_the_command_that_it_became(typed: str, cli: Shell) -> None:
    path = " ".join(unaliased(typed.split())).split(" --")[0]
    assert path in COMMANDS
    assert typed not in COMMANDS
    assert cli.out(*typed.split(), "--help").startswith(f"Usage: agent-eval {path} ")


@pytest.mark.parametrize("asked", ["--version", "-V", "version"])
def test_version(asked: str, cli: Shell) -> None:
    assert cli.out(asked) == f"agent-eval {__version__}\n"


@pytest.mark.parametrize(
    ("asked", "usual"),
    [
        (["help"], ["--help"]),
        (["help", "gate"], ["gate", "--help"]),
        (["help", "registry", "waiver-add"], ["registry", "waiver-add", "--help"]),
    ],
)
def test_help_can_be_asked_for_as_a_command(asked: list[str], usual: list[str], cli: Shell) -> None:
    assert cli.out(*asked) == cli.out(*usual)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["registry"], "needs a command"),
        (["history"], "Missing argument 'WHERE'"),
        (["runn"], "Did you mean 'run'?"),
        (["help", "gaet"], "Did you mean 'gate'?"),
        (["validate", "--stricct", "x"], "Did you mean '--strict'?"),
        (["zzz"], "No such command 'zzz'."),
        (["--wrong"], "--wrong"),
        (["run"], "--suite"),
        (["run", "--suite", "a.json", "--out", "b", "--run-id", " "], "--run-id"),
        (["run", "--suite", "a.json", "--out", "b", "--run-id", "a\x1b[2J"], "--run-id"),
        (["gate", "--compare", "a.json", "--min-pass-rate", "nan"], "--min-pass-rate"),
        (["gate", "--compare", "a.json", "--min-pass-rate", "all"], "--min-pass-rate"),
        (["gate", "--compare", "a.json", "--min-pass-rate", "inf"], "--min-pass-rate"),
        (["gate", "--compare", "a.json", "--max-hard-fail-increase", "1.01"], "--max-hard-fail-increase"),
        (["gate", "--compare", "a.json", "--max-regressed-cases", "-1"], "--max-regressed-cases"),
        (["gate", "--compare", "a.json", "--max-new-hard-fail-cases", "0.5"], "--max-new-hard-fail-cases"),
    ],
)
def test_a_wrong_command_line_is_one_json_object_and_exit_2(
    arguments: list[str], words: str, cli: Shell
) -> None:
    error = cli.error(*arguments)
    assert error["code"] == "usage_error"
    assert words in error["message"]
    assert "--help" in error["details"]["remedy"]


def test_a_wrong_value_names_its_flag(cli: Shell) -> None:
    details = cli.error("gate", "--compare", "a.json", "--min-pass-rate", "2")["details"]
    assert (details["command"], details["field"]) == ("agent-eval gate", "--min-pass-rate")


def failing_with(problem: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def callback() -> None:
        raise problem

    entry = front.Entry("failing_command:command", "Fails.")
    monkeypatch.setitem(COMMANDS, "fail", entry)
    monkeypatch.setitem(sys.modules, "failing_command", type(sys)("failing_command"))
    command = click.command()(click.option("--format")(lambda format: callback()))  # noqa: A006
    sys.modules["failing_command"].command = command  # type: ignore[attr-defined]


FAILURES: list[tuple[BaseException, int, dict[str, Any]]] = [
    (
        InvalidInput("bad", remedy="Fix it.", file="a.json"),
        2,
        {"code": "validation_error", "details": {"file": "a.json", "remedy": "Fix it."}},
    ),
    (StorageError("full"), 4, {"code": "storage_error"}),
    (OSError(28, "No space left on device", "a file"), 4, {"code": "storage_error"}),
    (click.ClickException("cannot"), 2, {"message": "cannot"}),
    (KeyboardInterrupt(), 130, {"message": "Interrupted by Ctrl-C."}),
    (MemoryError(), 4, {"message": "there is no memory left"}),
    (OSError(24, "Too many"), 4, {"message": "the operating system refused: Too many"}),
    (OSError(11, "Try again", "pipe"), 4, {"message": "the operating system refused pipe: Try again"}),
]


@pytest.mark.parametrize(("problem", "code", "stated"), FAILURES)
def test_a_failure_is_one_json_object_with_its_code_and_no_bug(
    problem: BaseException, code: int, stated: dict[str, Any], cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_with(problem, monkeypatch)
    error = cli.error("fail", code=code)
    assert error | stated == error
    assert "bug" not in error["details"].get("remedy", "")


def test_an_unexpected_error_shows_its_traceback_on_request_alone(
    cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENT_EVAL_DEBUG", raising=False)
    failing_with(ZeroDivisionError("1/0"), monkeypatch)
    error = cli.error("fail", code=4)
    assert error["code"] == "internal_error"
    assert "ZeroDivisionError: 1/0" in error["message"]
    monkeypatch.setenv("AGENT_EVAL_DEBUG", "1")
    assert "Traceback (most recent call last)" in cli.err("fail", code=4)


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_error_does_not_tell_secrets(
    form: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", 'pass"wörd')
    monkeypatch.setenv("DATABASE_HOST", "db.example.org")
    for value in ('pass"wörd', "db.example.org"):
        assert main(["schema", "validate", "--input", f"x/{value}.json", "--format", form]) == 2
    told = capsys.readouterr().err
    assert "[redacted:DATABASE_PASSWORD]" in told
    assert "wörd" not in told
    assert "w\\u00f6rd" not in told
    assert "db.example.org" in told


def test_a_traceback_does_not_tell_secrets(cli: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        secret = "sk-of-mine"
        raise InvalidInput("no", seen=[{secret: (secret, 1, None)}], path=Path(secret))

    monkeypatch.setenv("MY_API_KEY", "sk-of-mine")
    monkeypatch.setenv("AGENT_EVAL_DEBUG", "1")
    monkeypatch.setattr(front, "_invoke", fails)
    told = cli.err("gate")
    assert "Traceback" in told
    assert "sk-of-mine" not in told
    assert json.loads(told.splitlines()[-1])["error"]["details"] == {
        "seen": [{"[redacted:MY_API_KEY]": ["[redacted:MY_API_KEY]", 1, None]}],
        "path": "[redacted:MY_API_KEY]",
    }


def screen_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal that standard error goes to from now on."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_on_a_terminal_errors_are_prose_and_json_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    failing_with(
        InvalidInput("a.json: bad\x1b[2J", remedy="Fix it.", file="a.json", line=3, case_id="c"), monkeypatch
    )
    assert main(["fail"]) == 2
    prose = "Error: a.json: bad[2J\n  line: 3\n  case id: c\n  Fix it.\n"
    assert screen.getvalue() == prose
    assert main(["fail", "--format", "json"]) == 2
    assert json.loads(screen.getvalue().removeprefix(prose))["error"]["details"]["line"] == 3


@pytest.mark.parametrize("arguments", [["fail", "--format", "text"], ["fail", "--format=text"]])
def test_prose_can_be_asked_for(arguments: list[str], cli: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(InvalidInput("bad"), monkeypatch)
    assert cli.err(*arguments) == "Error: bad\n"


@pytest.mark.parametrize("command", ["ci", "demo"])
def test_commands_that_write_logs_speak_prose(command: str, cli: Shell) -> None:
    assert cli.err(command, "--no-such-flag").startswith("Usage: ")


def test_a_usage_error_in_prose_shows_the_usage_or_without_a_command_the_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = screen_of(monkeypatch)
    assert main(["gate"]) == 2
    usage = "Usage: agent-eval gate [OPTIONS]\nError: Give --compare for a comparison"
    assert screen.getvalue().startswith(usage)
    assert main(["registry"]) == 2
    assert "Commands:" in screen.getvalue()


@pytest.mark.parametrize("words", [("run", "--out"), ("registry", "list", "--registry-path")], ids=" ".join)
def test_an_option_without_its_value_is_an_error_of_its_command(words: tuple[str, ...], cli: Shell) -> None:
    error, command = cli.error(*words), " ".join(("agent-eval", *words[:-1]))
    assert error["message"] == f"Option '{words[-1]}' requires an argument."
    assert (error["details"]["command"], error["details"]["remedy"]) == (command, f"See `{command} --help`.")


def test_a_reader_that_leaves_is_not_a_failed_gate(cli: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(BrokenPipeError(), monkeypatch)
    assert cli.err("fail", code=141) == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
def test_a_result_that_cannot_be_printed_is_no_bug_of_ours() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 4
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "storage_error"
    assert "cannot be printed: No space left" in error["message"]


def test_a_table_row_that_names_no_command_is_an_internal_error(
    cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "fail", front.Entry("agent_eval.errors:ExitCode", "Wrong."))
    assert cli.error("fail", code=4)["code"] == "internal_error"


def test_a_reader_that_leaves_early_is_no_error() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([*PROGRAM, "--help"], stdout=write, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(write)
    assert done.returncode == 141
    assert done.stderr == ""


def test_output_survives_a_locale_without_the_characters(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [*PROGRAM, "run", "--suite", "ü💥.json", "--out", str(tmp_path / "o"), "--format", "text"],
        env=environ,
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert b"\xfc\\U0001f4a5.json" in done.stderr


def test_sigterm_leaves_through_the_cleaning_up(tmp_path: Path) -> None:
    program = (
        "import sys, time, agent_eval.cli.main as front, click\n"
        "def wait():\n"
        "    try:\n"
        "        print('ready', flush=True); time.sleep(60)\n"
        "    finally:\n"
        "        open('cleaned', 'w').close()\n"
        "sys.modules['waiting'] = module = type(sys)('waiting')\n"
        "module.command = click.command()(wait)\n"
        "front.COMMANDS['wait'] = front.Entry('waiting:command', '')\n"
        "sys.argv = ['agent-eval', 'wait']\n"
        "front.entry()\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=30) == 143
    child.stdout.close()
    assert (tmp_path / "cleaned").exists()


@pytest.mark.parametrize("arguments", [["--help"], ["gate", "--min-pass-rate", "nan"], ["gate", "--help"]])
def test_help_and_usage_errors_import_no_more_than_click(arguments: list[str]) -> None:
    program = (
        "import sys, runpy\n"
        f"sys.argv = ['agent-eval', *{arguments!r}]\n"
        "try:\n"
        "    runpy.run_module('agent_eval', run_name='__main__')\n"
        "except SystemExit:\n"
        "    pass\n"
        "print('\\n'.join(sorted(sys.modules)), file=sys.stderr)\n"
    )
    environ = {name: value for name, value in os.environ.items() if not is_secret_name(name)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environ
    )
    loaded = set(done.stderr.splitlines())
    ours = {name for name in loaded if name.startswith("agent_eval.")}
    light = {"agent_eval.errors", "agent_eval.storage", "agent_eval.storage.redaction_rules"}
    light |= {"agent_eval.models", "agent_eval.models.catalog"}  # the choices of options
    rooms = ("agent_eval.cli", "agent_eval.config")
    assert all(name.startswith(rooms) or name in light for name in ours), ours
    assert not ours & {"agent_eval.config.spec", "agent_eval.config.assembly"}
    heavy = {"pydantic", "orjson", "yaml", "requests", "openai", "anthropic", "rich", "jinja2"}
    assert not loaded & (heavy | {"jsonschema", "cryptography", "importlib.metadata", "difflib"})


def test_where_no_temporary_file_can_be_written_the_remedy_is_a_place_for_them(
    tmp_path: Path, cli: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.gettempdir()
    failing_with(raised.value, monkeypatch)
    assert "TMPDIR" in cli.error("fail", code=4)["details"]["remedy"]


def test_it_answers_by_the_name_that_it_was_called_by(tmp_path: Path) -> None:
    code = "import sys; from agent_eval.cli.main import entry; sys.argv[0] = sys.argv.pop(1); entry()"
    names = {"/usr/bin/aui-evals": "aui-evals", "agent-eval": "agent-eval", "x.py": "agent-eval"}
    for name, own in names.items():
        for arguments, begin in ((["--help"], "Usage: "), (["run", "--help"], "Usage: "), (["-V"], "")):
            command = [sys.executable, "-c", code, name, *arguments]
            shown = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
            assert shown.startswith(f"{begin}{own} "), (name, arguments)
