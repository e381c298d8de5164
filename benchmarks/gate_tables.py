"""Run the simulations of the gate, and write what they found as JSON and as tables.

    python -m benchmarks.gate_tables                     # prints the tables
    python -m benchmarks.gate_tables --write             # and writes benchmarks/results/gate_simulation.*
    python -m benchmarks.gate_tables --experiments 60    # faster, and less exact

The Markdown follows from the JSON alone, and so does the table of docs/guides/gate.md;
tests hold the three together.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks import gate_simulation, merges_simulation
from benchmarks.gate_simulation import (
    AS_IT_COMES,
    BROKEN,
    CASES,
    CHANGES,
    DISCORDANT,
    EXPERIMENTS,
    GUIDE_CASES,
    GUIDE_SETTINGS,
    OF_BOTH,
    ONE_CASE,
    ONE_TOPIC,
    SEED,
    SETTINGS,
    SPREAD,
    UNCHANGED,
    USUAL,
    Change,
    Line,
    Setting,
)
from benchmarks.merges_simulation import Merges

RESULTS = Path(__file__).parent / "results" / "gate_simulation.json"
MERGES_SHARE = 15
"""One experiment of fifty merges for so many of one change."""


@dataclass(frozen=True)
class Found:
    """What the simulations found."""

    experiments: int
    seed: int
    lines: Sequence[Line]
    merges: Sequence[Merges]

    def of(self, cases: int, change: Change, setting: Setting, discordant: float = USUAL) -> Line:
        """Look a line up."""
        wanted = (cases, discordant, change.name, setting.name)
        return next(
            line for line in self.lines if (line.cases, line.discordant, line.change, line.setting) == wanted
        )

    def merged(self, cases: int, trials: int = 1, *, is_anchored: bool) -> Merges:
        """Look up what fifty merges cost."""
        wanted = (cases, trials, is_anchored)
        return next(one for one in self.merges if (one.cases, one.trials, one.is_anchored) == wanted)


def simulate(experiments: int) -> Found:
    """Run all simulations."""
    lines = list(gate_simulation.simulate(experiments))
    merges = list(merges_simulation.simulate(max(1, experiments // MERGES_SHARE)))
    return Found(experiments, SEED, lines, merges)


def read(text: str) -> Found:
    """Read what was written."""
    written: dict[str, Any] = json.loads(text)
    lines = [Line(**line) for line in written.pop("lines")]
    merges = [Merges(**one) for one in written.pop("merges")]
    return Found(lines=lines, merges=merges, **written)


def to_text(found: Found) -> str:
    """Return what was found as JSON, a line for each line."""
    head = f'{{"experiments": {found.experiments}, "seed": {found.seed}'
    lines, merges = (
        ",\n".join(json.dumps(asdict(one)) for one in listed) for listed in (found.lines, found.merges)
    )
    return f'{head},\n"lines": [\n{lines}\n],\n"merges": [\n{merges}\n]}}\n'


@dataclass(frozen=True)
class Target:
    """A figure that was asked for, and what was found; shares.

    Attributes:
        name: What was asked for.
        found: What was found.
        limit: The figure that was asked for.
        is_least: Whether the limit is the least that is asked for.
        error: Standard error of a figure at the limit; 0 where the figure is no share of experiments.
    """

    name: str
    found: float
    limit: float
    is_least: bool = False
    error: float = 0.0

    @property
    def is_met(self) -> bool:
        """Whether what was found is within the limit, or no further off than chance explains."""
        over = self.limit - self.found if self.is_least else self.found - self.limit
        return over <= 3 * self.error


def targets(found: Found) -> list[Target]:
    """Hold the figures against what was asked for."""
    same = [found.of(*suite) for suite in _grid(UNCHANGED, SETTINGS)]
    blocked = max(same, key=lambda line: line.blocked)
    both = [found.of(*suite) for suite in _grid(OF_BOTH, CONFIRMED)]
    tracked = [line for line in both if "tracked" in line.setting]
    anchored = found.merged(100, is_anchored=True)
    return [
        Target(
            f"unchanged, the most that any setting blocks ({_where(blocked)})",
            blocked.blocked,
            0.05,
            error=_error(blocked, 0.05),
        ),
        *(target for setting in DECIDING for target in _decides(found, setting)),
        Target("100 cases, fifty merges with the anchor: lost on average", anchored.lost, 0.12),
        Target("the same, 95 of 100 times at most", anchored.most, 0.12),
        _not_its("both agents fall, confirmed as the change's", [one for one in both if one not in tracked]),
        _not_its("the same without Holm's correction, as flaky cases are tracked", tracked),
    ]


def _not_its(name: str, lines: Sequence[Line]) -> Target:
    """Find the suite and setting in which a loss of both agents is confirmed most often."""
    most = max(lines, key=lambda line: line.confirmed)
    return Target(f"{name}, the most ({_where(most)})", most.confirmed, 0.02, error=_error(most, 0.02))


DECIDING = (Setting(0), Setting(4, is_pooled=True), Setting(0, is_pooled=True))
"""Settings that are to decide 100 cases, of which 20 % are discordant."""


def _decides(found: Found, setting: Setting) -> list[Target]:
    about = f"100 cases, 20% discordant, {setting.name}"
    seen = min((found.of(100, change, setting) for change in (SPREAD[1], BROKEN[1])), key=lambda x: x.blocked)
    return [
        Target(f"{about}: unchanged and left open", found.of(100, UNCHANGED, setting).inconclusive, 0.40),
        Target(f"{about}: drop of 10 points blocked", seen.blocked, 0.85, is_least=True),
    ]


def _where(line: Line) -> str:
    return f"{line.cases} cases, {line.discordant:.0%} discordant, {line.setting}"


def _error(line: Line, share: float) -> float:
    return float((share * (1 - share) / line.experiments) ** 0.5)


CONFIRMED = tuple(setting for setting in SETTINGS if setting.confirms != "no")


def _grid(change: Change, settings: Sequence[Setting]) -> Iterator[tuple[int, Change, Setting, float]]:
    for cases, discordant, setting in product(CASES, DISCORDANT, settings):
        yield cases, change, setting, discordant


ABOUT = """\
{experiments:,} experiments a line where nothing changed or both agents fell, and a fourth of that of other
changes; a fourth of these with 300 cases. Margin 5 points, alpha 5%, seed {seed}.
`python -m benchmarks.gate_tables --write` makes this file and the JSON beside it, which has every figure.

