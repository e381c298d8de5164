"""What topics bring: how often a broken topic is seen, and how often an unchanged agent fails.

    python -m benchmarks.topics            # prints the table
    python -m benchmarks.topics --write    # and writes benchmarks/results/topics.md

Every experiment compares two runs of an agent on the same cases, of which a share changes at random: it
regresses as often as it is fixed. In a broken topic nine cases of ten regress. Where whole topics swing,
each of their cases regresses, or each is fixed. The gate's own functions decide. Seeded.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent_eval.contracts import CaseRegression, ComparedTopic, Comparison, Outcome
from agent_eval.contracts.comparison import CaseSets
from agent_eval.contracts.policy import GatePolicy
from agent_eval.gate.paired import paired_statistics
from agent_eval.gate.waivers import Excuses

RESULTS = Path(__file__).parent / "results" / "topics.md"
SEED = 20_261_122
EXPERIMENTS = 1_000
POLICY = GatePolicy()


@dataclass(frozen=True)
class Setting:
    """A suite and what changed between its two runs.

    `discordant` is the share of cases that change at random, `broken` the number of topics that broke,
    `swinging` the chance of a topic to move as a whole, in either direction.
    """

    name: str
    topics: int
    discordant: float
    broken: int = 0
    swinging: float = 0.0
    cases_of_topic: int = 10


SETTINGS = (
    Setting("nothing changed", 10, 0.20),
    Setting("nothing changed", 30, 0.20),
    Setting("one topic broke", 10, 0.20, broken=1),
    Setting("one topic broke", 30, 0.20, broken=1),
    Setting("two topics broke", 30, 0.20, broken=2),
    Setting("nothing changed, a topic in twenty swings", 30, 0.10, swinging=0.05),
)


def moved(setting: Setting, source: random.Random) -> dict[int, list[tuple[str, bool]]]:
    """Draw the cases that changed, by topic: id and whether the case was fixed."""
    return {topic: list(_moved_in(topic, setting, source)) for topic in range(setting.topics)}


def _moved_in(topic: int, setting: Setting, source: random.Random) -> Iterator[tuple[str, bool]]:
    swing = source.choice((True, False)) if source.random() < setting.swinging else None
    for number in range(setting.cases_of_topic):
        case_id, draw = f"{topic}-{number}", source.random()
        if topic < setting.broken:
            if draw < 0.9:
                yield case_id, False
        elif swing is not None:
            yield case_id, swing
        elif draw < setting.discordant:
            yield case_id, draw < setting.discordant / 2


def comparison(setting: Setting, source: random.Random) -> Comparison:
    """Build the comparison of one experiment, with the fields that the statistics read."""
    drawn = moved(setting, source)
    topics = [
        ComparedTopic(
            topic=str(topic),
            compared=setting.cases_of_topic,
            changed=sorted(case_id for case_id, _ in cases),
        )
        for topic, cases in drawn.items()
    ]
    return Comparison.model_construct(
        cases=CaseSets(compared=setting.topics * setting.cases_of_topic),
        case_regressions=[_row(*case) for cases in drawn.values() for case in cases],
        topics=topics,
    )


def _row(case_id: str, fixed: bool) -> CaseRegression:
    before, now = (Outcome.FAILED, Outcome.PASSED) if fixed else (Outcome.PASSED, Outcome.FAILED)
    return CaseRegression(
        case_id=case_id,
        baseline_outcome=before,
        candidate_outcome=now,
        baseline_passed=not fixed,
        candidate_passed=fixed,
        baseline_hard_failed=fixed,
        candidate_hard_failed=not fixed,
        regressed=not fixed,
        improved=fixed,
    )


def shares_failed(setting: Setting) -> tuple[float, float, float]:
    """Compute the shares of experiments that fail without topics, with them, and by the suite's own test."""
    source = random.Random(SEED)
    without = together = by_cases = 0
    for _ in range(EXPERIMENTS):
        experiment = comparison(setting, source)
        plain = paired_statistics(experiment.model_copy(update={"topics": []}), Excuses(), POLICY)
        statistics = paired_statistics(experiment, Excuses(), POLICY)
        cases = any(judge.significant for judge in statistics.judges)
        without += any(judge.significant for judge in plain.judges)
        by_cases += cases
        together += cases or any(topic.significant for topic in statistics.topics)
    return without / EXPERIMENTS, together / EXPERIMENTS, by_cases / EXPERIMENTS


def table() -> str:
    """Render the shares of every setting as a markdown table."""
    lines = [
        "# What topics bring to the regression test",
        "",
        f"`python -m benchmarks.topics --write`, {EXPERIMENTS:,} experiments a row, alpha {POLICY.alpha:g}.",
        "",
        "| between the runs | cases | topics | change at random | fails without topics | fails with topics "
        "| of these by the suite's test |",
        "| :-- | --: | --: | --: | --: | --: | --: |",
    ]
    return "\n".join([*lines, *map(_table_row, SETTINGS)]) + "\n"


def _table_row(setting: Setting) -> str:
    size = f"{setting.topics * setting.cases_of_topic} | {setting.topics} | {setting.discordant:.0%}"
    shares = " | ".join(f"{share:.1%}" for share in shares_failed(setting))
    return f"| {setting.name} | {size} | {shares} |"


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS}")
    arguments = parser.parse_args()
    text = table()
    print(text, end="")
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
