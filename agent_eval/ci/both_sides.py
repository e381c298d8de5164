"""Prepare both sides of a confirmation: the merge base, before any code of the change runs, and its build."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from agent_eval.agents.catalog import AGENTS, kind_of
from agent_eval.ci.agent import set_up
from agent_eval.ci.base_cache import BaseCache
from agent_eval.ci.config import Settings
from agent_eval.ci.confirm import Bounds, Confirmer, Doubt, Question, Side
from agent_eval.ci.context import JobContext
from agent_eval.ci.merge_base import MergeBase, NoMergeBase, doubt_of_base
from agent_eval.ci.own_place import doubt_of_files, doubt_of_packages
from agent_eval.ci.shared_build import NAMES_THE_CHANGE, leads_into, why_same_build, why_shared
from agent_eval.ci.tree_digest import Snapshot, TreeDigest
from agent_eval.ci.workspace import is_in_checkout
from agent_eval.config.spec import AgentSpec, RunSpec
from agent_eval.contracts.confirmation import Confirmation, ConfirmedSide
from agent_eval.errors import AgentEvalError, UsageError
from agent_eval.operations.agent_options import agent_options, read_prompt
from agent_eval.processes.child import allowed_environment
from agent_eval.text.escape import one_line

BEHIND_AN_ADDRESS = (
    "The merge base's agent cannot be run, because the agent is no program: name it in `base-agent`."
)

A_PROGRAM = (
    "`base-agent` names a program, which would run in the change's checkout: leave it out, so that the "
    "merge base's program is built in its own."
)
EQUAL_BUILDS = (
    "The sources changed and what is run did not: all files of both sides are equal. Let `setup-command` "
    "build the agent from its sources."
)
ALTERED_BASE = "Files of the merge base were altered while the change's agent ran: first {path}."
ALTERED_CHANGE = (
    "Files of the change were altered while the merge base's agent ran: first {path}. Let nothing else "
    "write into the checkout meanwhile, such as the job's own log."
)
ALTERED_SOURCES = "The change's agent altered its own sources while the job ran: first {path}."
_LONGEST_PATH = 120


@dataclass
class _Built:
    """The merge base, installed, and what its agent is."""

    settings: Settings
    directory: Path
    environ: Mapping[str, str]
    tree: TreeDigest
    seal: Snapshot


class BothSides:
    """Both sides of the confirmations of one job.

    Make it before any code of the change runs, call `installed` after its `setup-command`, and close it.

    Example:
        `sides = BothSides.prepare(job)`, then `sides.confirm(question, spec, evidence)` for each suite.

    Args:
        job: The job.
        base: The merge base; None where it is not needed or cannot be had.
        problem: Why it cannot be had, as a sentence.
        prompt: The system prompt of a hosted model at the merge base.

    Attributes:
        doubt_of_base: Why the merge base's failures excuse none of the change's, as far as that is known
            before its trials; empty where they may.
    """

    def __init__(
        self, job: JobContext, base: MergeBase | None, problem: str, *, prompt: str | None = None
    ) -> None:
        self._job, self._base, self.problem = job, base, problem
        self._checked_out = _Seal(TreeDigest(base.tree), ALTERED_BASE) if base is not None else None
        self._began, self._prompt = time.monotonic(), prompt
        self._prepared_at = time.time()
        self._sources: _Seal | None = None
        self._built: _Built | None = None
        self.doubt_of_base = doubt_of_base(
            Path.cwd(), job.place.base if job.place is not None else "", skip=job.settings.out, environ=job.environ
        )

    @classmethod
    def prepare(cls, job: JobContext) -> BothSides | None:
        """Check out the merge base; None where the job confirms nothing: no agent, no change, or no pairs."""
        settings, agent = job.settings, job.settings.agent
        onto = None if job.place is None or job.place.is_reviewed else job.place.base
        if agent is None or onto is None or not settings.confirm_pairs:
            return None
        _refuse_cache_in_checkout(job)
        if agent.command is None:
            return cls._behind_an_address(job, onto)
        try:
            base = MergeBase.check_out(Path.cwd(), onto, skip=settings.out, environ=job.environ)
        except NoMergeBase as error:
            return cls(job, None, error.message)
        return cls(job, base, "")

    @classmethod
    def _behind_an_address(cls, job: JobContext, onto: str) -> BothSides:
        """Prepare a side that is not built here: at an address, or a hosted model with a prompt from here."""
        named = job.settings.base_agent
        if not named:
            return cls(job, None, BEHIND_AN_ADDRESS)
        try:
            return cls(job, None, "", prompt=_prompt_of_base(job, named, onto))
        except AgentEvalError as error:
            return cls(job, None, error.message)

    def __enter__(self) -> BothSides:
        return self

    def __exit__(self, *_: object) -> None:
        if self._base is not None:
            self._base.remove()

    def installed(self) -> None:
        """Note the sources of the change as they are once its `setup-command` is done."""
        if self._base is not None:
            tracked = frozenset(self._base.tracked())
            self._sources = _Seal(TreeDigest(self._base.top, only=tracked), ALTERED_SOURCES)

    @property
    def is_unchanged(self) -> bool:
        """Whether the agent is that of the merge base: the same files, command, setup and limits."""
        if self._base is None or not self._base.is_unchanged:
            return False
        try:
            return _of_the_agent(self._settings_of_base()) == _of_the_agent(self._job.settings)
        except AgentEvalError:
            return False

    def confirm(self, question: Question, spec: RunSpec, evidence: Path) -> Confirmation:
        """Run the suspects again and return the record; where that cannot be done, it says why.

        Args:
            question: The suspects.
            spec: How the candidate's first run was made.
            evidence: The archive to write, with the packs of all trials.
        """
        settings = self._job.settings
        candidate_side = base_side = ConfirmedSide()
        record = Confirmation(pairs=settings.confirm_pairs, max_cases=settings.max_confirm_cases)
        to_run = bool(question.suspects or question.new_cases)
        if to_run and self.is_unchanged:
            record.agent_unchanged = True
        elif to_run:
            try:
                # The change is sealed before the merge base's setup runs, which may not alter it.
                candidate, build = self._candidate_side(spec, self._tree_of_change())
                base, base_build = self._base_side(spec)
                if build is not None and build == base_build:
                    raise Doubt(EQUAL_BUILDS)
                candidate_side = ConfirmedSide(commit=self._job.place.head if self._job.place is not None else None, build_sha256=build)
                base_side = ConfirmedSide(commit=base.spec.identity.git_commit, build_sha256=base_build)
                record = self._confirmer(question, spec).run(candidate, base, evidence)
            except Doubt as doubt:
                record.problem = doubt.message
                record.new_problem = doubt.message if question.new_cases else ""
        return _about(question, record.model_copy(update={"candidate": candidate_side, "base": base_side}))

    def doubt_of(self, record: Confirmation) -> str:
        """Say why the merge base's failures excuse none of the change's, once its trials are known."""
        if self.doubt_of_base or self._base is None or self._built is None:
            return self.doubt_of_base
        if any("passed" in trials.base for trials in record.cases):
            return ""
        return doubt_of_files(self._base, Path.cwd(), self._job.settings)

    def not_run(self, question: Question, reason: str) -> Confirmation:
        """Build the record where nothing is to be run, with the reason as a sentence."""
        settings = self._job.settings
        pairs, most = settings.confirm_pairs, settings.max_confirm_cases
        new = reason if question.new_cases else ""
        return _about(question, Confirmation(pairs=pairs, max_cases=most, problem=reason, new_problem=new))

    def _confirmer(self, question: Question, spec: RunSpec) -> Confirmer:
        limits = spec.limits.run
        # The index has the cost of one trial of each case.
        costs = (row["cost_usd"] or 0.0 for row in question.pack.index_by_id().values())
        trials = question.pack.config.execution_config.trials
        bounds = Bounds(
            pairs=self._job.settings.confirm_pairs,
            max_cases=self._job.settings.max_confirm_cases,
            alpha=self._job.rules.policy.alpha,
            seconds=_less(limits.seconds, time.monotonic() - self._began),
            cost_usd=_less(limits.cost_usd, trials * sum(costs)),
        )
        job = self._job
        return Confirmer(
            question,
            bounds,
            environ=job.environ,
            redactor=job.redactor,
            say=job.platform.say,
            cache=self._cache(question),
        )

    def _cache(self, question: Question) -> BaseCache | None:
        """Open the earlier trials of the merge base's program; None where there may be none."""
        settings, base, built = self._job.settings, self._base, self._built
        if not settings.base_cache or base is None or built is None or self.doubt_of_base:
            return None
        # The worktree is in another place each time.
        agent = repr(_of_the_agent(built.settings)).replace(str(base.tree), "")
        return BaseCache(
            Path(settings.base_cache),
            question.pack,
            commit=base.commit,
            agent=agent,
            pairs=settings.confirm_pairs,
            now=self._job.clock(),
        )

    def _tree_of_change(self) -> TreeDigest | None:
        """Build the digest of the change's checkout, without what the job writes into it."""
        if self._base is None:
            return None
        out = self._job.settings.out.resolve()
        skip = {".git"}
        if out.is_relative_to(self._base.top):
            skip.add(out.relative_to(self._base.top).as_posix())
        return TreeDigest(self._base.top, frozenset(skip))

    def _candidate_side(self, spec: RunSpec, tree: TreeDigest | None) -> tuple[Side, str | None]:
        agent = _once(spec.agent)
        if tree is None:
            return Side("candidate", replace(spec, agent=agent)), None
        seal = _Seal(tree, ALTERED_CHANGE)

        def check() -> None:
            seal.check()
            if self._sources is not None:
                self._sources.check()

        side = Side("candidate", replace(spec, agent=agent), check=check, ended=seal.renew)
        return side, seal.seen.digest

    def _base_side(self, spec: RunSpec) -> tuple[Side, str | None]:
        if self.problem:
            raise Doubt(self.problem)
        named = self._job.settings.base_agent
        if named is not None:
            if _runs_here(named):
                raise Doubt(A_PROGRAM)
            agent = replace(_once(spec.agent), name=named, command=None, url=None, repair_command=None)
            options = replace(agent_options(agent, self._job.environ), system=self._prompt)
            return Side("base", replace(spec, agent=agent), options), None
        if self._built is None:
            try:
                self._built = self._build()
            except AgentEvalError as error:
                # What failed once is not tried again for the next suite.
                self.problem = error.message
                raise error if isinstance(error, Doubt) else Doubt(error.message) from error
        built, commit = self._built, self._base.commit if self._base is not None else None
        agent = _as_at_base(_once(spec.agent), built.settings.agent)
        seal = _Seal(built.tree, ALTERED_BASE, built.seal)

        def ended() -> None:
            seal.renew()
            built.seal = seal.seen

        options = replace(agent_options(agent, built.environ), cwd=built.directory)
        limits = built.settings.limits
        identity = replace(spec.identity, git_commit=commit)
        spec = replace(spec, agent=agent, limits=limits, identity=identity)
        return Side("base", spec, options, check=seal.check, ended=ended), seal.seen.digest

    def _settings_of_base(self) -> Settings:
        if self._base is None or self._job.settings_at is None:
            return self._job.settings
        return self._job.settings_at(self._directory(self._base))

    def _directory(self, base: MergeBase) -> Path:
        """The directory of the worktree that is the working directory in the change's checkout."""
        return base.tree / Path.cwd().resolve().relative_to(base.top)

    def _build(self) -> _Built:
        """Install the merge base in its worktree, with its own settings.

        Raises:
            Doubt: Both sides would run the same program, or the merge base has no agent to run.
            AgentEvalError: Its settings are wrong, or its setup failed.
        """
        base = self._base
        if base is None or self._checked_out is None:
            raise Doubt(self.problem or BEHIND_AN_ADDRESS)
        self._checked_out.check()
        settings, directory = self._settings_of_base(), self._directory(base)
        command = settings.agent.command if settings.agent is not None else None
        if command is None or not directory.is_dir():
            raise Doubt("The merge base has no program as its agent, to be run: name one in `base-agent`.")
        repair = settings.agent.repair_command if settings.agent is not None else None
        if any(leads_into(text, directory, base.top) for text in (settings.setup.command, repair or "")):
            raise Doubt(NAMES_THE_CHANGE)
        environ = _moved(self._job.environ, base.top, base.tree)
        began = time.time()
        try:
            set_up(settings.setup, environ, self._job.platform.say, cwd=directory)
        except AgentEvalError as error:
            raise Doubt(f"The merge base could not be built: {error.message}") from error
        tree = TreeDigest(base.tree)
        if any(link.is_relative_to(base.top) for link in tree.links()):
            raise Doubt("A link of the merge base leads into the change's checkout: it would run that code.")
        agent = settings.agent.environment if settings.agent is not None else ()
        seen = allowed_environment(environ, agent)
        if why := why_shared(command, directory, base.top, seen, began, base.tree):
            raise Doubt(why)
        if why := why_same_build(command, directory, (base.tree, base.top), frozenset(base.tracked())):
            raise Doubt(why)
        setups = (self._job.settings.setup.command, settings.setup.command)
        self.doubt_of_base = self.doubt_of_base or doubt_of_packages(
            base, (command, directory, seen), setups, (self._prepared_at, began)
        )
        return _Built(settings, directory, environ, tree, tree.take())


