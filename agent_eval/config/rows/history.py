"""Rows of `history` and `drift`: which history is read, and how much of it is shown."""

from __future__ import annotations

from agent_eval.config.options import Option

HISTORY: tuple[Option, ...] = (
    Option(
        "dataset-id",
        "text",
        "The dataset, where there are several.",
        goes_to="dataset_id",
        commands=("history show", "drift"),
    ),
    Option(
        "policy",
        "path",
        "The gate's policy, which says what is in quarantine.",
        goes_to="policy",
        commands=("history show",),
        metavar="FILE",
    ),
    Option(
        "runs",
        "integer",
        "Newest runs that are shown; rates are of all.",
        goes_to="runs",
        commands=("history show",),
        default="40",
        bounds=(1, 100),
    ),
    Option(
        "recommend",
        "switch",
        "Print what the policy would have to say of single cases to follow the history. It edits nothing.",
        goes_to="recommend",
        commands=("history show",),
    ),
    Option(
        "release",
        "lines",
        "Evidence pack, or archive of one, of the release. Repeatable: several runs of one release know its "
        "rate better.",
        goes_to="release",
        commands=("drift",),
        required=True,
        metavar="PACK",
    ),
)
