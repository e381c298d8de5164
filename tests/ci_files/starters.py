"""The short files of `ci-templates`, which `init` writes: with the image, and with the job's own Python."""

from textwrap import wrap

from tests.ci_files.rows import IMAGE, first_inputs, variable

_PACKAGE = "AGENT_EVAL_PACKAGE"
_IMAGE = f"""\
Put in place of {IMAGE} where the image lives for you, best with the digest that
you have reviewed: name@sha256:..."""
_PIP = f"""\
{_PACKAGE} is what pip installs: the address of a wheel, or `git+https://...@<commit>`. Do not put the
bare name there: on the public index it belongs to another project."""
_SETTINGS = """\
agent-eval.yml, which `agent-eval init` writes, says what the job does: the suite, the policy, the agent to
run and what installs it. Every input of `agent-eval ci` can be given there, or as AGENT_EVAL_<NAME>, which
overrides it."""


def passed_on(own: str, dollar: str) -> str:
    """Shell that gives a container the platform's variables, agent-eval's, the models', and the agent's."""
    agents = f"{dollar}{{{variable('agent-env')}//[[:space:],]/|}}"
    known = f"^({own}|AGENT_EVAL_|LLM_|OPENAI_|ANTHROPIC_)|^({agents}){dollar}"
    return f"""{dollar}(compgen -e | grep -E "{known}" | sed 's/^/--env=/')"""


def comments(mark: str, *paragraphs: str) -> str:
    """Paragraphs as comments; a bare mark follows the first."""
    first, *others = (
        "\n".join(wrap(text, 106, initial_indent=f"{mark} ", subsequent_indent=f"{mark} ", **_WHOLE))
        for text in paragraphs
    )
    return "\n".join([first, mark, *others])


_WHOLE = {"break_long_words": False, "break_on_hyphens": False}

_GITLAB_HEAD = """\
GitLab CI: judges the agent on every merge request, compares it with the evidence of the branch that the
change goes into, and fails when the gate says no.
The report, the tests and the evidence are kept with the job.
"""
_GITLAB_TOKEN = f"""\
For the baseline and the note on the merge request, add {variable("gitlab-token")} under Settings > CI/CD >
Variables, masked: a project access token with the role Reporter and the scope `api`."""
GITLAB_RULES = """\
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
"""
_GITLAB_JOB = f"""\
{GITLAB_RULES}  variables:
    GIT_DEPTH: "0" # the whole history: the rules of the commit where the branch began count as well
"""
GITLAB_SCRIPT = f"""\
  script:
    # The evidence names the image that the agent ran in; pin it above by name@sha256:... to have its digest.
    - export {variable("label")}="${{{variable("label")}:-container_image=${{CI_JOB_IMAGE:-}}}}"
    - agent-eval ci
"""
GITLAB_TAIL = """\
  artifacts:
    when: always
    expose_as: agent-eval report
    paths:
      - agent-eval-out/
    reports:
      junit: agent-eval-out/junit/*.xml
      dotenv: agent-eval-out/agent-eval.env # for later jobs: how this one ended
    expire_in: 90 days
"""


def gitlab() -> str:
    return f"""\
{comments("#", _GITLAB_HEAD, _IMAGE, _GITLAB_TOKEN, _SETTINGS)}
agent-eval:
  image:
    name: {IMAGE}
    entrypoint: [""]
{_GITLAB_JOB}{GITLAB_SCRIPT}{GITLAB_TAIL}"""


_GITLAB_NIGHTLY_HEAD = """\
GitLab CI, every night: runs the agent of the default branch, and fails where that lost quality since its
release. Make a schedule under Build > Pipeline schedules. Where the project has another job of agent-eval,
let that one run `never` for `$CI_PIPELINE_SOURCE == "schedule"`.
"""
_GITLAB_NIGHTLY_RELEASE = """\
RELEASE is a directory with the evidence of the release, of a run with `trials: 8` or of several runs:
archives in the repository, or what a step before downloads there."""


def gitlab_nightly() -> str:
    return f"""\
{comments("#", _GITLAB_NIGHTLY_HEAD, _IMAGE, _GITLAB_NIGHTLY_RELEASE, _SETTINGS)}
agent-eval-nightly:
  image:
    name: {IMAGE}
    entrypoint: [""]
  rules:
    - if: $CI_PIPELINE_SOURCE == "schedule" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
  variables:
    GIT_DEPTH: "0" # the whole history: runs before this one are found by their commits
    RELEASE: releases/v1
{GITLAB_SCRIPT}    - |
      set --
      for pack in "$RELEASE"/*.zip; do set -- "$@" --release "$pack"; done
      agent-eval drift agent-eval-out/evidence.zip "$@"
{GITLAB_TAIL}"""


