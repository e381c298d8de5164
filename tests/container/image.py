"""Builds the real image and runs it as GitHub's runner does, without a docker daemon and without a network.

buildah with chroot isolation takes the place of docker, and a Debian made by debootstrap that of the base.
Downloads (the base and the wheels of the lock) are kept between runs in a cache outside the project.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from tests.conftest import OF_THE_MACHINE

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements/runtime.lock", "requirements/build.lock", "requirements/sbom.lock")
SUITE = "bookworm"
PYTHON = "3.11"
PLATFORMS = ("manylinux2014", "manylinux_2_17", "manylinux_2_28")
NOT_IN_AN_IMAGE = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale")
TOOLS = ("buildah", "debootstrap", "unshare")
NOT_CONTEXT = (".git", ".venv", "node_modules", "__pycache__", ".*_cache", ".hypothesis", "wheels", "tests")
TIMEOUT = 900


def missing() -> str:
    """Why the image cannot be built here; empty when it can."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if os.geteuid() != 0:
        return "needs root, for debootstrap and chroot"
    tools = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"needs {', '.join(tools)}: tests/container/prepare installs them" if tools else ""


def cache() -> Path:
    """Where downloads are kept between runs, mode 700."""
    default = OF_THE_MACHINE / f"agent-eval-container-{os.geteuid()}"
    directory = Path(os.environ.get("AGENT_EVAL_CONTAINER_CACHE", default))
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to another user")
    return directory


@dataclass
class Buildah:
    """buildah with a storage of its own below `store`, so that nothing of the machine is touched."""

    store: Path
    environ: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Write the storage's configuration."""
        self.store.mkdir(parents=True, exist_ok=True)
        configuration = self.store / "storage.conf"
        places = f'graphroot = "{self.store}/graph"\nrunroot = "{self.store}/run"\n'
        configuration.write_text(f'[storage]\ndriver = "vfs"\n{places}', encoding="utf-8")
        self.environ = {
            **os.environ, "TMPDIR": str(OF_THE_MACHINE), "CONTAINERS_STORAGE_CONF": str(configuration),
        }  # fmt: skip

    def __call__(self, *arguments: str, offline: bool = False) -> str:
        """Run a command of buildah and return what it printed; raises when it fails."""
        command = [*(["unshare", "-n"] if offline else []), "buildah", *arguments]
        done = subprocess.run(
            command, env=self.environ, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
        return done.stdout.strip()


@contextmanager
def downloading() -> Iterator[Path]:
    """A scratch directory in the cache, while no other run of the tests downloads."""
    with FileLock(cache() / "lock"), tempfile.TemporaryDirectory(dir=cache()) as scratch:
        yield Path(scratch)


def base(buildah: Buildah, *more: str) -> str:
    """Name of the base image: a minimal Debian with Python, venv, certificates, and what else is named."""
    name = "-".join(("base", *more))
    archive = cache() / f"{SUITE}-python-{name}.tar"
    with downloading() as scratch:
        if not archive.is_file():
            _debootstrap(scratch / "rootfs", *more)
            partial = scratch / "base.tar"
            _check(["tar", "--create", f"--file={partial}", f"--directory={scratch}/rootfs", "."])
            partial.replace(archive)
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, str(archive), "/")
    buildah("commit", "--quiet", "--rm", container, f"localhost/{name}")
    return f"localhost/{name}"


def wheels(machine: str = "") -> Path:
    """Directory with the wheels of the locks for the base's Python, verified by their hashes.

    Args:
        machine: As `uname -m` names it; this one by default.
    """
    machine = machine or os.uname().machine
    content = b"".join((ROOT / lock).read_bytes() for lock in LOCKS)
    directory = cache() / f"wheels-{machine}-{hashlib.sha256(content).hexdigest()[:16]}"
    with downloading() as scratch:
        if not directory.is_dir():
            _download(scratch / "wheels", machine)
            (scratch / "wheels").replace(directory)
    return directory


def context(directory: Path) -> Path:
    """Copy the project and the wheels into a build context."""
    shutil.copytree(ROOT, directory, ignore=shutil.ignore_patterns(*NOT_CONTEXT), symlinks=True)
    shutil.copytree(wheels(), directory / "wheels")
    return directory


@dataclass(frozen=True)
class Image:
    """The built image and one container of it, in which commands are run."""

    buildah: Buildah
    name: str
    container: str

    @property
    def config(self) -> dict[str, object]:
        """The image's configuration: Entrypoint, Env, User, ..."""
        inspected: dict[str, object] = json.loads(self.buildah("inspect", self.name))["OCIv1"]["config"]
        return inspected

    @property
    def root(self) -> Path:
        """The container's file system on this machine."""
        return Path(self.buildah("mount", self.container))

    def run(
        self,
        arguments: Sequence[str],
        *,
        workspace: Path,
        environ: Mapping[str, str] | None = None,
        user: str = "0:0",
        mounts: Mapping[Path, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the entrypoint with the workspace where GitHub's runner mounts it."""
        binds = {workspace: "/github/workspace", **(mounts or {})}
        return self.execute(arguments, binds, "/github/workspace", environ or {}, user=user)

    def execute(
        self,
        arguments: Sequence[str],
        binds: Mapping[Path, str],
        directory: str,
        environ: Mapping[str, str],
        *,
        user: str = "0:0",
    ) -> subprocess.CompletedProcess[str]:
        """Run the entrypoint, with no shell between.

        Args:
            arguments: What follows the entrypoint.
            binds: Where each path of this machine is mounted.
            directory: The working directory.
            environ: Variables, whatever their names.
            user: `uid:gid`.
        """
        entrypoint = self.config["Entrypoint"]
        assert isinstance(entrypoint, list)
        command = [
            *("buildah", "run", "--isolation", "chroot", "--user", user, "--workingdir", directory),
            *(argument for path, place in binds.items() for argument in ("--volume", f"{path}:{place}")),
            *(argument for pair in environ.items() for argument in ("--env", "=".join(pair))),
            *(self.container, "--", *entrypoint, *arguments),
        ]
        return subprocess.run(
            command, env=self.buildah.environ, capture_output=True, text=True, check=False, timeout=TIMEOUT
        )


def build(scratch: Path) -> Image:
    """Build the image from the project's Dockerfile, without a network."""
    buildah = Buildah(scratch / "store")
    plain = base(buildah)
    arguments = ["--isolation", "chroot", "--pull-never", "--build-arg", f"BASE={plain}"]
    arguments += ["--build-arg", f"GIT_BASE={base(buildah, 'git')}"]
    name = "localhost/agent-eval"
    buildah("bud", *arguments, "--tag", name, str(context(scratch / "context")), offline=True)
    return Image(buildah, name, buildah("from", "--pull-never", name))


def _download(directory: Path, machine: str) -> None:
    _check(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
            *("--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"),
            *(f"--abi={abi}" for abi in ("cp311", "abi3", "none")),
            *(f"--platform={platform}_{machine}" for platform in PLATFORMS),
            *(argument for lock in LOCKS for argument in ("--requirement", str(ROOT / lock))),
            *("--dest", str(directory)),
        ]
    )


def _debootstrap(target: Path, *more: str) -> None:
    include = ",".join(("python3", "python3-venv", "ca-certificates", *more))
    _check(["debootstrap", "--variant=minbase", f"--include={include}", SUITE, str(target)])
    for place in NOT_IN_AN_IMAGE:
        for path in (target / place).iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _check(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