def _runs_here(named: str) -> bool:
    """Tell whether an agent is code that would be run in the change's checkout, or recorded there."""
    kind = kind_of(named)
    if kind is None:
        return "://" not in named
    return kind in (AGENTS["command"], AGENTS["recorded"])


def _prompt_of_base(job: JobContext, named: str, onto: str) -> str | None:
    """Read the system prompt that a hosted model has at the merge base; None where it has none.

    The change's own prompt would let the merge base fail wherever the change does.

    Raises:
        NoMergeBase: There is no merge base in the checkout.
        AgentEvalError: The prompt cannot be read there.
    """
    kind = kind_of(named)
    if _runs_here(named) or kind is None or kind.schemes:
        return None
    with MergeBase.check_out(Path.cwd(), onto, skip=job.settings.out, environ=job.environ) as base:
        directory = base.tree / Path.cwd().resolve().relative_to(base.top)
        settings = job.settings_at(directory) if job.settings_at is not None else job.settings
        path = settings.agent.system_prompt if settings.agent is not None else None
        if path is None:
            return None
        # A path that is written in full is that of the change's checkout.
        place = base.tree / path.relative_to(base.top) if path.is_relative_to(base.top) else directory / path
        if Path(os.path.realpath(place)).is_relative_to(base.top):
            raise Doubt("The system prompt of the merge base is a link into the change's checkout.")
        return read_prompt(place)


