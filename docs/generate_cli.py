"""Write docs/reference/cli.md from the command line itself: `python docs/generate_cli.py`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from agent_eval.cli.main import COMMANDS, agent_eval
from agent_eval.cli.options import Flag

REFERENCE = Path(__file__).parent / "reference" / "cli.md"

INTRODUCTION = """\
# Command line

Generated from the commands; `agent-eval COMMAND --help` says the same. `python -m agent_eval` is the same
program. [The GitHub Action](../guides/github-action.md) explains what `ci` does with its flags.

Standard output is text for people, piped or not, and one JSON object with `--format json`, which all commands
take but `ci`, `demo`, `completion`, `schema show` and `dev demo-agent`. An error is said
once, on stderr: as prose on a terminal, with `--format text` and by `ci` and `demo`; otherwise as the last
line, which is a JSON object, also when a signal or a limit ended the command. Progress comes before it:

```json
{"error": {"code": "validation_error", "message": "…", "details": {"file": "…", "remedy": "…"}}}
```

| exit code | meaning |
|---|---|
| 0 | passed, or everything asked for was done |
| 1 | the gate or check said no |
| 2 | the request was wrong: usage or invalid input |
| 3 | inconclusive, where the policy blocks on it |
| 4 | it could not be evaluated: disk full, no permission, no memory, agent unreachable, closed output |
| 130, 141, 143 | ended by Ctrl-C, by a closed pipe, by SIGTERM |

| variable | meaning |
|---|---|
| `AGENT_EVAL_CLOCK` | pins the recorded time, ISO 8601 with an offset |
| `AGENT_EVAL_RUN_ID` | names runs that `--run-id` does not |
| `AGENT_EVAL_DEBUG` | `1` shows the traceback of an internal error |
| `NO_COLOR` | no colour on a terminal |
"""


def reference() -> str:
    """The whole page."""
    root = click.Context(agent_eval, info_name="agent-eval")
    sections = [INTRODUCTION]
    first: dict[tuple[str, str], str] = {}
    for name in COMMANDS:
        command = agent_eval.get_command(root, name)
        if command is not None:
            sections.append(_section(command, name, first))
    return "\n".join(sections)


def _section(command: click.Command, name: str, first: dict[tuple[str, str], str]) -> str:
    """Describe a command. `first` names the command where an option is described, which is not repeated."""
    path = f"agent-eval {name}"
    context = click.Context(command, info_name=path)
    rows: list[tuple[str, str]] = []
    known: dict[str, list[str]] = {}
    for option in command.get_params(context) if name != "ci" else ():
        if (
            isinstance(option, Flag)
            and option.name != "output_format"
            and (record := option.get_help_record(context)) is not None
        ):
            row = record[0], f"{record[1]} {option.detail}".rstrip()
            if first.setdefault(row, name) == name:
                rows.append(row)
            else:
                known.setdefault(first[row], []).append(f"`{record[0].split()[0]}`")
    # Bars inside a cell would end it.
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    table = "".join(f"| `{flag}` | {text} |\n" for flag, text in cells)
    help_text = " ".join(part.strip() for part in (command.help or "").splitlines() if part.strip())
    arguments = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    usage = f"`{path} [OPTIONS] {' '.join(arguments)}`\n\n" if arguments else ""
    options = f"\n| option | meaning |\n|---|---|\n{table}" if rows else ""
    as_there = "".join(f"\nAs for `{other}`: {', '.join(flags)}.\n" for other, flags in known.items())
    of_job = "\nIts options are the [inputs of the job](../../action.yml).\n" if name == "ci" else ""
    return f"## {path}\n\n{usage}{help_text}\n{options}{as_there}{of_job}"


if __name__ == "__main__":
    REFERENCE.parent.mkdir(exist_ok=True)
    REFERENCE.write_text(reference(), encoding="utf-8")
    sys.stdout.write(f"Wrote {REFERENCE}\n")
