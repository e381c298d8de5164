"""The local directory: its input, limits and words. It is used wherever no other platform detects itself."""

from __future__ import annotations

from agent_eval.ci.platforms.spec import PlatformSpec, Words
from agent_eval.config.options import CI, Option

INPUTS: tuple[Option, ...] = (
    Option(
        "baseline-store",
        "path",
        "Directory in which a job outside CI keeps its evidence, comment and outputs, and finds the baseline "
        "of a later run. Default: none; the comment is printed and written to `out`.",
        goes_to="platform.baseline_store",
        commands=(CI,),
        loosens="other",
        # The code under test may not choose the baseline it is compared with.
        in_file=False,
    ),
)

LOCAL = PlatformSpec(
    name="local",
    platform="agent_eval.ci.platforms.local.job:LocalDirectory",
    detect=lambda _: True,
    comment_limit=65_536,
    summary_limit=1 << 20,
    words=Words(change="change", full_report="full report"),
    inputs=INPUTS,
)
