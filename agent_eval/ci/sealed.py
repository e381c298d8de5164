"""Hold sealed evidence against what the job remembers of it: code of the change could rewrite seals too."""

from __future__ import annotations

from pathlib import Path

from agent_eval.ci.seal import Altered, as_code
from agent_eval.errors import AgentEvalError
from agent_eval.evidence import layout
from agent_eval.evidence.reader import Pack
from agent_eval.storage.files import read_bytes, sha256_bytes

_LARGEST_FILE = 1 << 30


class Sealed:
    """The digests of a pack's files, in memory since it was sealed.

    Args:
        where: Directory of the pack.
        pack: As it was read back when the job had written it.
    """

    def __init__(self, where: Path, pack: Pack) -> None:
        self.where = where
        self._digests = {entry.path: entry.sha256 for entry in pack.run_files()}
        self._digests[layout.MANIFEST] = pack.manifest_sha256

    def check(self, name: str) -> None:
        """Refuse a pack that is not as it was sealed.

        Args:
            name: What the sentence calls it, such as the suite's slug.

        Raises:
            Altered: A file of it was altered; names the first, the manifest last.
        """
        for path, sha256 in self._digests.items():
            try:
                is_same = sha256_bytes(read_bytes(self.where / path, max_bytes=_LARGEST_FILE)) == sha256
            except AgentEvalError:
                is_same = False
            if not is_same:
                raise Altered(
                    f"A sealed pack was altered while the job ran: {as_code(f'{name}/{path}')}.",
                    remedy="Nothing but the job may write there: look at what the agent and its setup do.",
                    file=f"{name}/{path}",
                )


def refuse_other_judges(first: Pack, other: Pack) -> None:
    """Refuse trials that were judged otherwise than the first run: suite or judges were altered meanwhile.

    Raises:
        Altered: They were.
    """
    before, now = first.config, other.config
    definitions = {case_id: row["definition_digest"] for case_id, row in first.index_by_id().items()}
    is_same = (
        before.judges == now.judges
        and before.judge_configs == now.judge_configs
        and before.execution_config.judge_code == now.execution_config.judge_code
        and all(
            definitions.get(case_id) == row["definition_digest"]
            for case_id, row in other.index_by_id().items()
        )
    )
    if not is_same:
        raise Altered(
            "The suite or its judges were altered while the job ran.",
            remedy="Nothing but the job may write there: look at what the agent and its setup do.",
        )
