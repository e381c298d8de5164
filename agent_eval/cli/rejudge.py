"""`agent-eval rejudge`, `replay`, `merge`, `stability-check` and `judge-agreement`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent_eval.cli.options import TableCommand, specified
from agent_eval.cli.output import ProgressPrinter, emit, emit_to
from agent_eval.errors import ExitCode

if TYPE_CHECKING:
    from agent_eval.operations.run import RunResult


@click.command(cls=TableCommand, path="rejudge")
def rejudge(output_format: str, **values: Any) -> None:
    """Judge the stored trajectories of a pack with other judges, without running the agent.

    The pack stays as it is. The new pack names it, with its digest, in run/config.json. Exits 4 when no case
    could be judged.
    """
    import os

    from agent_eval.operations.rejudge import RejudgeRequest
    from agent_eval.operations.rejudge import rejudge as rejudge_pack
    from agent_eval.processes.privacy import hide_environment

    hide_environment()
    result = rejudge_pack(RejudgeRequest(**specified(values)), environ=os.environ)
    _report(output_format, result, result.config.execution_config.to_json())


@click.command(cls=TableCommand, path="merge")
@click.argument("packs", metavar="PACK...", nargs=-1, required=True)
def merge(packs: tuple[str, ...], out: Path, run_id: str | None, output_format: str, **how: Any) -> None:
    """Join the packs of a divided run into one, as if it had not been divided.

    Each pack must have been made with --shard K/N and the same settings. Overlaps, gaps and different
    settings are refused. Exits 4 when no case could be judged.
    """
    from agent_eval.config.spec import Output
    from agent_eval.operations.merge import merge_packs

    output = Output(pack=out, fresh=how["fresh"], registry=how["registry_path"])
    _report(output_format, merge_packs([Path(pack) for pack in packs], output, run_id=run_id), {})


def _report(output_format: str, result: RunResult, more: Mapping[str, Any]) -> None:
    """Print what a pack that was made of others holds; raises `NotEvaluable` if no case could be judged."""
    from agent_eval.operations.unjudged import CHECK_THE_RUN, refuse_unjudged
    from agent_eval.reports.terminal import run_text

    payload = {"run_id": result.run_id, "summary": result.summary.to_json(), "pack": str(result.pack), **more}
    emit(output_format, payload, lambda colour: run_text(result.summary, str(result.pack), colour=colour))
    refuse_unjudged(result.pack, result.summary, name=str(result.pack), remedy=CHECK_THE_RUN)


RECORDED, AGENT = "trace_score", "propose_execute_repair"


@click.command("stability-check", cls=TableCommand, path="stability-check")
def stability_check(execution_mode: str | None, output_format: str, **values: Any) -> int:
    """Find flaky cases, which pass in some trials and fail in others: exit 1 when there are some.

    Runs the agent several times if one is named, and otherwise judges the trials that the suite has recorded.
    """
    import os

    from agent_eval.cli.suites import allowed_keys
    from agent_eval.operations.stability import StabilityRequest, check_agent, check_recorded
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal import stability_text
    from agent_eval.suites.paths import is_of_conversations

    hide_environment()
    allowed_keys(values.get("agent__key_variables") or ())
    request = StabilityRequest(**specified(values, agent_is_known=is_of_conversations(values["suite"])))
    if execution_mode == AGENT and request.agent is None:
        raise click.UsageError(f"--execution-mode {AGENT} needs --agent.")
    if execution_mode == RECORDED and request.agent is not None:
        raise click.UsageError(f"--execution-mode {RECORDED} runs no agent.")
    if request.agent is None:
        report = check_recorded(request, environ=os.environ)
    else:
        with ProgressPrinter() as progress:
            report = check_agent(request, request.agent, environ=os.environ, on_progress=progress)
    out = str(request.out) if request.out is not None else None
    emit_to(
        request.out,
        output_format,
        report.to_json(),
        lambda colour: stability_text(report, out, colour=colour),
    )
    return int(ExitCode.NO if report.flaky_case_ids else ExitCode.OK)


@click.command(cls=TableCommand, path="replay")
def replay(  # more than six parameters: one for each option
    run_agent: bool,
    public_key: tuple[str, ...],
    trust_pack: str | None,
    allowed_drift: tuple[str, ...],
    output_format: str,
    **values: Any,
) -> int:
    """Judge a pack again: exit 0 only when verdicts, summary and environment are the same, else 1.

    Of the judges that the pack names, only built-in ones that start no program run, unless --trust-pack says
    otherwise; or name judges of your own with --judge and --judge-config.

    With --run-agent, runs the agent that the options name, or else the one that the pack names, and compares
    every event of every trial except for times and ids, the agent's answer in every attempt, and every
    judge's outcome. The pack's agent is run only if the pack was made on this machine or --trust-pack names
    its digest.
    """
    import os

    from agent_eval.attestations.keys import read_public_key
    from agent_eval.operations import replay as operation
    from agent_eval.processes.privacy import hide_environment
    from agent_eval.reports.terminal_replay import replay_exec_text, replay_text

    hide_environment()
    named = specified(values, agent_is_known=run_agent)
    result: operation.ReplayResult
    if run_agent:
        if public_key or not {*allowed_drift} <= {operation.EVERY_PIN}:
            raise click.UsageError("With --run-agent goes no key, and no --allow-env-drift but `all`.")
        request = operation.ReplayExecRequest(
            **named, trusted_digest=trust_pack, ignore_environment=bool(allowed_drift)
        )
        with ProgressPrinter() as progress:
            result = operation.replay_exec(request, environ=os.environ, on_progress=progress)
        text: Callable[..., Any] = replay_exec_text
    else:
        if "agent" in named or "cases" in named or trust_pack not in (None, "signed"):
            raise click.UsageError("An agent, cases and the digest of a pack go with --run-agent.")
        result = operation.replay(
            operation.ReplayRequest(
                **named,
                public_keys=tuple(read_public_key(Path(file)) for file in public_key),
                trust_commands=trust_pack is not None,
                allowed_drift=allowed_drift,
            ),
            environ=os.environ,
        )
        text = replay_text
    path = str(result.path) if result.path else None
    emit(
        output_format,
        result.report.to_json(),
        lambda colour: text(result.report, path, colour=colour),
        out=values["out"],
    )
    return int(result.exit_code)


@click.command("judge-agreement", cls=TableCommand, path="judge-agreement")
@click.argument("labels", metavar="LABELS", type=click.Path(path_type=Path))
def judge_agreement(runs: tuple[str, ...], labels: Path, out: Path | None, output_format: str) -> int:
    """Measure how well an LLM judge agrees with people, criterion by criterion.

    Says how often the judge is right when it fails and when it passes a conversation, which disagreements to
    read, and which conversations to label next. With --out, a later run takes the record as its
    judge_model.agreement: advisory criteria count once 30 cases of each verdict have at most 3 errors.
    """
    from agent_eval.operations import judge_agreement as operation

    record = operation.judge_agreement([Path(run) for run in runs], labels, out)
    emit(output_format, record, lambda _colour: list(operation.agreement_text(record)), out=out)
    return int(ExitCode.OK)
