"""A `docker` on the PATH that runs the image's program in the place that its arguments describe."""

import json
import sys
from pathlib import Path

_PROGRAM = """\
import json, os, sys

words = sys.argv[1:]
if not words or words.pop(0) != "run":
    sys.exit("docker: only `run` is known")
given, environ, mounted, workdir = [], {}, {}, ""
while words and words[0].startswith("-"):
    option, equals, value = words.pop(0).partition("=")
    if option == "--rm":
        given.append(option)
        continue
    value = value if equals else words.pop(0)
    given.append(f"{option}={value}")
    if option == "--env":
        name, assigned, text = value.partition("=")
        if assigned or name in os.environ:
            environ[name] = text if assigned else os.environ[name]
    elif option == "--volume":
        source, target = value.split(":")[:2]
        if not os.path.exists(source):
            sys.exit(f"docker: {source} does not exist")
        mounted[target] = source
    elif option == "--workdir":
        workdir = value
    elif option != "--user":
        sys.exit(f"docker: unknown flag: {option}")
if workdir not in mounted:
    sys.exit(f"docker: {workdir} is not mounted")
image, *command = words
root = HERE + "/image"
for target, source in mounted.items():
    if target.startswith("/usr/local/bin/"):
        link = os.path.join(root, os.path.basename(target))
        if not os.path.lexists(link):
            os.symlink(source, link)
with open(HERE + "/runs.jsonl", "a") as log:
    print(json.dumps({"image": image, "options": given, "names": sorted(environ)}), file=log)
of_machine = ("COVERAGE", "NO_PROXY")
machine = {name: value for name, value in os.environ.items() if name.startswith(of_machine)}
os.chdir(mounted[workdir])
path = os.pathsep.join([root, "/usr/bin", "/bin"])
os.execve(root + "/agent-eval", ["agent-eval", *(command or ["ci"])], {**machine, **environ, "PATH": path})
"""


def write_docker(place: Path) -> Path:
    """Write the program into a directory of its own.

    Returns:
        Where the programs of the image belong; `agent-eval` is what its entrypoint runs.
    """
    image = place / "image"
    image.mkdir(parents=True)
    program = place / "docker"
    program.write_text(f"#!{sys.executable}\nHERE = {str(place)!r}\n{_PROGRAM}")
    program.chmod(0o755)
    return image


def docker_runs(place: Path) -> list[dict[str, list[str]]]:
    """Each run so far: its options, and the names of the variables that the container was given."""
    log = place / "runs.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
