"""`rejudge`: judge the trajectories of a pack anew, without running the agent, into a pack that names it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.config.spec import Identity, Judging, Output
from agent_eval.contracts import SHARD_CASES, RejudgedFrom, RunConfig, SuiteHeader
from agent_eval.engine.plan import JudgePlan
from agent_eval.engine.scoring import score_suite
from agent_eval.errors import UsageError
from agent_eval.evidence.derived import write_output
from agent_eval.evidence.reader import Pack, refuse_incomplete
from agent_eval.operations import clock
from agent_eval.operations.environment import pinned_environment, redactor_for
from agent_eval.operations.packs import open_run
from agent_eval.operations.run import RunResult, checked_run_id, judge_plan, stated_policy
from agent_eval.storage.json import dumps
from agent_eval.suites.document import Document, Place, RawCase, Shard
from agent_eval.suites.reader import SuiteSource


@dataclass(frozen=True, kw_only=True)
class RejudgeRequest:
    """What to judge anew, and how. Judges and their configuration never come from the pack.

    Of `identity` only the name of the new run counts: what the pack says of its agent stays.
    """

    pack: Path
    output: Output
    judging: Judging
    identity: Identity = field(default_factory=Identity)


class PackDocument(Document):
    """The trajectories of a pack, as a suite.

    Args:
        where: Of the pack.
        pack: The pack, verified.
    """

    def __init__(self, where: Path, pack: Pack) -> None:
        self.path = where
        self.digest = pack.config.suite_digest or pack.manifest_sha256
        self.raw_header = {"dataset_id": pack.config.dataset_id, "metadata": pack.config.dataset_metadata}
        self.header_line = None
        self.problems = []
        self._ids = pack.case_ids()
        self._pack: Pack | None = pack
        self.shards = [
            Shard(index, first, min(SHARD_CASES, len(self._ids) - first))
            for index, first in enumerate(range(0, len(self._ids), SHARD_CASES))
        ]

    def read(self, shard: Shard) -> Iterator[RawCase]:
        """The trajectories of a shard, each verified again.

        Raises:
            InvalidPack: A file changed since the pack was opened.
        """
        if self._pack is None:
            self._pack = open_run(self.path)
        for position in range(shard.first, shard.first + shard.count):
            case_id = self._ids[position]
            raw, artifacts = self._pack.raw_trajectory(case_id), self._pack.artifacts(case_id)
            yield RawCase(Place(position), raw, artifacts=artifacts)

    def __getstate__(self) -> dict[str, Any]:
        # Another process opens the pack itself.
        return {**self.__dict__, "_pack": None}


def rejudge(request: RejudgeRequest, *, environ: Mapping[str, str]) -> RunResult:
    """Judge every trajectory of a pack with other judges, and seal the result as a run of its own.

    Args:
        request: What to judge.
        environ: The environment variables; they may pin clock and run id. Values of those that look secret
            are not written.

    Raises:
        InvalidPack: The pack does not verify, or its run is not complete.
        InvalidInput: A judge or its configuration is wrong; nothing has been written.
        UsageError: `out` is the pack itself, or a directory that is not a pack of ours; or no judge is named.
        StorageError: The new pack could not be written.
    """
    if not request.judging.judges:
        raise UsageError(
            "no judge is named",
            remedy="Name at least one with --judge: what a pack says of its judges is not obeyed.",
            field="judges",
        )
    if os.path.realpath(request.output.pack) == os.path.realpath(request.pack):
        raise UsageError(
            f"{request.output.pack} is the pack that is judged anew",
            remedy="Give --out another place: the pack stays as it is.",
            file=str(request.output.pack),
        )
    pack = open_run(request.pack)
    # The new pack would say that it holds every case.
    refuse_incomplete(pack.name, pack.manifest)
    output, judging = request.output, request.judging
    plan = judge_plan(judging, judging.judges)
    document = PackDocument(request.pack, pack)
    config = _config(request, pack, plan, environ)
    summary = score_suite(
        SuiteSource(document, SuiteHeader.model_validate(document.raw_header)),
        plan,
        config,
        output.pack,
        layout=output.layout,
        workers=judging.workers,
        redactor=redactor_for(environ),
    )
    if output.summary_json is not None:
        write_output(output.summary_json, dumps(summary.to_json(), indent=True))
    return RunResult(config, summary, output.pack)


def _config(request: RejudgeRequest, pack: Pack, plan: JudgePlan, environ: Mapping[str, str]) -> RunConfig:
    """What the new pack says: of the agent what the old one said, of the judging what is done now."""
    origin = RejudgedFrom(run_id=pack.config.run_id, manifest_sha256=pack.manifest_sha256)
    return pack.config.model_copy(
        update={
            "run_id": checked_run_id(request.identity.run_id, environ),
            "started_at": clock.timestamp(environ),
            "judges": list(plan.names),
            "judge_configs": {name: plan.configs[name] for name in plan.names if name in plan.configs},
            "execution_config": pack.config.execution_config.rejudged(
                origin, stated_policy(plan.case_policy)
            ),
            "pinned_env": pinned_environment(),
        }
    )
