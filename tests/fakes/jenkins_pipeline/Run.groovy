// Runs a Jenkinsfile, or the step of a shared library, with steps that do what Jenkins' own do here: `sh` runs the
// script, results only get worse, `junit` and `archiveArtifacts` are noted.
//
//   groovy Run.groovy NOTES jenkinsfile FILE
//   groovy Run.groovy NOTES library FILE SETTINGS   (a file with Groovy's notation of a map)

import groovy.json.JsonOutput
import org.codehaus.groovy.control.CompilerConfiguration

class Run {
    static void failed(Failed failure) {
        Build.notes.error = failure.message
        Build.worsen('FAILURE')
    }

    static void main(String[] args) {
        def configuration = new CompilerConfiguration(scriptBaseClass: 'Steps')
        def shell = new GroovyShell(Run.classLoader, new Binding(), configuration)
        def script = shell.parse(new File(args[2]))
        try {
            if (args[1] == 'jenkinsfile') {
                script.run()
            } else {
                script.call(new GroovyShell().evaluate(new File(args[3])))
            }
        } catch (Failed failed) {
            Run.failed(failed)
        }
        new File(args[0]).text = JsonOutput.toJson([result: Build.result] + Build.notes)
    }
}

class Failed extends RuntimeException {
    Failed(String message) { super(message) }
}

class Build {
    static String result = 'SUCCESS'
    static Map notes = [image: '', args: '', unstable: '', error: '', junit: [:], archived: [:], scripts: []]
    static Map environ = [:]

    static void worsen(String to) {
        List order = ['SUCCESS', 'UNSTABLE', 'FAILURE']
        if (order.indexOf(to) > order.indexOf(result)) { result = to }
    }

    static void within(Map more, Closure body) {
        Map before = new LinkedHashMap(environ)
        environ.putAll(more)
        try { body() } finally { environ = before }
    }
}

class Environment {
    void setProperty(String name, Object value) {
        if (value instanceof List) {
            Build.environ["${name}_USR".toString()] = value[0]
            Build.environ["${name}_PSW".toString()] = value[1]
        } else {
            Build.environ[name] = value.toString()
        }
    }

    List credentials(String id) { Steps.account(id) }
}

class Image {
    String name

    void inside(String args, Closure body) {
        Build.notes.image = name
        Build.notes.args = args
        body()
    }
}

class Docker {
    Image image(String name) { new Image(name: name) }
}

abstract class Steps extends Script {
    static List account(String id) {
        if (id != 'agent-eval') { throw new Failed("there are no credentials ${id}") }
        [System.getenv('ACCOUNT_USR'), System.getenv('ACCOUNT_PSW')]
    }

    def sh(String script) { sh(script: script) }

    def sh(Map how) {
        assert how.keySet().every { it in ['script', 'returnStatus'] }
        Build.notes.scripts << how.script
        def builder = new ProcessBuilder('sh', '-e', '-c', how.script.toString())
        Build.environ.each { name, value -> builder.environment().put(name.toString(), value.toString()) }
        def process = builder.redirectErrorStream(true).start()
        process.inputStream.eachLine { println it }
        int code = process.waitFor()
        if (how.returnStatus) { return code }
        if (code != 0) { throw new Failed("script returned exit code ${code}") }
    }

    def unstable(String message) { Build.notes.unstable = message; Build.worsen('UNSTABLE') }

    def error(String message) { throw new Failed(message) }

    def junit(Map how) { Build.notes.junit = how }

    def archiveArtifacts(Map how) { Build.notes.archived = how }

    def withEnv(List variables, Closure body) {
        Build.within(variables.collectEntries { it.toString().split('=', 2).toList() }, body)
    }

    def usernamePassword(Map how) { how }

    def withCredentials(List bindings, Closure body) {
        Map more = [:]
        bindings.each {
            def (user, password) = account(it.credentialsId)
            more[it.usernameVariable] = user
            more[it.passwordVariable] = password
        }
        Build.within(more, body)
    }

    Docker getDocker() { new Docker() }

    // Declarative pipelines

    def pipeline(Closure body) { body() }

    def agent(Closure body) { body() }

    def docker(Closure body) { body() }

    def image(String name) { Build.notes.image = name }

    def args(String text) { Build.notes.args = text }

    def environment(Closure body) {
        body.delegate = new Environment()
        body.resolveStrategy = Closure.DELEGATE_ONLY
        body()
    }

    def stages(Closure body) {
        try { body() } catch (Failed failed) { Run.failed(failed) }
    }

    def stage(String name, Closure body) { body() }

    def steps(Closure body) { body() }

    def script(Closure body) { body() }

    def post(Closure body) { body() }

    def always(Closure body) { body() }
}