Half of the discordance comes from cases that pass half of the time, half from cases that pass nine times of
ten; a tenth of the cases never pass, the others always do (`benchmarks/population.py`). Pooled: 20 runs of
one trial, or 8 of more. Confirmed: six pairs, eight cases at most. Flaky tracked: cases that passed fewer
than 18 of their last 20 trials are no suspects. A case of several trials passes where all of them do."""
ABOUT_MERGES = """\
Each is merged unless the gate fails it. The anchor is `agent-eval drift` after each merge, against a release
that was evaluated with {trials} trials of each case; nothing more is merged while it says that main is worse.
Stopped falsely: within fifty changes that lose nothing."""
MERGES_HEAD = (
    "| cases | trials | anchor | points lost | 95 of 100 times at most | changes until it stops "
    "| stopped falsely |"
)


def markdown(found: Found) -> str:
    """Render everything."""
    rows = [
        "# What the gate does, and what it costs",
        "",
        ABOUT.format(experiments=found.experiments, seed=found.seed),
        "",
        "## What was asked for",
        "",
        "| figure | found | asked | met |",
        "|:--|--:|--:|:--|",
        *map(_target_row, targets(found)),
        "",
        *(row for change in CHANGES for row in _of_change(found, change)),
        "## Fifty changes that each lose a point",
        "",
        ABOUT_MERGES.format(trials=merges_simulation.RELEASE_TRIALS),
        "",
        MERGES_HEAD,
        "|--:|--:|:--|--:|--:|--:|--:|",
        *map(_merges_row, found.merges),
        "",
        "## For the guide",
        "",
        *guide_table(found),
    ]
    return "\n".join(rows) + "\n"


def _target_row(target: Target) -> str:
    side = "at least" if target.is_least else "at most"
    is_within = target.found >= target.limit if target.is_least else target.found <= target.limit
    met = "yes" if is_within else "within chance" if target.is_met else "**no**"
    return f"| {target.name} | {target.found:.1%} | {side} {target.limit:.0%} | {met} |"


def _of_change(found: Found, change: Change) -> list[str]:
    suites = list(product(CASES, DISCORDANT))
    heads = " | ".join(f"{cases}, {share:.0%}" for cases, share in suites)
    rows = [
        f"## {change.name[0].upper()}{change.name[1:]}",
        "",
        "Cases, discordance: blocked / left open / passed, %, and trials of a case.",
        "",
        f"| | {heads} |",
        f"|:--|{'--:|' * len(suites)}",
    ]
    for setting in SETTINGS:
        lines = (found.of(cases, change, setting, share) for cases, share in suites)
        rows.append(f"| {setting.name} | {' | '.join(map(_cell, lines))} |")
    return [*rows, ""]


def _cell(line: Line) -> str:
    shares = " / ".join(f"{100 * share:.0f}" for share in (line.inconclusive, abs(line.passed)))
    return f"{100 * line.blocked:.1f} / {shares}, {line.trials:.1f}"


def _merges_row(one: Merges) -> str:
    falsely = "" if one.falsely is None else f"{one.falsely:.0%}"
    anchor = "yes" if one.is_anchored else "no"
    cells = (
        f"{one.cases} | {one.trials} | {anchor} | {100 * one.lost:.1f} | {100 * one.most:.1f} | {one.offered}"
    )
    return f"| {cells} | {falsely} |"


WORDS = {
    AS_IT_COMES: "nothing: one trial, the newest run of main",
    Setting(1, confirms="steady"): "confirmation, flaky cases `tracked`",
    Setting(1, has_topics=True): "topics",
    Setting(1, is_pooled=True): "`baseline-runs: 20`",
    Setting(4): "`trials: 4`",
    Setting(0): "`trials: auto`",
    Setting(0, is_pooled=True): "`trials: auto`, `baseline-runs: 20`",
    Setting(0, is_pooled=True, confirms="majority"): "the same and confirmation, `case-policy: majority`",
}
"""How the guide names a setting."""


def guide_table(found: Found) -> list[str]:
    """Render the one table of the guide."""
    rows = [
        "| cases | switched on | trials of a case | unchanged: blocked | unchanged: left open "
        "| 10 points lost: blocked | one case broke: blocked | one topic broke: blocked "
        "| fifty small losses: points lost |",
        "|--:|:--|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for cases in GUIDE_CASES:
        rows += [_guide_row(found, cases, setting, WORDS[setting]) for setting in GUIDE_SETTINGS]
        rows.append(_guide_row(found, cases, AS_IT_COMES, "a release as anchor", is_anchored=True))
    return rows


def _guide_row(found: Found, cases: int, setting: Setting, words: str, *, is_anchored: bool = False) -> str:
    same = found.of(cases, UNCHANGED, setting)
    caught = [found.of(cases, change, setting).blocked for change in (SPREAD[1], ONE_CASE, ONE_TOPIC)]
    shares = " | ".join(f"{share:.0%}" for share in (same.blocked, same.inconclusive, *caught))
    lost = ""
    if setting == AS_IT_COMES:
        lost = f"{100 * found.merged(cases, is_anchored=is_anchored).lost:.0f}"
    return f"| {cases} | {words} | {same.trials:.1f} | {shares} | {lost} |"


def main() -> None:
    """Simulate, print and perhaps write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--experiments", type=int, default=EXPERIMENTS)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = simulate(options.experiments)
    print(markdown(found))
    if options.write:
        RESULTS.write_text(to_text(found), encoding="utf-8")
        RESULTS.with_suffix(".md").write_text(markdown(found), encoding="utf-8")


if __name__ == "__main__":
    main()
