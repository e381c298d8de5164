"""Several trials of a case; the rules are in `contracts.trials`, since whoever judges needs them as well."""

from agent_eval.contracts.trials import CasePolicy, case_policy, pass_curve

__all__ = ["CasePolicy", "case_policy", "pass_curve"]