def gitlab_pip() -> str:
    return f"""\
{comments("#", _GITLAB_HEAD, _PIP, _GITLAB_TOKEN, _SETTINGS)}
agent-eval:
  image: python:3.11
{_GITLAB_JOB}    {_PACKAGE}: ""
  before_script:
    - python -I -m pip install "${{{_PACKAGE}:?set it to the package to install}}"
{GITLAB_SCRIPT}{GITLAB_TAIL}"""


_BUILDKITE_HEAD = """\
Buildkite: judges the agent on every build, compares it with the evidence of the branch that the change goes
into, and fails when the gate says no. The build is annotated; the report and the evidence are its artifacts.
"""
_BUILDKITE_TOKEN = f"""\
For the baseline, make {variable("buildkite-token")} a secret of the pipeline: an API token with the scopes
`read_builds` and `read_artifacts`. Builds of forks must not have it."""
_BUILDKITE_FETCH = (
    'git fetch --quiet origin "$${BUILDKITE_PULL_REQUEST_BASE_BRANCH:-$$BUILDKITE_PIPELINE_DEFAULT_BRANCH}"'
)
_BUILDKITE_TAIL = """\
    artifact_paths:
      - agent-eval-out/**/*
"""
_DOLLARS = (
    "# Buildkite replaces variables when it reads this file; the double dollars leave them to the shell."
)


def buildkite() -> str:
    return f"""\
{comments("#", _BUILDKITE_HEAD, _IMAGE, _BUILDKITE_TOKEN, _SETTINGS)}

{_DOLLARS} The container is
# given those variables alone whose names begin so, and those of {variable("agent-env")}.
steps:
  - label: agent-eval
    key: agent-eval
    command: |
      {_BUILDKITE_FETCH}
      docker run --rm --user "$$(id -u):$$(id -g)" --env HOME=/tmp \\
        {passed_on("BUILDKITE", "$$")} \\
        $${{BUILDKITE_REPO_MIRROR:+"--volume=$$BUILDKITE_REPO_MIRROR:$$BUILDKITE_REPO_MIRROR:ro"}} \\
        --volume "$$(command -v buildkite-agent):/usr/local/bin/buildkite-agent:ro" \\
        --volume "$$PWD:$$PWD" --workdir "$$PWD" {IMAGE}
{_BUILDKITE_TAIL}"""


def buildkite_pip() -> str:
    return f"""\
{comments("#", _BUILDKITE_HEAD, _PIP, _BUILDKITE_TOKEN, _SETTINGS)}
env:
  {_PACKAGE}: ""

{_DOLLARS}
steps:
  - label: agent-eval
    key: agent-eval
    command:
      - {_BUILDKITE_FETCH}
      - python3 -I -m venv .agent-eval
      - . .agent-eval/bin/activate
      - python3 -I -m pip install "$${{{_PACKAGE}:?set it to the package to install}}"
      - agent-eval ci
{_BUILDKITE_TAIL}"""


_SHARDS_HEAD = """\
Buildkite, in shards: the first step writes the others, for EVALUATION_SHARDS (4) shards. Each runs the agent
on its share of the suite; the last step merges what they left, and decides on it as on one run.
"""
_SHARDS_INSTALL = (
    "python3 -I -m venv .agent-eval && . .agent-eval/bin/activate && "
    f'python3 -I -m pip install "$${{{_PACKAGE}:?set it to the package to install}}"'
)


def buildkite_shards() -> str:
    agent, suite, names = (variable(name) for name in ("agent", "suite", "agent-env"))
    upload = "buildkite-agent pipeline upload --no-interpolation"
    decide = f"{variable('evidence')}=merged agent-eval ci"
    return f"""\
{comments("#", _SHARDS_HEAD, _PIP, _BUILDKITE_TOKEN)}
env:
  {_PACKAGE}: ""
{first_inputs("  ")}
  {agent}: python3 agent.py
{_DOLLARS}
steps:
  - label: agent-eval writes the steps
    command: |
      sed "s/SHARDS/$$(($${{EVALUATION_SHARDS:-4}}))/" <<'END' | {upload}
      steps:
        - label: agent-eval shard
          key: shards
          parallelism: SHARDS
          command:
            - {_SHARDS_INSTALL}
            - >-
              agent-eval run --suite "$${suite}" --agent "$${agent}"
              $${{{names}:+--agent-env "$${names}"}} --run-id "shards-$$BUILDKITE_BUILD_NUMBER"
              --set evidence.layout=compact --out "shards/$$BUILDKITE_PARALLEL_JOB"
              --shard "$$((BUILDKITE_PARALLEL_JOB + 1))/$$BUILDKITE_PARALLEL_JOB_COUNT"
          artifact_paths: shards/**/*
        - label: agent-eval
          depends_on: shards
          command:
            - {_BUILDKITE_FETCH}
            - {_SHARDS_INSTALL}
            - buildkite-agent artifact download --step shards 'shards/**/*' .
            - agent-eval merge shards/* --out merged && {decide}
          artifact_paths: agent-eval-out/**/*
      END
"""


