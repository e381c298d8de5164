"""How the help of a command with many options is read: its groups, what `-h` shows, and examples."""

from __future__ import annotations

from collections.abc import Mapping

from agent_eval.config.options import Command

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Cases": (
        *("suite", "case", "test", "tag", "shard", "trials", "runs", "parallel", "resume", "fresh"),
        *("evidence", "report-run-id"),
    ),
    "Agent": (
        *("agent", "agent-command", "repair-command", "system-prompt", "tools", "agent-env", "agent-header"),
        *("case-commands", "max-repairs", "strict-side-effects", "run-agent", "base-agent"),
        *("allow-fork-with-secrets",),
    ),
    "Judges": (
        *("judge", "judge-config", "judge-model", "provider", "llm-key", "cassette", "cassette-mode"),
        "execution-mode",
    ),
    "Decision": (
        *("compare", "run", "baseline", "candidate", "preset", "min-pass-rate", "max-regressed-cases"),
        *("max-hard-fail-increase", "max-new-hard-fail-cases", "apply-waivers", "baseline-name", "fail-on"),
    ),
    "Report": ("title", "comment", "comment-id"),
    "Limits": ("max-run-cost",),
    "Evidence and output": (
        *("out", "run-id", "label", "executor", "registry-path", "signing-key", "public-key", "trust-pack"),
        *("allow-env-drift", "verbose", "quiet", "debug", "format"),
    ),
    "Configuration": ("config", "set"),
}
"""By heading: options, in the order of the help. What a platform alone has comes last."""

OF_THE_PLATFORM = "Platform"

SHORT: Mapping[Command, tuple[str, ...]] = {
    "run": (
        *("agent", "judge", "judge-model", "tools", "cassette", "case", "tag", "trials", "parallel"),
        *("max-repairs", "max-run-cost", "resume", "fresh", "out", "config", "set", "verbose", "quiet"),
        "format",
    ),
    "ci": (
        *("suite", "agent", "agent-env", "agent-header", "judge-model", "llm-key", "trials", "parallel"),
        *("preset", "min-pass-rate", "max-regressed-cases", "baseline", "fail-on", "comment", "title"),
        *("max-run-cost", "config", "set", "out"),
    ),
    "gate": (
        *("compare", "run", "preset", "min-pass-rate", "max-regressed-cases", "max-hard-fail-increase"),
        *("max-new-hard-fail-cases", "apply-waivers", "baseline-name", "config", "set", "format"),
    ),
    "stability-check": ("suite", "agent", "runs", "case", "judge", "judge-model", "out", "config", "set"),
    "replay": ("run", "run-agent", "judge", "agent", "trust-pack", "public-key", "out", "format"),
}
"""By command with many options: those that `-h` shows, in its order."""

EXAMPLES: Mapping[Command, tuple[str, ...]] = {
    "run": (
        'agent-eval run suites/orders.yaml --agent "python agent.py"',
        "agent-eval run --case refund-7 -v",
        "agent-eval run --trials 5 --set limits.case.cost_usd=0.10",
    ),
    "ci": (
        "agent-eval ci   # what agent-eval.yml says",
        "agent-eval ci --suite 'suites/*.json' --min-pass-rate 0.9 --baseline none",
    ),
    "gate": (
        "agent-eval gate --compare runs/candidate",
        "agent-eval gate --run runs/candidate --min-pass-rate 0.95",
    ),
    "stability-check": ('agent-eval stability-check --suite s.json --agent "python agent.py" --runs 5',),
    "replay": ("agent-eval replay --run runs/candidate", "agent-eval replay --run-agent --run runs/main"),
}