def _refuse_cache_in_checkout(job: JobContext) -> None:
    """Refuse to keep trials where a change could commit them.

    Raises:
        UsageError: The directory is in the checkout.
    """
    named = job.settings.base_cache
    if named and is_in_checkout([Path(named)], job.platform.workspace):
        raise UsageError(
            f"`base-cache` is in the checkout: {one_line(named, limit=_LONGEST_PATH)}",
            remedy="Name a directory outside of it, such as one in the runner's temporary directory.",
            field="base-cache",
        )


class _Seal:
    """A directory as its own agent left it; `check` refuses what changed since, and names a file."""

    def __init__(self, tree: TreeDigest, doubt: str, seen: Snapshot | None = None) -> None:
        self._tree, self._doubt = tree, doubt
        self.seen = seen or tree.take()

    def check(self) -> None:
        path = self._tree.take().first_altered_since(self.seen)
        if path is not None:
            raise Doubt(self._doubt.format(path=_as_code(path)))

    def renew(self) -> None:
        self.seen = self._tree.take()


def _as_code(path: str) -> str:
    """Write a path as code within a sentence. It may be of an attacker's choosing."""
    readable = path.encode("utf-8", "backslashreplace").decode().replace("`", "'")
    return f"`{one_line(readable, limit=_LONGEST_PATH)}`"