_CIRCLECI_HEAD = """\
CircleCI: judges the agent on every push, compares it with the evidence of the default branch, and fails when
the gate says no. The report, the tests and the evidence are kept with the job. An inconclusive run that the
policy blocks on fails as well: CircleCI knows no third answer.
"""
_CIRCLECI_TOKEN = f"""\
For the baseline, put a personal API token as {variable("circleci-token")} into the context `agent-eval`; for
the comment, {variable("github-token")} or {variable("gitlab-token")}."""
CIRCLECI_DOCKER = f"""\
docker run --rm --user "$(id -u):$(id -g)" --env HOME=/tmp
{passed_on("CIRCLE", "$")}
--volume "$PWD:$PWD" --workdir "$PWD" """.rstrip(" ")
CIRCLECI_TAIL = """\
      - store_test_results:
          path: agent-eval-out/junit
      - store_artifacts:
          path: agent-eval-out
          destination: agent-eval-out
"""
_CIRCLECI_WORKFLOW = """
workflows:
  agent-eval:
    jobs:
      - agent-eval:
          context: agent-eval
"""
_SLUG = f"      {variable('circleci-project-slug')}: << pipeline.project.slug >>\n"


def circleci() -> str:
    command = "\n".join(f"          {line}" for line in CIRCLECI_DOCKER.split("\n"))
    return f"""\
{comments("#", _CIRCLECI_HEAD, _IMAGE, _CIRCLECI_TOKEN, _SETTINGS)}
version: 2.1
jobs:
  agent-eval:
    machine:
      image: ubuntu-2404:current
    environment:
{_SLUG}    steps:
      - checkout:
          method: full # with the files of the commit where the branch began
      - run: >- # the container is given variables whose names begin so, and those of {variable("agent-env")}
{command} {IMAGE}
{CIRCLECI_TAIL}{_CIRCLECI_WORKFLOW}"""


def circleci_pip() -> str:
    return f"""\
{comments("#", _CIRCLECI_HEAD, _PIP, _CIRCLECI_TOKEN, _SETTINGS)}
version: 2.1
jobs:
  agent-eval:
    docker:
      - image: cimg/python:3.11
    environment:
      {_PACKAGE}: ""
{_SLUG}    steps:
      - checkout:
          method: full # with the files of the commit where the branch began
      - run: python -I -m pip install "${{{_PACKAGE}:?set it to the package to install}}"
      - run: agent-eval ci
{CIRCLECI_TAIL}{_CIRCLECI_WORKFLOW}"""


_JENKINS_HEAD = """\
Jenkins: judges the agent on every change, compares it with the evidence of the base branch, and fails when
the gate says no or cannot tell.
"""
_JENKINS_ACCOUNT = """\
The credentials `agent-eval` are an account that may read the base branch's job, with its API token. Let the
branch source fetch the target branch as well, and trust no fork."""
_JENKINS_ENVIRONMENT = """\
        ACCOUNT = credentials('agent-eval')
    }
    stages {
        stage('Evaluate') {
            steps {
"""
_JENKINS_TAIL = """\
                    if (code == 3) { error('agent-eval cannot tell: what to do is in its report') }
                    else if (code != 0) { error('agent-eval said no') }
                }
            }
        }
    }
    post {
        always {
            junit testResults: 'agent-eval-out/junit/*.xml', allowEmptyResults: true,
                skipMarkingBuildUnstable: true
            archiveArtifacts artifacts: 'agent-eval-out/**', allowEmptyArchive: true
        }
    }
}
"""


def _jenkins_ci(program: str) -> str:
    account = f'{variable("jenkins-user")}="$ACCOUNT_USR" {variable("jenkins-token")}="$ACCOUNT_PSW"'
    return f"def code = sh(returnStatus: true, script: '{account} {program} ci')"


def jenkins() -> str:
    return f"""\
{comments("//", _JENKINS_HEAD, _IMAGE, _JENKINS_ACCOUNT, _SETTINGS)}
pipeline {{
    agent {{ docker {{ image '{IMAGE}'; args "--entrypoint=''" }} }}
    environment {{
        HOME = '/tmp'
{_JENKINS_ENVIRONMENT}                script {{
                    {_jenkins_ci("agent-eval")}
{_JENKINS_TAIL}"""


def jenkins_pip() -> str:
    return f"""\
{comments("//", _JENKINS_HEAD, _PIP, _JENKINS_ACCOUNT, _SETTINGS)}
pipeline {{
    agent {{ docker {{ image 'python:3.11' }} }}
    environment {{
        {_PACKAGE} = ''
{_JENKINS_ENVIRONMENT}                sh 'python -I -m venv .agent-eval'
                sh '.agent-eval/bin/pip install "${{{_PACKAGE}:?set it to the package to install}}"'
                script {{
                    {_jenkins_ci(".agent-eval/bin/agent-eval")}
{_JENKINS_TAIL}"""
