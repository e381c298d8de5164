"""What a release needs beside its packages: one version, notes, the image's digest in action.yml, tags.

    python scripts/release.py check                 # every place states the same version
    python scripts/release.py notes                 # the version's section of CHANGELOG.md
    python scripts/release.py pin --layout DIR --image ghcr.io/OWNER/NAME --revision COMMIT
    python scripts/release.py tag [--push origin]   # commits action.yml as pinned; tags vX.Y.Z and vX

The image was built from the commit of the release, for all platforms, and copied into DIR as an OCI layout
(`skopeo copy --all`). Its digest goes into action.yml of the tagged commit alone: on the branch the action is
built from the checkout. Needs Python 3.11 and git, and nothing installed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLATFORMS = frozenset({"linux/amd64", "linux/arm64"})
BUILT_FROM_CHECKOUT = "\n  image: Dockerfile\n"
LABEL = "org.opencontainers.image."
VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
IMAGE = re.compile(r"[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+")


class CannotRelease(Exception):
    """Why there can be no release, and what to do."""


@dataclass(frozen=True, order=True)
class Version:
    """A version as PEP 440 writes it: `1.4.0`, or `1.4.0rc1` before it."""

    numbers: tuple[int, int, int]
    is_final: bool
    stage: tuple[str, int] = ("", 0)

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read a version; refuse any other form."""
        match = VERSION.fullmatch(text)
        if match is None:
            raise CannotRelease(f"{text!r} is no version: write 1.4.0, or 1.4.0rc1 for a candidate")
        major, minor, patch, stage, number = match.groups()
        numbers = (int(major), int(minor), int(patch))
        return cls(numbers, stage is None, (stage or "", int(number or 0)))

    def __str__(self) -> str:
        """Write it as it was read."""
        stage = f"{self.stage[0]}{self.stage[1]}" if not self.is_final else ""
        return ".".join(map(str, self.numbers)) + stage


