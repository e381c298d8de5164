"""Write each suite's verdicts as JUnit XML, for platforms that show test results."""

from __future__ import annotations

from pathlib import Path

from agent_eval.ci.config import Settings
from agent_eval.ci.evaluate import Evaluation
from agent_eval.ci.platforms.spec import PlatformSpec
from agent_eval.ci.workspace import JUNIT_NAME
from agent_eval.evidence.reader import open_pack
from agent_eval.exporters.junit import junit_lines
from agent_eval.storage.atomic import new_directory, write_file


def write_junit(evaluation: Evaluation, settings: Settings, spec: PlatformSpec) -> None:
    """Write one file a suite into `junit` of the output directory, if the input `junit` or the platform asks.

    The files are made from the packs, which hold no secret. Those of an earlier job are replaced.

    Raises:
        UsageError: The directory holds something else.
        StorageError: The files cannot be written.
    """
    wanted = settings.junit == "always" or (settings.junit == "auto" and spec.shows_tests)
    if not wanted:
        return
    directory = settings.out / JUNIT_NAME
    with new_directory(directory, replace=_is_of_an_earlier_job(directory)) as new:
        for suite in evaluation.suites:
            text = "".join(junit_lines(suite.evidence or open_pack(suite.pack)))
            write_file(new / f"{suite.target.slug}.xml", text.encode("utf-8"))


def _is_of_an_earlier_job(directory: Path) -> bool:
    return directory.is_dir() and all(path.suffix == ".xml" for path in directory.iterdir())
