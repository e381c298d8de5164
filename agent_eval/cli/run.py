"""`agent-eval run`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.errors import INTERRUPTED, OWNS_PROCESS, TERMINATED, Ended, Terminated, report_end
from agent_eval.cli.options import TableCommand
from agent_eval.cli.output import print_error
from agent_eval.cli.run_suites import OUT, Results, requested_runs
from agent_eval.errors import AgentEvalError, ExitCode, FailureKind, NotEvaluable

if TYPE_CHECKING:
    from agent_eval.config.spec import RunSpec
    from agent_eval.contracts import CaseResultRow, ExecutionConfig, RunSummary
    from agent_eval.operations.run import RunResult
    from agent_eval.operations.run_agent import RunLoopResult
    from agent_eval.reports.terminal import Failing


@click.command(cls=TableCommand, path="run")
@click.argument("suites", nargs=-1, metavar="[SUITE]...", type=click.Path())
def run(  # more than six parameters: one for each option
    suites: tuple[str, ...],
    output_format: str,
    verbose: bool,
    quiet: bool,
    summary_json: Path | None,
    **values: Any,
) -> int:
    """Judge every recorded trace of a suite, or run an agent over it, and seal the evidence.

    An agent proposes, is judged, and with --max-repairs repairs until it passes. Every finished trial is on
    disk before it counts: after Ctrl-C, a kill or a full disk, the same command with --resume runs the rest.
    Each SUITE gets an evidence pack of its own. Exits 0 when all were evaluated, whatever the verdicts;
    `gate` decides on them. Exits 4 when no case of a suite could be judged.
    """
    from agent_eval.config.spec import LOCAL
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import CASES_SHOWN
    from agent_eval.storage.atomic import without_new_directories, write_file
    from agent_eval.suites.select import EmptyShard

    hide_environment()
    specs = requested_runs(suites, values)
    if specs[0].judging.executor != LOCAL and not specs[0].judging.dask_scheduler:
        raise click.UsageError("--executor is `local`, or `dask:` with the address of a scheduler.")
    if verbose and quiet:
        raise click.UsageError("Give --verbose or --quiet, not both.")
    if summary_json is not None and len(specs) > 1:
        raise click.UsageError("--summary-json is about one suite, and several are named.")
    most = sys.maxsize if verbose else 0 if quiet else CASES_SHOWN
    code = int(ExitCode.OK)
    with Results(output_format, [str(spec.suite) for spec in specs]) as results:
        for spec in specs:  # a suite that stops before its end is the last
            run_one = _run_agent if spec.agent is not None else _judge_recorded
            try:
                with without_new_directories(spec.output.pack):
                    code = run_one(spec, results, most)
            except EmptyShard as empty:  # other jobs of the matrix have the cases
                _report_empty(empty.message, spec, results)
                code = int(ExitCode.OK)
            if code:
                break
    if not code:
        _report_idle_judges(specs[0])
    summary = specs[0].output.pack / "run" / "summary.json"
    if summary_json is not None and summary.is_file():
        write_file(summary_json, summary.read_bytes())
    return code


def _report_empty(reason: str, spec: RunSpec, results: Results) -> None:
    message = f"{reason}. Nothing was run or written, and merge needs no pack of this shard."
    results.add({"pack": None, "empty_shard": spec.shard, "message": message}, lambda _colour: [message])


def _report_idle_judges(spec: RunSpec) -> None:
    """Print on stderr which configured judges did not run: they seem to guard something."""
    from agent_eval.operations.run import idle_judges
    from agent_eval.text.escape import clean

    idle = [clean(name, limit=_NAME_SHOWN) for name in idle_judges(spec.judging)]
    if not idle:
        return
    names = " and ".join(filter(None, [", ".join(idle[:-1]), idle[-1]]))
    are, them = ("are", "them") if len(idle) > 1 else ("is", "it")
    do = "do" if len(idle) > 1 else "does"
    print_error(f"{names} {are} configured but {do} not run; name {them} with --judge.")


_NAME_SHOWN = 100


def _judge_recorded(spec: RunSpec, results: Results, most: int) -> int:
    """Judge recorded traces with progress on stderr, print the result, and return the exit code."""
    from agent_eval.cli.output import ProgressPrinter
    from agent_eval.operations.packs import sealed_execution
    from agent_eval.operations.run import run_suite
    from agent_eval.reports.terminal import run_text

    with ProgressPrinter() as progress:
        result = run_suite(spec, environ=os.environ, on_progress=progress)
    execution = sealed_execution(result.pack)

    def text(colour: bool) -> str:
        failing, pack = _failing(result.summary, result.pack, most), str(result.pack)
        return run_text(result.summary, pack, colour=colour, failing=failing, execution=execution)

    results.add(_payload(result, execution), text)
    from agent_eval.operations.unjudged import RECORD_TRACES, refuse_unjudged

    refuse_unjudged(result.pack, result.summary, name=str(spec.suite), remedy=RECORD_TRACES)
    return int(ExitCode.OK)


def _payload(result: RunResult, execution: ExecutionConfig) -> dict[str, Any]:
    """Name the run, its pack and how much was redacted; of the latter nothing where nothing was."""
    payload: dict[str, Any] = {
        "run_id": result.run_id,
        "summary": result.summary.to_json(),
        "pack": str(result.pack),
    }
    if execution.redacted_cases:
        payload |= {"redacted_cases": execution.redacted_cases, "redactions": execution.redactions or 0}
    return payload


def _failing(summary: RunSummary, pack: Path, most: int) -> Failing:
    """Read the first cases that did not pass, each with the path of its trajectory.

    Where the agent crashed and the case has a file of its own, the traceback follows.
    """
    if summary.passed_cases == summary.total_cases or not most:
        return ()
    from agent_eval.evidence.reader import failing_cases
    from agent_eval.storage.files import read_bytes
    from agent_eval.storage.json import Limits, parse

    failing: list[tuple[CaseResultRow, str, *tuple[str, ...]]] = []
    for row, name in islice(failing_cases(pack), most):
        path, lines = pack / name, list[str]()
        if any(verdict["failure"] == FailureKind.AGENT_ERROR for verdict in row["verdicts"]):
            from agent_eval.reports.trajectory import traceback_lines

            with suppress(AgentEvalError):
                trajectory = parse(read_bytes(path, max_bytes=_MOST_READ), source=str(path), limits=Limits())
                metadata = trajectory.get("metadata") if isinstance(trajectory, dict) else None
                lines = traceback_lines(metadata or {})
        failing.append((row, str(path), *lines))
    return failing


_MOST_READ = 8 << 20
RESUME, FRESH = "--resume", "--fresh"


def _run_agent(spec: RunSpec, results: Results, most: int) -> int:
    """Run an agent with progress on stderr, print the result, and return the exit code.

    `most` is how many of the cases that did not pass are listed.

    Raises:
        AgentEvalError: As `run_agent`, and if the agent was never reached, or no case could be judged.
    """
    from agent_eval.cli.output import ProgressPrinter
    from agent_eval.engine.progress import COST_LIMIT
    from agent_eval.operations.replay import remember_pack
    from agent_eval.operations.run_agent import RunInterrupted, run_agent
    from agent_eval.operations.unjudged import CHECK_THE_AGENT, refuse_unjudged, refuse_unreachable
    from agent_eval.storage.journal import JournalInUse

    context, out = click.get_current_context().find_root(), spec.output.pack
    if _INTERRUPTS not in context.meta:  # all runs of the command share the handlers
        # Until the exit: a signal after the pack was sealed must not make a finished run look unfinished.
        handlers = Interrupts(stay=context.meta.get(OWNS_PROCESS, False))
        context.meta[_INTERRUPTS] = context.with_resource(handlers)
    interrupts: Interrupts = context.meta[_INTERRUPTS]
    try:
        with ProgressPrinter() as progress:
            result = run_agent(spec, environ=os.environ, on_progress=progress, stop=interrupts.reason)
    except RunInterrupted as ended:
        _report_stop(ended.message, _resume_hint(out))
        return int(interrupts.exit_code or ended.exit_code)
    except NotEvaluable as error:
        # After a full disk or a refused key, finished trials are kept.
        hint = "" if isinstance(error, JournalInUse) else _resume_hint(out)
        if hint:
            error.details["remedy"] = " ".join(f"{error.remedy} {hint}".split("\n  ")).strip()
        raise
    except (KeyboardInterrupt, SystemExit):
        if hint := _resume_hint(out):
            print_error(hint)
        raise
    remember_pack(result.pack, os.environ)
    _print(result, results, most, debug=spec.output.debug)
    if result.stopped:
        done = result.progress
        hint = _resume_hint(result.pack, raise_cost=result.stopped.startswith(COST_LIMIT))
        counts = f"{done.done:,} of {done.total:,} trials were run"
        _report_stop(f"{result.stopped}. {counts}, and the pack says that it is not complete", hint)
        return int(interrupts.exit_code or ExitCode.NOT_EVALUABLE)
    refuse_unreachable(result.pack, result.summary, spec.suite)
    refuse_unjudged(result.pack, result.summary, name=str(spec.suite), remedy=CHECK_THE_AGENT)
    return int(ExitCode.OK)


_INTERRUPTS = "agent_eval.interrupts"


def _print(result: RunLoopResult, results: Results, most: int, *, debug: bool) -> None:
    from agent_eval.operations.packs import sealed_execution
    from agent_eval.reports.terminal import agent_run_text, run_text

    progress, execution = result.progress, sealed_execution(result.pack)
    payload = {
        **_payload(result, execution),
        "complete": not result.stopped,
        "already_complete": result.was_complete,
        "resumed_cases": progress.resumed,
        "damaged_records": progress.damaged,
        "retries": progress.retries,
        "unanswered_calls": progress.unanswered_calls,
        "cost_usd": None if result.was_complete else progress.cost_usd,
        "costs": None if result.was_complete else progress.costs.to_json(),
        "cases_with_unknown_cost": progress.unknown_cost,
        **({"notes": list(progress.notes)} if progress.notes else {}),
    }
    scores: list[str] = []
    if result.config.dataset_metadata.get("format") == "aui":
        from agent_eval.cli.run_suites import report_conversations

        figures, scores = report_conversations(result.pack, debug=debug)
        payload.update(figures)

    def text(colour: bool) -> str:
        pack, failing = str(result.pack), _failing(result.summary, result.pack, most)
        if result.was_complete:
            prose = "Already complete: nothing was run.\n"
            prose += run_text(result.summary, pack, colour=colour, failing=failing)
        else:
            prose = agent_run_text(
                result.summary, pack, progress, colour=colour, failing=failing, execution=execution
            )
        return "\n".join([prose.rstrip("\n"), *scores]) if scores else prose

    results.add(payload, text)


def _report_stop(reason: str, hint: str) -> None:
    """Print that the run stopped, and how to resume it."""
    arguments: tuple[str, ...] = click.get_current_context().obj or ()
    ended = Ended(f"the run stopped: {reason}", remedy=" ".join(hint.split("\n  ")))
    report_end(ended, arguments, text=f"Stopped: {reason}. {hint}".rstrip())


def _resume_hint(out: Path, *, raise_cost: bool = False) -> str:
    """Name the journal and the command that runs the rest; an empty text if there is no journal.

    It is this process's command line with `--resume` and `--out`, for a shell in the same directory.
    """
    from agent_eval.operations.environment import redactor_for
    from agent_eval.operations.resume import journal_path
    from agent_eval.text.escape import clean, shell_word

    journal = journal_path(out)
    if not journal.exists():
        return ""
    context = click.get_current_context()
    arguments: tuple[str, ...] = context.obj or ()
    resuming = [argument for argument in arguments if argument not in (FRESH, RESUME)]
    named = context.get_parameter_source("output__pack") is click.core.ParameterSource.COMMANDLINE
    place = [] if named else ["--out", str(context.meta[OUT])]
    words = [*_program(), *resuming, *place, RESUME]
    command = " ".join(map(shell_word, words))
    key = context.params.get("judging__llm__key")
    is_named = bool(key) and any(word == key or word.endswith(f"={key}") for word in words)
    if is_named or redactor_for(os.environ).finds(command.encode("utf-8", "surrogateescape")):
        # No secret is repeated.
        command = " ".join(["the same command with", *map(shell_word, place), RESUME])
    introduction = "To go on, raise --max-run-cost in" if raise_cost else "To go on:"
    return f"What has finished is in {clean(str(journal))}. {introduction}\n  {command}"


def _program() -> list[str]:
    """Return the words with which a shell calls this program."""
    import shutil

    from agent_eval.cli.main import PROGRAM

    called = sys.argv[0]
    if Path(called).name == "__main__.py":
        return [sys.executable, "-m", "agent_eval"]
    installed = shutil.which(PROGRAM)
    return [called if Path(called).name == PROGRAM and installed != called else PROGRAM]


_REASONS = {signal.SIGINT: "interrupted by Ctrl-C", signal.SIGTERM: "ended by SIGTERM"}
_CODES = {signal.SIGINT: INTERRUPTED, signal.SIGTERM: TERMINATED}
_STOPPING = (
    "\nStopping: no further trial starts, and finished ones are kept. Interrupt again to stop at once.\n"
)


class Interrupts:
    """Handles SIGINT and SIGTERM, so that a run can end in order. A context manager.

    The run calls `reason` several times a second. An ignored signal stays ignored, as in a shell's background
    job. Outside the main thread, which alone can handle signals, nothing changes.

    With `stay`, the handlers stay when the block ends, because the process ends then, too.
    """

    def __init__(self, *, stay: bool = False) -> None:
        self._stay, self._is_announced = stay, False
        self._received: signal.Signals | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def reason(self) -> str:
        """Return why the run must end, as a clause; an empty text while no signal was received.

        The first time, also print that the run stops. A signal that arrives when the run is finished is not
        announced, because it changes nothing.
        """
        if self._received is None:
            return ""
        if not self._is_announced:
            self._is_announced = True
            print_error(_STOPPING, nl=False)
        return _REASONS[self._received]

    @property
    def exit_code(self) -> int | None:
        """128 plus the signal's number; None while no signal was received."""
        return None if self._received is None else _CODES[self._received]

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        if self._received is None:
            self._received = signal.Signals(number)
        elif number == signal.SIGINT:
            raise KeyboardInterrupt
        else:
            raise Terminated(TERMINATED)

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for number in _REASONS:
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            if not self._stay:
                signal.signal(number, handler)
