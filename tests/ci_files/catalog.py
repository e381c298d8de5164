"""Every generated file, by its path in the repository."""

from collections.abc import Callable

from tests.ci_files import starters
from tests.ci_files.buildkite_plugin import command_hook, plugin_yml, post_command_hook
from tests.ci_files.circleci_orb import circleci_orb
from tests.ci_files.composite_action import composite_action
from tests.ci_files.gitlab_component import gitlab_component
from tests.ci_files.jenkins_step import jenkins_step

STARTERS: dict[str, Callable[[], str]] = {
    "gitlab.yml": starters.gitlab, "gitlab-pip.yml": starters.gitlab_pip, "buildkite.yml": starters.buildkite,
    "buildkite-pip.yml": starters.buildkite_pip, "circleci.yml": starters.circleci,
    "circleci-pip.yml": starters.circleci_pip, "Jenkinsfile": starters.jenkins,
    "Jenkinsfile-pip": starters.jenkins_pip,
}  # fmt: skip
"""Files of `ci-templates`, which are bundled for `init` as well."""

FILES: dict[str, Callable[[], str]] = {
    **{f"ci-templates/{name}": make for name, make in STARTERS.items()},
    "ci-templates/buildkite-shards.yml": starters.buildkite_shards,
    "ci-templates/gitlab-nightly.yml": starters.gitlab_nightly,
    **{f"agent_eval/demo/starter/{name}": make for name, make in STARTERS.items()},
    "ci-templates/composite/action.yml": composite_action,
    "templates/agent-eval.yml": gitlab_component,
    "ci-templates/agent-eval-buildkite-plugin/plugin.yml": plugin_yml,
    "ci-templates/agent-eval-buildkite-plugin/hooks/command": command_hook,
    "ci-templates/agent-eval-buildkite-plugin/hooks/post-command": post_command_hook,
    "ci-templates/circleci-orb/src/@orb.yml": circleci_orb,
    "vars/agentEval.groovy": jenkins_step,
}
