// The step of Jenkins' shared library, made from the table of inputs by `make generated`.
// A Jenkinsfile uses it so:
//
//   @Library('agent-eval@<commit>') _
//   node {
//       checkout scm
//       agentEval(suite: 'suites/*.json', max_regressed_cases: 0)
//   }
//
// Inputs are those of `agent-eval ci`, with _ or with - in quotes. Beside them: `image`, where the image
// lives, best with its digest; `credentials`, the id of an account that reads the base branch's job, or
// ''. Secrets are bound with withCredentials around the step, and are no inputs.

def call(Map settings = [:]) {
    String image = settings.image ?: 'ghcr.io/your-organisation/agent-eval:v1'
    String credentials = settings.containsKey('credentials') ? settings.credentials : 'agent-eval'
    String out = settings.out ?: 'agent-eval-out'
    List variables = variablesOf(settings) + ['HOME=/tmp']
    int code = 4
    try {
        withEnv(variables) {
            withAccount(credentials) {
                docker.image(image).inside("--entrypoint=''") {
                    code = sh(returnStatus: true, script: 'agent-eval ci')
                }
            }
        }
    } finally {
        junit testResults: "${out}/junit/*.xml", allowEmptyResults: true, skipMarkingBuildUnstable: true
        archiveArtifacts artifacts: "${out}/**", allowEmptyArchive: true
    }
    if (code == 3) {
        error('agent-eval cannot tell: what to do is in its report')
    } else if (code != 0) {
        error("agent-eval ended with exit code ${code}")
    }
    return code
}

private List variablesOf(Map settings) {
    List variables = []
    for (setting in settings) {
        String name = setting.key.toString().replace('_', '-')
        if (name == 'image' || name == 'credentials') {
            continue
        }
        if (!inputs().contains(name)) {
            error("agentEval has no input ${setting.key}")
        }
        def value = setting.value instanceof Collection ? setting.value.join('\n') : setting.value
        variables << 'AGENT_EVAL_' + name.toUpperCase().replace('-', '_') + '=' + value
    }
    return variables
}

private void withAccount(String credentials, Closure body) {
    if (!credentials) {
        body()
        return
    }
    withCredentials([usernamePassword(credentialsId: credentials,
        usernameVariable: 'AGENT_EVAL_JENKINS_USER', passwordVariable: 'AGENT_EVAL_JENKINS_TOKEN')]) {
        body()
    }
}

private List inputs() {
    return [
        'config', 'set', 'suite', 'label', 'agent', 'agent-env', 'agent-header', 'trials',
        'parallel', 'judge-model', 'max-run-cost', 'min-pass-rate', 'max-regressed-cases', 'preset',
        'base-agent', 'fail-on', 'baseline', 'evidence', 'report-run-id', 'allow-fork-with-secrets',
        'out', 'title', 'comment', 'comment-id', 'jenkins-user'
    ]
}
