"""Jenkins' shared-library step `agentEval`."""

from textwrap import wrap

from tests.ci_files.rows import IMAGE, inputs_on, variable


def jenkins_step() -> str:
    names = ", ".join(f"'{row.name}'" for row in inputs_on("jenkins"))
    listed = "\n".join(
        wrap(names, 100, initial_indent=" " * 8, subsequent_indent=" " * 8, break_on_hyphens=False)
    )
    return f"""\
// The step of Jenkins' shared library, made from the table of inputs by `make generated`.
// A Jenkinsfile uses it so:
//
//   @Library('agent-eval@<commit>') _
//   node {{
//       checkout scm
//       agentEval(suite: 'suites/*.json', max_regressed_cases: 0)
//   }}
//
// Inputs are those of `agent-eval ci`, with _ or with - in quotes. Beside them: `image`, where the image
// lives, best with its digest; `credentials`, the id of an account that reads the base branch's job, or
// ''. Secrets are bound with withCredentials around the step, and are no inputs.

def call(Map settings = [:]) {{
    String image = settings.image ?: '{IMAGE}'
    String credentials = settings.containsKey('credentials') ? settings.credentials : 'agent-eval'
    String out = settings.out ?: 'agent-eval-out'
    List variables = variablesOf(settings) + ['HOME=/tmp']
    int code = 4
    try {{
        withEnv(variables) {{
            withAccount(credentials) {{
                docker.image(image).inside("--entrypoint=''") {{
                    code = sh(returnStatus: true, script: 'agent-eval ci')
                }}
            }}
        }}
    }} finally {{
        junit testResults: "${{out}}/junit/*.xml", allowEmptyResults: true, skipMarkingBuildUnstable: true
        archiveArtifacts artifacts: "${{out}}/**", allowEmptyArchive: true
    }}
    if (code == 3) {{
        error('agent-eval cannot tell: what to do is in its report')
    }} else if (code != 0) {{
        error("agent-eval ended with exit code ${{code}}")
    }}
    return code
}}

private List variablesOf(Map settings) {{
    List variables = []
    for (setting in settings) {{
        String name = setting.key.toString().replace('_', '-')
        if (name == 'image' || name == 'credentials') {{
            continue
        }}
        if (!inputs().contains(name)) {{
            error("agentEval has no input ${{setting.key}}")
        }}
        def value = setting.value instanceof Collection ? setting.value.join('\\n') : setting.value
        variables << 'AGENT_EVAL_' + name.toUpperCase().replace('-', '_') + '=' + value
    }}
    return variables
}}

private void withAccount(String credentials, Closure body) {{
    if (!credentials) {{
        body()
        return
    }}
    withCredentials([usernamePassword(credentialsId: credentials,
        usernameVariable: '{variable("jenkins-user")}', passwordVariable: '{variable("jenkins-token")}')]) {{
        body()
    }}
}}

private List inputs() {{
    return [
{listed}
    ]
}}
"""
