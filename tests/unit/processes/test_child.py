"""What a caller of `run_child` can rely on."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agent_eval.attestations.keys import SECRET_VARIABLE, SIGNING_KEY_VARIABLE
from agent_eval.errors import ExitCode, FailureKind, InvalidInput, NotEvaluable
from agent_eval.processes import pool
from agent_eval.processes.child import ChildLimits, ChildNotStarted, allowed_environment, run_child
from agent_eval.processes.privacy import OF_THE_SIGNER
from agent_eval.storage.redaction_rules import is_secret_name

ENV = {"PATH": os.environ["PATH"]}


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def test_input_arguments_and_environment_arrive_as_they_are() -> None:
    code = "import os, sys; print(sys.stdin.read(), sys.argv[1:], os.environ['A'], ascii(os.environ['B']))"
    env = {**ENV, "A": "ä 'x'", "B": "\udcff", "LC_ALL": "C.UTF-8"}
    result = run_child(python(code, "a b", "$HOME", ""), stdin="{é}".encode(), env=env)
    assert result.stdout.decode() == "{é} ['a b', '$HOME', ''] ä 'x' '\\udcff'\n"
    assert (result.exit_code, result.failure, result.problem) == (0, None, "")
    assert 0 < result.duration_s < 60


@pytest.mark.parametrize(
    ("code", "exit_code", "problem"),
    [
        ("raise SystemExit(3)", 3, "exited with code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -11, "was ended by SIGSEGV"),
        ("import os, signal; os.kill(os.getpid(), 40)", -40, "was ended by signal 40"),
    ],
)
def test_exit_codes_and_signals_are_told(code: str, exit_code: int, problem: str) -> None:
    result = run_child(python(code), env=ENV)
    assert (result.exit_code, result.failure) == (exit_code, FailureKind.AGENT_ERROR)
    assert result.problem == problem


def test_output_at_the_limit_is_allowed_and_one_byte_more_is_not() -> None:
    limits = ChildLimits(stdout_bytes=1000)
    assert run_child(python("print('x' * 999)"), env=ENV, limits=limits).failure is None
    result = run_child(python("print('x' * 1000)"), env=ENV, limits=limits)
    assert (result.failure, len(result.stdout)) == (FailureKind.OUTPUT_LIMIT, 1000)
    assert result.problem == "wrote more than 1000 bytes to standard output"


def test_signals_and_descriptors_of_this_program_are_not_inherited(tmp_path: Path) -> None:
    code = "import os; print(len(os.listdir('/proc/self/fd')), os.getsid(0) == os.getpid())"
    with open(tmp_path / "open", "wb") as file:
        os.set_inheritable(file.fileno(), True)
        result = run_child(python(code), env=ENV)
    assert result.stdout == b"4 True\n"  # the fourth is the listing's own
    # Python ignores SIGPIPE and passes that on; a shell shows what it was given.
    piped = run_child(["sh", "-c", "yes | head -n 1; kill -PIPE $$"], env=ENV)
    assert piped.exit_code == -signal.SIGPIPE


def test_working_directory(tmp_path: Path) -> None:
    code = "import os; print(os.getcwd())"
    assert run_child(python(code), env=ENV, cwd=tmp_path).stdout.decode().strip() == str(tmp_path)
    assert run_child(python(code), env=ENV).stdout.decode().strip() == os.getcwd()


def test_program_beside_the_working_directory_is_found(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("#!/bin/sh\necho here\n")
    script.chmod(0o755)
    assert run_child(["./agent"], env=ENV, cwd=tmp_path).stdout == b"here\n"
    assert run_child(["agent"], env={"PATH": str(tmp_path)}).stdout == b"here\n"


@pytest.mark.parametrize(
    ("argv", "folder", "problem", "remedy"),
    [
        (["no-such-agent"], "", "cannot run no-such-agent: No such file", "the PATH"),
        ([".venv/bin/python"], "", "cannot run .venv/bin/python: No such file", "what `setup`"),
        (["true"], "gone", "working directory", "Create the directory"),
        (["true", "x" * (1 << 22)], "", "too long", "Pass less"),
    ],
    ids=["no program", "no program of the checkout", "no working directory", "arguments too long"],
)
def test_what_cannot_be_started_is_told_and_the_supervisor_serves_on(
    tmp_path: Path, argv: list[str], folder: str, problem: str, remedy: str
) -> None:
    with pytest.raises(ChildNotStarted, match=problem) as caught:
        run_child(argv, env=ENV, cwd=tmp_path / folder)
    assert caught.value.exit_code is ExitCode.NOT_EVALUABLE
    assert remedy in caught.value.remedy
    assert run_child(["true"], env=ENV).failure is None


@pytest.mark.parametrize(
    ("mode", "content", "remedy"),
    [(0o644, "#!/bin/sh\n", "chmod +x"), (0o755, "\0\0", "Begin it with a line")],
)
def test_program_that_cannot_be_executed(tmp_path: Path, mode: int, content: str, remedy: str) -> None:
    script = tmp_path / "agent"
    script.write_text(content)
    script.chmod(mode)
    with pytest.raises(ChildNotStarted) as caught:
        run_child([str(script)], env=ENV)
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("argv", "env"),
    [
        ([], {}),
        ([""], {}),
        (["a\0b"], {}),
        (["true"], {"A": "\0"}),
        (["true"], {"": "x"}),
        (["true"], {"A=B": ""}),
    ],
)
def test_what_no_process_can_be_given_is_refused(argv: list[str], env: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        run_child(argv, env=env)


def test_supervisors_are_used_again_and_new_ones_take_the_place_of_dead_ones() -> None:
    code = "import os; print(os.getppid())"
    first = int(run_child(python(code), env=ENV).stdout)
    assert int(run_child(python(code), env=ENV).stdout) == first
    os.kill(first, signal.SIGKILL)
    while Path(f"/proc/{first}").exists():
        pass  # it dies when the kernel gets to it, and then the nursery buries it
    second = int(run_child(python(code), env=ENV).stdout)
    assert second != first


def test_nursery_that_was_killed_is_started_again() -> None:
    with closing(pool.Supervisors()) as supervisors:
        link = supervisors.take()
        nursery = supervisors._nursery
        assert nursery is not None
        nursery.kill()
        nursery.wait()
        other = supervisors.take()
        assert supervisors._nursery is not nursery
        supervisors.give_back(other)
        link.close()


def test_nursery_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    words = "no process can be started"
    with closing(pool.Supervisors()) as supervisors, pytest.raises(NotEvaluable, match=words):
        supervisors.take()


def test_forked_copy_of_this_program_has_supervisors_of_its_own() -> None:
    code = """if True:
        import os, sys
        from agent_eval.processes.child import run_child
        parent = lambda: int(run_child(["sh", "-c", "echo $PPID"], env={"PATH": sys.argv[1]}).stdout)
        mine = parent()
        child = os.fork()
        if child == 0:
            assert parent() != mine
            sys.exit()
        assert os.waitpid(child, 0)[1] == 0
        assert parent() == mine
    """
    subprocess.run(python(code, ENV["PATH"]), check=True, timeout=60)


def test_running_out_of_descriptors_is_told_and_leaks_none() -> None:
    code = """if True:
        import os, resource, sys
        from agent_eval.errors import NotEvaluable
        from agent_eval.processes.child import run_child
        def run(): return run_child(["true"], env={"PATH": sys.argv[1]})
        def count(): return len(os.listdir("/proc/self/fd"))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        def refused(limit):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            try:
                run()
            except NotEvaluable as error:
                assert "Too many open files" in error.message, error
                return True
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return False
        first = [refused(limit) for limit in range(count(), count() + 3)]
        assert all(first), first
        run()
        before = count()
        tight = [refused(limit) for limit in range(before - 1, before + 9)]
        assert tight[0] and not tight[-1], tight
        run()
        assert count() == before, (before, count())
    """
    subprocess.run(python(code, ENV["PATH"]), check=True, timeout=60)


def test_supervisors_that_are_killed_all_the_time_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    take = pool.SUPERVISORS.take
    killed: list[int] = []

    def take_and_kill() -> pool.SupervisorLink:
        link = take()
        pid = link._pid
        os.kill(pid, signal.SIGKILL)
        while Path(f"/proc/{pid}").exists():
            pass  # until the nursery has buried it
        killed.append(pid)
        return link

    monkeypatch.setattr(pool.SUPERVISORS, "take", take_and_kill)
    with pytest.raises(NotEvaluable, match="killed all the time") as caught:
        run_child(["true"], env=ENV)
    assert len(set(killed)) == len(killed) > 1
    assert "kills processes" in caught.value.remedy
    monkeypatch.undo()
    assert run_child(["true"], env=ENV).failure is None


def test_a_supervisor_that_comes_back_when_all_is_closing_is_ended() -> None:
    supervisors = pool.Supervisors()
    link = supervisors.take()
    pid = link._pid
    ending = supervisors.end_children

    def give_back_meanwhile() -> None:
        supervisors.give_back(link)
        ending()

    supervisors.end_children = give_back_meanwhile  # type: ignore[method-assign]
    supervisors.close()
    assert supervisors._idle == []
    assert not Path(f"/proc/{pid}").exists()


# The environment of this program, and what evidence is signed with, are nothing for other programs

CODE = """
import os
from agent_eval.processes.privacy import OF_THE_SIGNER, hide_environment
before = hide_environment()
print(sorted(set(OF_THE_SIGNER) & set(before)) == sorted(OF_THE_SIGNER), set(OF_THE_SIGNER) & set(os.environ))
"""


def test_every_variable_of_the_signer_is_kept_back_and_redacted() -> None:
    assert {SECRET_VARIABLE, SIGNING_KEY_VARIABLE} < set(OF_THE_SIGNER)
    assert all(map(is_secret_name, OF_THE_SIGNER))


@pytest.mark.parametrize("name", OF_THE_SIGNER)
def test_no_program_gets_it_even_where_it_is_named(name: str) -> None:
    assert allowed_environment({name: "key", "SHOP": "eu"}, [name, "SHOP"]) == {"SHOP": "eu"}


def test_it_is_taken_from_this_process_and_given_to_the_signer() -> None:
    environ = {**os.environ, **dict.fromkeys(OF_THE_SIGNER, "value")}
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout == "True set()\n"


def test_the_path_of_a_public_key_is_no_secret() -> None:
    assert not is_secret_name("INPUT_BASELINE-PUBLIC-KEY")
    assert not is_secret_name("AGENT_EVAL_BASELINE_PUBLIC_KEY")
    assert is_secret_name("INPUT_SIGNING-KEY")


HIDDEN = """
import ctypes
from agent_eval.processes.privacy import hide_environment
PR_GET_DUMPABLE = 3
before = ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
hide_environment()
print(before, ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can refuse it")
def test_no_program_of_the_same_user_may_look_into_this_one() -> None:
    # In a process of its own: what is hidden here stays hidden from debuggers too.
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, text=True, check=True)
    assert done.stdout == "1 0\n"
