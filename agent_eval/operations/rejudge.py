"""`rejudge`: judge the trajectories of a pack again, without running the agent, and write a new pack."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from typing_extensions import override

from agent_eval.config.spec import Identity, Judging, Output
from agent_eval.contracts import RejudgedFrom, RunConfig, SuiteHeader
from agent_eval.contracts.trials import ALL
from agent_eval.contracts.verdict import EXECUTION
from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.scoring import score_suite
from agent_eval.errors import UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack, refuse_incomplete
from agent_eval.judges.code import code_digests
from agent_eval.operations import clock
from agent_eval.operations.environment import pinned_environment, redactor_for
from agent_eval.operations.models import kept_replies, reuse_rulings
from agent_eval.operations.packs import open_run
from agent_eval.operations.replacing import refuse_to_lose
from agent_eval.operations.run import RunResult, checked_run_id, judge_plan
from agent_eval.storage.json import dumps
from agent_eval.storage.redaction_rules import NO_RULES, RedactionRules
from agent_eval.suites.aui import JUDGES as OF_CONVERSATIONS
from agent_eval.suites.document import Document, Place, RawCase, Shard, whole_shards
from agent_eval.suites.reader import SuiteSource


@dataclass(frozen=True, kw_only=True)
class RejudgeRequest:
    """Request for `rejudge`.

    Attributes:
        judging: Never from the pack; without judges, those of a suite of conversations if the pack is of one.
        identity: Its `run_id` is the id of the new run; the rest is ignored, since the agent is the pack's.
    """

    pack: Path
    output: Output
    judging: Judging
    identity: Identity = field(default_factory=Identity)
    redaction: RedactionRules = NO_RULES


class PackDocument(Document):
    """A suite whose cases are the trajectories of a pack."""

    is_evidence = True

    def __init__(self, path: Path, pack: Pack) -> None:
        self.path = path
        self.digest = pack.config.suite_digest or pack.manifest_sha256
        self.raw_header = {"dataset_id": pack.config.dataset_id, "metadata": pack.config.dataset_metadata}
        self.header_line = None
        self.problems = []
        self._ids = pack.case_ids()
        self._pack = pack
        self.shards = whole_shards(len(self._ids))

    @override
    def read(self, shard: Shard) -> Iterator[RawCase]:
        for position in range(shard.first, shard.first + shard.count):
            case_id = self._ids[position]
            raw, artifacts = self._pack.raw_trajectory(case_id), self._pack.artifacts(case_id)
            yield RawCase(Place(position), raw, artifacts=artifacts)


def rejudge(
    request: RejudgeRequest,
    *,
    environ: Mapping[str, str],
    only_kept: bool = False,
    opened: Pack | None = None,
) -> RunResult:
    """Judge every trajectory of a pack with the named judges, and seal the result as a new run.

    Args:
        environ: May pin clock and run id; values of variables whose names look secret are not written.
        only_kept: Whether judges that are models may only take the pack's own rulings, as where a pack is
            verified.
        opened: The pack, where it was opened and verified already; what is read of it is hashed again.

    Raises:
        InvalidPack: The pack does not verify, or its run is not complete.
        InvalidInput: A judge or its configuration is invalid; nothing has been written.
        UsageError: No judge is named; or `out` is the pack itself, or something that is not an evidence pack.
    """
    if os.path.realpath(request.output.pack) == os.path.realpath(request.pack):
        raise UsageError(
            f"{request.output.pack} is the pack to judge again",
            remedy="Give --out another path; the pack stays as it is.",
            file=str(request.output.pack),
        )
    refuse_to_lose(request.output)
    redactor = redactor_for(environ, *request.judging.llm.secrets, rules=request.redaction)
    pack = opened or open_run(request.pack)
    # The new pack states that it has every case of the run.
    refuse_incomplete(pack.name, pack.manifest)
    # A case passes as in the run: whether all of its trials must is no question of the judges.
    stated = pack.config.execution_config.case_policy or ALL.text
    output, judging = request.output, replace(request.judging, case_policy=stated)
    plan = judge_plan(judging, judging.judges or _usual_judges(pack), environ)
    reuse_rulings(plan, pack, only_kept=only_kept)
    document = PackDocument(request.pack, pack)
    config = _config(request, pack, plan, environ)
    with kept_replies(plan, redactor):
        summary = score_suite(
            SuiteSource(document, SuiteHeader.model_validate(document.raw_header)),
            plan,
            config,
            output.pack,
            layout=output.layout,
            redactor=redactor,
        )
    if output.summary_json is not None:
        write_output(output.summary_json, dumps(summary.to_json(), indent=True))
    return RunResult(config, summary, output.pack)


def _usual_judges(pack: Pack) -> tuple[str, ...]:
    """Return the judges of a pack of conversations; those that a pack names are never used."""
    if pack.config.dataset_metadata.get("format") == "aui":
        return (*OF_CONVERSATIONS, EXECUTION)
    raise UsageError(
        "no judge is named",
        remedy="Name at least one with --judge; the judges that the pack names are not used.",
        field="judges",
    )


def _config(request: RejudgeRequest, pack: Pack, plan: JudgePlan, environ: Mapping[str, str]) -> RunConfig:
    """Make the new pack's configuration: the agent is that of the old pack, the judging is the request's."""
    origin = RejudgedFrom(run_id=pack.config.run_id, manifest_sha256=pack.manifest_sha256)
    return pack.config.model_copy(
        update={
            "run_id": checked_run_id(request.identity.run_id, environ),
            "started_at": clock.timestamp(environ),
            "judges": list(plan.names),
            "judge_configs": {name: plan.configs[name] for name in plan.names if name in plan.configs},
            "execution_config": pack.config.execution_config.model_copy(
                update={"rejudged_from": origin, "judge_code": code_digests(plan.load()) or None}
            ),
            "pinned_env": pinned_environment(),
        }
    )
