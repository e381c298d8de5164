"""The keys of `agent-eval.yml`: which option each one states, and what only the file and `--set` can say."""

from __future__ import annotations

from agent_eval.config.options import Command, Option

# fmt: off
# A row is its name and kind, its help, its commands, and what is not usual: two lines, and not fifteen.

KEYS = {
    "suite": "suites",
    "agent": "agent.model", "agent-command": "agent.run", "agent-url": "agent.url",
    "base-url": "agent.base_url", "repair-command": "agent.repair", "system-prompt": "agent.system_prompt",
    "keep-agent-alive": "agent.keep_alive", "agent-env": "agent.env", "agent-header": "agent.headers",
    "suite-key-env": "agent.key_env", "agent-gateway": "agent.gateway", "tools": "agent.tools",
    "cassette": "agent.cassette", "case-commands": "agent.case_commands", "max-repairs": "agent.max_repairs",
    "strict-side-effects": "agent.strict_side_effects",
    "setup-command": "setup.run", "setup-env": "setup.env", "user-prompt": "simulated_user.prompt",
    "trials": "trials", "parallel": "parallel",
    "judge": "judges", "judge-config": "judge_config", "pass-threshold": "judges.pass_threshold",
    "provider": "judge_model.provider", "llm-model": "judge_model.model",
    "llm-base-url": "judge_model.base_url", "llm-script": "judge_model.script",
    "judge-votes": "judge_model.votes", "judge-agreement": "judge_model.agreement",
    "policy": "policy.file", "preset": "policy.preset", "min-pass-rate": "policy.min_pass_rate",
    "max-hard-fail-rate": "policy.max_hard_fail_rate",
    "max-hard-fail-increase": "policy.max_hard_fail_increase",
    "max-regressed-cases": "policy.max_regressed_cases",
    "max-new-hard-fail-cases": "policy.max_new_hard_fail_cases",
    "command-timeout-seconds": "limits.attempt.seconds", "max-output-bytes": "limits.attempt.output_bytes",
    "max-steps": "limits.attempt.steps", "max-tool-calls": "limits.attempt.tool_calls",
    "max-attempt-tokens": "limits.attempt.tokens", "max-case-seconds": "limits.case.seconds",
    "max-case-steps": "limits.case.steps", "max-case-tool-calls": "limits.case.tool_calls",
    "max-case-tokens": "limits.case.tokens", "max-case-cost": "limits.case.cost_usd",
    "max-run-seconds": "limits.run.seconds", "max-run-cost": "limits.run.cost_usd", "price": "prices",
    "setup-timeout-seconds": "limits.setup_seconds",
    "case-command-timeout-seconds": "limits.case_command_seconds",
    "redact-pattern": "redaction.patterns", "redact-field": "redaction.fields",
    "redact-personal": "redaction.personal",
    "baseline": "baseline.from", "base-branches": "baseline.branches", "baseline-name": "baseline.name",
    "baseline-workflow": "baseline.job", "baseline-job": "baseline.job",
    "baseline-public-key": "baseline.public_key", "require-baseline": "baseline.required",
    "base-agent": "baseline.agent", "registry-path": "registry",
    "model": "labels.model", "agent-version": "labels.agent_version", "seed": "labels.seed",
    "prompt-hash": "labels.prompt_hash", "policy-hash": "labels.policy_hash",
    "container-image": "labels.container_image", "git-commit": "labels.git_commit",
    "dependency-lock-hash": "labels.dependency_lock_hash", "layout": "evidence.layout",
    "title": "ci.title", "comment": "ci.comment", "comment-id": "ci.comment_id",
    "comment-author": "ci.comment_author",
    "attest": "ci.attest", "upload-evidence": "ci.upload_evidence", "fail-on": "ci.fail_on", "out": "ci.out",
}
"""By name of an option: its key. An option that is not here cannot stand in the file, which comes with the
code under test: where a token goes, and whether a fork's code may run beside secrets, the CI file says."""

GRANTS = frozenset({
    "agent-url", "base-url", "agent-env", "agent-header", "suite-key-env", "case-commands", "setup-env",
    "provider", "llm-base-url", "llm-script", "base-agent", "baseline-public-key",
})
"""Options that say who gets a secret, or what is trusted: a change never states them for itself."""

_DECIDES: tuple[Command, ...] = ("gate", "ci", "history show")

SETTINGS: tuple[Option, ...] = (
    Option("judges.configuration", "object", "Configuration of judges, by judge name.",
           goes_to="judging.configs", of_file=("run", "stability-check", "rejudge", "ci")),
    Option("policy.margin", "object", "Drop of the pass rate that a release may have.",
           goes_to="own_policy.margin", of_file=_DECIDES),
    Option("policy.safety", "object", "Safety judges: `at-once` or `repeated`; a list means at once.",
           goes_to="own_policy.safety", of_file=_DECIDES),
    Option("policy.quarantine", "object", "Cases that run and do not count, each until a day.",
           goes_to="own_policy.quarantine", of_file=_DECIDES),
    Option("policy.deterministic", "object", "The agent does the same every time.",
           goes_to="own_policy.deterministic", of_file=_DECIDES),
    Option("policy.max_cost_increase", "object", "Share by which a case may cost more than on main.",
           goes_to="own_policy.max_cost_increase", of_file=_DECIDES),
    Option("policy.max_latency_increase", "object", "Share by which a case may take longer than on main.",
           goes_to="own_policy.max_latency_increase", of_file=_DECIDES),
)
"""What only the file and `--set` can say; their names are their keys."""

KEYS.update((row.name, row.name) for row in SETTINGS)

# What `judges` alone can say is written below each judge's name, so this is no key that a user writes.
KEYS["judges.configuration"] = "judges.configuration"
# fmt: on