def _about(question: Question, record: Confirmation) -> Confirmation:
    """Add the digests of the packs whose comparison raised the question."""
    comparison = question.comparison
    digests = {
        "baseline_manifest_sha256": comparison.baseline.manifest_sha256,
        "candidate_manifest_sha256": comparison.candidate.manifest_sha256,
    }
    return record.model_copy(update=digests)


def _once(agent: AgentSpec | None) -> AgentSpec:
    """Copy an agent's specification for single trials, which write no recording."""
    return replace(agent or AgentSpec(), trials=1, record=None, update=None, resume=False)


def _as_at_base(agent: AgentSpec, base: AgentSpec | None) -> AgentSpec:
    """Copy a specification with what says how the merge base's program is run."""
    if base is None:
        return agent
    return replace(
        agent,
        command=base.command,
        repair_command=base.repair_command,
        environment=base.environment,
        keep_alive=base.keep_alive,
        max_repairs=base.max_repairs,
    )


def _of_the_agent(settings: Settings) -> tuple[object, ...]:
    return settings.agent, settings.setup, settings.limits


def _moved(environ: Mapping[str, str], top: Path, tree: Path) -> dict[str, str]:
    """Copy variables with the worktree in place of the change's checkout, so that no path leads there."""
    return {name: value.replace(str(top), str(tree)) for name, value in environ.items()}


def _less(limit: float | None, used: float) -> float | None:
    return None if limit is None else max(0.0, limit - used)