def stated_version(root: Path) -> Version:
    """Read the version of the package, which every other place has to state as well."""
    text = (root / "agent_eval" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if match is None:
        raise CannotRelease("agent_eval/__init__.py states no __version__")
    return Version.parse(match[1])


def check(root: Path) -> Version:
    """Return the version; raises unless each place states it, and CHANGELOG.md with a date."""
    version = stated_version(root)
    places = {"pyproject.toml": f'\nversion = "{version}"\n', "Dockerfile": f'{LABEL}version="{version}"'}
    for name, line in places.items():
        if line not in (root / name).read_text(encoding="utf-8"):
            raise CannotRelease(f"{name} does not state version {version}: {line.strip()}")
    notes(root, version)
    return version


def notes(root: Path, version: Version) -> str:
    """Return what CHANGELOG.md says about a version."""
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    for section in sections[1:]:
        heading, _, text = section.partition("\n")
        if heading.split()[0] == str(version):
            if not re.fullmatch(r"\S+ \(\d{4}-\d{2}-\d{2}\)", heading):
                raise CannotRelease(f"CHANGELOG.md does not date {version}: write ## {version} (2026-01-31)")
            return text.strip() + "\n"
    raise CannotRelease(f"CHANGELOG.md has no section for {version}: ## {version} (2026-01-31)")


@dataclass(frozen=True)
class Layout:
    """A directory in the layout of the OCI image specification; every blob is read by its digest."""

    root: Path

    def image(self) -> tuple[str, dict[str, Any]]:
        """Return digest and content of the one image index that the layout holds."""
        listed = json.loads((self.root / "index.json").read_bytes())["manifests"]
        if len(listed) != 1:
            raise CannotRelease(f"{self.root} holds {len(listed)} images: copy one, with skopeo copy --all")
        index = self.blob(listed[0])
        if "manifests" not in index:
            raise CannotRelease(
                f"{self.root} holds the image of one platform: copy it with skopeo copy --all"
            )
        return listed[0]["digest"], index

    def blob(self, descriptor: Mapping[str, Any]) -> dict[str, Any]:
        """Read the JSON that a descriptor names, and hold it to its digest and size."""
        digest = str(descriptor["digest"])
        if not DIGEST.fullmatch(digest):
            raise CannotRelease(f"{self.root}: {digest!r} is no sha256 digest")
        content = (self.root / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()
        if hashlib.sha256(content).hexdigest() != digest[7:] or len(content) != descriptor["size"]:
            raise CannotRelease(f"{self.root}: the content of {digest} is not what its digest and size say")
        found: dict[str, Any] = json.loads(content)
        return found

    def platforms(self, index: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield each platform of an index with the labels of its image; attestations are left out."""
        for descriptor in index["manifests"]:
            if "vnd.docker.reference.type" in descriptor.get("annotations", {}):
                continue
            config = self.blob(self.blob(descriptor)["config"])
            platform = f"{config['os']}/{config['architecture']}"
            stated = descriptor.get("platform", {})
            if platform != f"{stated.get('os')}/{stated.get('architecture')}":
                raise CannotRelease(
                    f"the index calls an image {stated}, which says that it is for {platform}"
                )
            yield platform, config.get("config", {}).get("Labels") or {}


def verified_digest(layout: Layout, version: Version, revision: str) -> str:
    """Return the digest of an image that has all platforms, each built from this commit for this version."""
    digest, index = layout.image()
    found = list(layout.platforms(index))
    if sorted(platform for platform, _ in found) != sorted(PLATFORMS):
        raise CannotRelease(
            f"the image has {[name for name, _ in found]}, not one of each of {sorted(PLATFORMS)}"
        )
    expected = {"revision": revision, "version": str(version)}
    for platform, labels in found:
        stated = {name: labels.get(f"{LABEL}{name}") for name in expected}
        if stated != expected:
            raise CannotRelease(f"the image for {platform} says {stated}, and this is {expected}")
    return digest


def pin(root: Path, image: str, digest: str) -> None:
    """Write the image by its digest into action.yml, in place of the build."""
    if not IMAGE.fullmatch(image) or not DIGEST.fullmatch(digest):
        raise CannotRelease(f"{image}@{digest} names no image: write ghcr.io/owner/name, in lower case")
    path = root / "action.yml"
    text = path.read_text(encoding="utf-8")
    if text.count(BUILT_FROM_CHECKOUT) != 1:
        raise CannotRelease("action.yml does not build the Dockerfile: is it pinned already?")
    pinned = text.replace(BUILT_FROM_CHECKOUT, f"\n  image: docker://{image}@{digest}\n")
    path.write_text(pinned, encoding="utf-8")


def git(root: Path, *arguments: str) -> str:
    """Run git and return what it printed; raises with what it said."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotRelease(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def tag(root: Path, remote: str | None) -> list[str]:
    """Commit action.yml and tag the commit; return the tags. With a remote, all are pushed or none.

    The tag of the major version is moved to the newest release of it: a correction of an older one leaves
    it, and so does a candidate. A tag of a version is never moved.
    """
    version = check(root)
    if git(root, "status", "--porcelain") != "M action.yml":
        raise CannotRelease(
            "exactly action.yml must differ from the commit: pin the image, change nothing else"
        )
    listed = git(root, "ls-remote", "--tags", "--refs", remote) if remote else git(root, "tag", "--list")
    names = {line.rpartition("/")[2] for line in listed.splitlines()}
    if f"v{version}" in names:
        raise CannotRelease(f"v{version} exists, and a version is released once: state the next one")
    git(
        root,
        "commit",
        "--quiet",
        "--message",
        f"Release {version}: the action runs the image by its digest",
        "action.yml",
    )
    git(root, "tag", "--annotate", "--message", f"agent-eval {version}", f"v{version}")
    tags = [f"v{version}"]
    if version.is_final and version > max(
        _released(names, version.numbers[0]), default=Version((0, 0, 0), False)
    ):
        tags.append(f"v{version.numbers[0]}")
        git(root, "tag", "--force", "--annotate", "--message", f"agent-eval {version}", tags[1])
    if remote:
        # Only the second may move; git refuses to overwrite the first.
        pushed = [f"refs/tags/{tags[0]}", *(f"+refs/tags/{name}" for name in tags[1:])]
        git(root, "push", "--quiet", "--atomic", remote, *pushed)
    return tags


def _released(names: set[str], major: int) -> list[Version]:
    """Final versions among tags, of one major version."""
    versions = [Version.parse(name[1:]) for name in names if re.fullmatch(f"v{VERSION.pattern}", name)]
    return [version for version in versions if version.is_final and version.numbers[0] == major]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the checkout")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("notes")
    pinning = commands.add_parser("pin")
    pinning.add_argument("--layout", type=Path, required=True, help="the image as an OCI layout")
    pinning.add_argument("--image", required=True, help="where the image is published")
    pinning.add_argument("--revision", required=True, help="the commit that it was built from")
    tagging = commands.add_parser("tag")
    tagging.add_argument("--push", metavar="REMOTE", help="push the tags there")
    return parser.parse_args()


def _said(arguments: argparse.Namespace) -> str:
    """Do what was asked for; return what is printed."""
    root: Path = arguments.root
    if arguments.command == "tag":
        return "\n".join(tag(root, arguments.push))
    version = check(root)
    if arguments.command == "notes":
        return notes(root, version).rstrip("\n")
    if arguments.command == "pin":
        digest = verified_digest(Layout(arguments.layout), version, arguments.revision)
        pin(root, arguments.image, digest)
        return digest
    return str(version)


if __name__ == "__main__":
    try:
        print(_said(_arguments()))
    except (CannotRelease, OSError, KeyError, json.JSONDecodeError) as error:
        sys.exit(f"release: {error}")
