"""A `docker run` for tests: reads its flags, and runs the image's file system with what they ask for.

buildah's chroot isolation knows neither a read-only root nor a network of its own. Here the flags become what
they are in docker: mounts in a namespace of their own, one without a network, a user by number, no
capabilities. A flag that is not known ends the test, so a page cannot show one that was never tried.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.container.image import ROOT, TIMEOUT, Image

DESCRIPTION = "AGENT_EVAL_TEST_IMAGE"
"""Names the file that says to the program `docker` where the image is."""


LOOPBACK_UP = """\
import fcntl, socket, struct
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 0x49))
"""
"""SIOCSIFFLAGS with IFF_UP | IFF_RUNNING | IFF_LOOPBACK: `--network none` leaves a container its loopback."""


@dataclass(frozen=True)
class Unpacked:
    """An image's file system on this machine, and its configuration."""

    root: Path
    config: Mapping[str, Any]

    @classmethod
    def of(cls, image: Image) -> Unpacked:
        """The file system of the container that the tests share."""
        return cls(image.root, image.config)

    def home(self, user: str) -> str:
        """What docker sets HOME to: as the image's /etc/passwd has it, else the root."""
        lines = (self.root / "etc/passwd").read_text(encoding="utf-8").splitlines()
        homes = {line.split(":")[2]: line.split(":")[5] for line in lines}
        return homes.get(user.partition(":")[0], "/")


@dataclass(frozen=True)
class Run:
    """What a command line of `docker run` asks for."""

    arguments: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    user: str = "0:0"
    volumes: tuple[str, ...] = ()
    workdir: str = "/"
    environ: Mapping[str, str] = field(default_factory=dict)
    tmpfs: tuple[str, ...] = ()
    read_only: bool = False
    offline: bool = False
    powerless: bool = False

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Run:
        """Read what follows `docker run`; an unknown flag is an error."""
        parser = argparse.ArgumentParser("docker run", allow_abbrev=False)
        for flag in ("--rm", "--read-only"):
            parser.add_argument(flag, action="store_true")
        for flag in ("--volume", "--env", "--tmpfs"):
            parser.add_argument(flag, action="append", default=[])
        parser.add_argument("--user", default="0:0")
        parser.add_argument("--workdir", default="/")
        parser.add_argument("--entrypoint", default="")
        parser.add_argument("--network", choices=["none", "host"])
        parser.add_argument("--cap-drop", choices=["ALL"])
        parser.add_argument("--security-opt", choices=["no-new-privileges"])
        parser.add_argument("image")
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        found = parser.parse_args(arguments)
        return cls(
            arguments=tuple(found.arguments), entrypoint=tuple(filter(None, [found.entrypoint])),
            user=found.user, volumes=tuple(found.volume), workdir=found.workdir,
            environ=dict(map(_variable, found.env)), tmpfs=tuple(found.tmpfs), read_only=found.read_only,
            offline=found.network == "none", powerless=bool(found.cap_drop and found.security_opt),
        )  # fmt: skip

    def execute(self, image: Unpacked) -> subprocess.CompletedProcess[str]:
        """Run it; the mounts end with the process."""
        place = mkdtemp(prefix="container-")
        namespaces = ["--mount", "--propagation=private", *(["--net"] if self.offline else [])]
        script = "\n".join(
            ["set -eu", "umask 022", *self._mounts(image.root, place), self._inside(image, place)]
        )
        try:
            return subprocess.run(
                ["unshare", *namespaces, "sh", "-c", script],
                env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                capture_output=True, text=True, check=False, timeout=TIMEOUT,
            )  # fmt: skip
        finally:
            os.rmdir(place)

    def _mounts(self, root: Path, place: str) -> list[str]:
        volumes = [volume.split(":") for volume in self.volumes]
        places = [*(parts[1] for parts in volumes), *self.tmpfs]
        lines = [shlex.join([sys.executable, "-c", LOOPBACK_UP])] if self.offline else []
        lines += [f"mkdir -p {shlex.quote(f'{root}{path}')}" for path in places]
        lines.append(f"mount --bind {shlex.quote(str(root))} {place}")
        if self.read_only:
            lines.append(f"mount -o remount,bind,ro {place}")
        lines += [f"mount --rbind /proc {place}/proc", f"mount -t tmpfs -o mode=755 tmpfs {place}/dev"]
        lines += [
            f"touch {place}/dev/{name}; mount --bind /dev/{name} {place}/dev/{name}"
            for name in ("full", "null", "random", "urandom", "zero")
        ]
        lines.append(f"mkdir -m 1777 {place}/dev/shm")
        lines += [f"mount -t tmpfs -o mode=1777 tmpfs {place}{shlex.quote(path)}" for path in self.tmpfs]
        for source, target, *options in volumes:
            where = shlex.quote(f"{place}{target}")
            lines += [f"mkdir -p {where}", f"mount --bind {shlex.quote(source)} {where}"]
            lines += [f"mount -o remount,bind,{option} {where}" for option in options]
        return lines

    def _inside(self, image: Unpacked, place: str) -> str:
        user, _, group = self.user.partition(":")
        drop = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if self.powerless else []
        environ = {"HOME": image.home(self.user), **dict(map(_pair, image.config["Env"])), **self.environ}
        return shlex.join(
            [
                *("exec", "chroot", place),
                *("setpriv", f"--reuid={user}", f"--regid={group or 0}", "--clear-groups", *drop),
                *("env", "--ignore-environment", f"--chdir={self.workdir}"),
                *(f"{name}={value}" for name, value in environ.items()),
                *(self.entrypoint or image.config["Entrypoint"]),
                *self.arguments,
            ]
        )


def install(image: Image, directory: Path, *, user: int) -> dict[str, str]:
    """Put programs `docker` and `id` into a directory; return the variables with which a shell uses them.

    Args:
        image: What every `docker run` starts, whatever image it names.
        directory: A new directory.
        user: User and group that `id` names.
    """
    directory.mkdir()
    unpacked = Unpacked.of(image)
    description = directory / "image.json"
    config = json.dumps({"root": str(unpacked.root), "config": unpacked.config})
    description.write_text(config, encoding="utf-8")
    for name, text in (
        ("docker", f"#!{sys.executable}\nfrom tests.container.docker import main\nmain()\n"),
        ("id", f"#!/bin/sh\necho {user}\n"),
    ):
        (directory / name).write_text(text, encoding="utf-8")
        (directory / name).chmod(0o755)
    path = f"{directory}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), DESCRIPTION: str(description)}


def main() -> None:
    """Be the program `docker`, of which `run` is all that there is."""
    described = json.loads(Path(os.environ[DESCRIPTION]).read_text(encoding="utf-8"))
    assert sys.argv[1] == "run", sys.argv
    done = Run.parse(sys.argv[2:]).execute(Unpacked(Path(described["root"]), described["config"]))
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    sys.exit(done.returncode)


def _variable(text: str) -> tuple[str, str]:
    """`NAME=VALUE`, or `NAME` for the caller's own value."""
    name, sign, value = text.partition("=")
    return name, value if sign else os.environ.get(name, "")


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
