"""A release states one version, names its image by a verified digest, and moves no tag that it must not."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.release import (
    LABEL,
    CannotRelease,
    Layout,
    Version,
    check,
    git,
    notes,
    pin,
    tag,
    verified_digest,
)

ROOT = Path(__file__).parents[2]
PLACES = ("action.yml", "Dockerfile", "CHANGELOG.md", "pyproject.toml", "agent_eval/__init__.py")
COMMIT = "c" * 40
IMAGE = "ghcr.io/your-organisation/agent-eval"
DIGEST = "sha256:" + "d" * 64
WORKFLOWS = ROOT / ".github" / "workflows"
OURS = check(ROOT)


class LayoutOnDisk:
    """Writes an OCI layout by hand."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "blobs" / "sha256").mkdir(parents=True)

    def blob(self, content: Mapping[str, Any], **more: object) -> dict[str, Any]:
        """Write a blob; return its descriptor."""
        data = json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        (self.root / "blobs" / "sha256" / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data), **more}

    def image(self, architecture: str, stated: str = "", **labels: str) -> dict[str, Any]:
        """Write the image of one platform; return its descriptor in an index."""
        named = {"revision": COMMIT, "version": str(OURS), **labels}
        config = {"Labels": {f"{LABEL}{name}": value for name, value in named.items()}}
        configured = self.blob({"os": "linux", "architecture": architecture, "config": config})
        platform = {"os": "linux", "architecture": stated or architecture}
        return self.blob({"config": configured, "layers": []}, platform=platform)

    def index(self, *images: Mapping[str, Any]) -> Layout:
        """Write the index of images as the one that the layout holds."""
        described = self.blob({"manifests": images})
        self.holds(described)
        return Layout(self.root)

    def holds(self, *descriptors: Mapping[str, Any]) -> None:
        """Write what the layout holds."""
        (self.root / "index.json").write_text(json.dumps({"manifests": descriptors}))


@pytest.fixture
def disk(tmp_path: Path) -> LayoutOnDisk:
    return LayoutOnDisk(tmp_path / "layout")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the files that state the version, and a remote of its own."""
    place = tmp_path / "checkout"
    for name in PLACES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place / name)
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", "remote.git")
    git(place, "init", "--quiet", "--initial-branch=main")
    for key, value in {"user.name": "releaser", "user.email": "releaser@example.com"}.items():
        git(place, "config", key, value)
    git(place, "remote", "add", "origin", str(tmp_path / "remote.git"))
    git(place, "add", ".")
    git(place, "commit", "--quiet", "--message", "main")
    git(place, "push", "--quiet", "origin", "main")
    return place


def restate(place: Path, version: str) -> None:
    """Let every file state another version."""
    for name in PLACES[1:]:
        path = place / name
        path.write_text(path.read_text().replace(str(stated(place)), version))


def stated(place: Path) -> Version:
    """The version of the checkout's package."""
    (found,) = re.findall(r'__version__ = "(.+)"', (place / "agent_eval/__init__.py").read_text())
    return Version.parse(found)


def released(place: Path, version: str) -> list[str]:
    """Release a version from a commit on main, as the workflow does; return the tags that it set."""
    git(place, "checkout", "--quiet", "main")
    if version != str(stated(place)):
        restate(place, version)
        git(place, "commit", "--quiet", "--all", "--message", f"State {version}")
        git(place, "push", "--quiet", "origin", "main")
    git(place, "checkout", "--quiet", "--detach")
    pin(place, IMAGE, DIGEST)
    return tag(place, "origin")


def remote_tags(place: Path) -> dict[str, str]:
    """Commit of each tag on the remote."""
    lines = git(place, "ls-remote", "--tags", "origin").splitlines()
    found = dict(line.split("\t")[::-1] for line in lines)
    return {name[10:-3]: commit for name, commit in found.items() if name.endswith("^{}")}


def test_every_place_states_the_same_version_and_the_changelog_has_notes_for_it():
    assert str(check(ROOT)) == str(stated(ROOT))
    assert len(notes(ROOT, OURS).splitlines()) > 3


@pytest.mark.parametrize("name", [name for name in PLACES if name != "action.yml"])
def test_a_forgotten_place_is_named_and_a_version_without_a_date_not_released(checkout: Path, name: str):
    path = checkout / name
    path.write_text(path.read_text().replace(str(OURS), "7.8.9"))
    with pytest.raises(CannotRelease, match=re.escape("CHANGELOG.md" if "CHANGE" in name else "state")):
        check(checkout)
    git(checkout, "checkout", "--quiet", "--", name)
    changes = checkout / "CHANGELOG.md"
    undated = re.sub(r"^(## \S+) \(.*\)$", r"\1 (unreleased)", changes.read_text(), flags=re.MULTILINE)
    changes.write_text(undated)
    with pytest.raises(CannotRelease, match="does not date"):
        check(checkout)


def test_a_candidate_comes_before_its_version_and_other_forms_are_refused():
    texts = ["0.9.0", "1.0.0a1", "1.0.0rc1", "1.0.0rc2", "1.0.0", "1.0.10"]
    assert sorted(["1.0.10", *texts[:-1]], key=Version.parse) == texts
    assert [str(Version.parse(text)) for text in texts] == texts
    for text in ("1.0", "v1.0.0", "1.0.0-rc1", "1.0.0.post1", ""):
        with pytest.raises(CannotRelease):
            Version.parse(text)


def test_the_digest_is_that_of_the_index_and_attestations_of_a_builder_are_no_platform(disk: LayoutOnDisk):
    attestation = disk.blob({}, annotations={"vnd.docker.reference.type": "attestation-manifest"})
    layout = disk.index(disk.image("amd64"), disk.image("arm64"), attestation)
    digest = verified_digest(layout, OURS, COMMIT)
    content = (disk.root / "blobs" / "sha256" / digest[7:]).read_bytes()
    assert digest == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert len(json.loads(content)["manifests"]) == 3


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        (lambda disk: [disk.image("amd64")], "not one of each"),
        (lambda disk: [disk.image("amd64"), disk.image("amd64", source="x")], "not one of each"),
        (lambda disk: [*map(disk.image, ("amd64", "arm64", "s390x"))], "not one of each"),
        (
            lambda disk: [disk.image("amd64"), disk.image("amd64", stated="arm64")],
            "which says that it is for",
        ),
        (lambda disk: [disk.image("amd64"), disk.image("arm64", revision="e" * 40)], "linux/arm64 says"),
        (lambda disk: [disk.image("amd64", version="0.9.0"), disk.image("arm64")], "linux/amd64 says"),
    ],
    ids=["one platform", "twice the same", "another", "wrongly called", "another commit", "another version"],
)
def test_an_image_that_is_not_the_one_of_the_release_is_refused(
    disk: LayoutOnDisk, images: Callable[[LayoutOnDisk], list[dict[str, Any]]], reason: str
):
    with pytest.raises(CannotRelease, match=reason):
        verified_digest(disk.index(*images(disk)), OURS, COMMIT)


def test_an_altered_blob_is_refused(disk: LayoutOnDisk):
    layout = disk.index(disk.image("amd64"), disk.image("arm64"))
    for path in sorted((disk.root / "blobs" / "sha256").iterdir()):
        kept = path.read_bytes()
        path.write_bytes(kept.replace(b"linux", b"linuX") if b"linux" in kept else kept + b" ")
        with pytest.raises(CannotRelease, match="not what its digest and size say"):
            verified_digest(layout, OURS, COMMIT)
        path.write_bytes(kept)
    assert verified_digest(layout, OURS, COMMIT)


@pytest.mark.parametrize(
    ("holds", "reason"),
    [
        (lambda disk: [{"digest": "sha256:../../../etc/passwd", "size": 1}], "no sha256 digest"),
        (lambda disk: [{"digest": "md5:" + "0" * 32, "size": 1}], "no sha256 digest"),
        (lambda disk: [{"digest": "sha256:" + "G" * 64, "size": 1}], "no sha256 digest"),
        (lambda disk: [disk.image("amd64")], "one platform"),
        (lambda disk: [disk.image("amd64")] * 2, "holds 2 images"),
    ],
)
def test_a_layout_that_leads_elsewhere_or_is_not_of_one_image_for_all_platforms_is_refused(
    disk: LayoutOnDisk, holds: Callable[[LayoutOnDisk], list[dict[str, Any]]], reason: str
):
    disk.holds(*holds(disk))
    with pytest.raises(CannotRelease, match=reason):
        verified_digest(Layout(disk.root), OURS, COMMIT)


def test_the_pinned_action_differs_in_one_line_and_is_still_a_sound_action(checkout: Path):
    pin(checkout, IMAGE, DIGEST)
    text = (checkout / "action.yml").read_text()
    assert text.replace(f"docker://{IMAGE}@{DIGEST}", "Dockerfile") == (ROOT / "action.yml").read_text()
    assert yaml.safe_load(text)["runs"] == {"using": "docker", "image": f"docker://{IMAGE}@{DIGEST}"}
    programs = Path(sys.executable).parent
    for command in (
        ["check-jsonschema", "--builtin-schema", "vendor.github-actions", "action.yml"],
        ["zizmor", "--offline", "--no-progress", "--quiet", "--strict-collection", "action.yml"],
    ):
        done = subprocess.run(
            [programs / command[0], *command[1:]], cwd=checkout, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_names_no_image_is_not_written_and_no_action_pinned_twice(checkout: Path):
    for image in ("ghcr.io/Owner/agent", "agent-eval", "ghcr.io/o/a:v1", "ghcr.io/o/a\nevil: 1"):
        with pytest.raises(CannotRelease, match="names no image"):
            pin(checkout, image, DIGEST)
    pin(checkout, IMAGE, DIGEST)
    with pytest.raises(CannotRelease, match="pinned already"):
        pin(checkout, IMAGE, DIGEST)


def test_the_tags_name_a_commit_with_the_pinned_action_and_main_keeps_its_own(checkout: Path):
    assert released(checkout, "1.0.0") == ["v1.0.0", "v1"]
    tags = remote_tags(checkout)
    assert tags["v1"] == tags["v1.0.0"]
    assert f"docker://{IMAGE}@{DIGEST}" in git(checkout, "show", "v1:action.yml")
    assert git(checkout, "rev-parse", "v1^") == git(checkout, "rev-parse", "origin/main")
    assert git(checkout, "diff", "--name-only", "origin/main", "v1.0.0") == "action.yml"
    assert "image: Dockerfile" in git(checkout, "show", "origin/main:action.yml")


def test_the_tag_of_the_major_version_follows_the_newest_release_and_never_goes_back(checkout: Path):
    expected = {
        "1.0.0": ["v1.0.0", "v1"], "1.1.0rc1": ["v1.1.0rc1"], "1.1.0": ["v1.1.0", "v1"],
        "1.0.1": ["v1.0.1"], "1.10.0": ["v1.10.0", "v1"], "1.9.1": ["v1.9.1"], "2.0.0": ["v2.0.0", "v2"],
        "1.10.1": ["v1.10.1", "v1"],
    }  # fmt: skip
    assert {version: released(checkout, version) for version in expected} == expected
    tags = remote_tags(checkout)
    assert (tags["v1"], tags["v2"]) == (tags["v1.10.1"], tags["v2.0.0"])


def test_a_version_is_released_once_and_its_tag_never_moves(checkout: Path):
    released(checkout, "1.0.0")
    before = remote_tags(checkout)
    with pytest.raises(CannotRelease, match="released once"):
        released(checkout, "1.0.0")
    git(checkout, "checkout", "--quiet", "--force", "main")
    # Another release was faster, after the tags were listed: then no tag is pushed at all.
    git(checkout, "tag", "--delete", "v1.0.0", "v1")
    hook = checkout.parent / "remote.git" / "hooks" / "update"
    hook.write_text("#!/bin/sh\ncase $1 in refs/tags/v2.0.0) exit 1;; esac\n")
    hook.chmod(0o755)
    with pytest.raises(CannotRelease, match="git push"):
        released(checkout, "2.0.0")
    assert remote_tags(checkout) == before


def test_nothing_but_the_pinned_action_is_released(checkout: Path):
    with pytest.raises(CannotRelease, match=r"exactly action\.yml"):
        tag(checkout, "origin")
    pin(checkout, IMAGE, DIGEST)
    (checkout / "left-behind").touch()
    with pytest.raises(CannotRelease, match=r"exactly action\.yml"):
        tag(checkout, "origin")
    assert remote_tags(checkout) == {}


def test_the_command_line_says_in_one_line_why_it_cannot(tmp_path: Path):
    script = [sys.executable, str(ROOT / "scripts" / "release.py")]
    done = subprocess.run([*script, "check"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{OURS}\n"), done.stderr
    command = [*script, "pin", "--layout", str(tmp_path), "--image", IMAGE, "--revision", COMMIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("release: ")
    assert done.stderr.count("\n") == 1


def workflow(name: str) -> dict[str, Any]:
    """A workflow of the project, read."""
    found: dict[str, Any] = yaml.safe_load((WORKFLOWS / name).read_text(encoding="utf-8"))
    return found


def shell(job: Mapping[str, Any]) -> str:
    """The shell of a job's steps."""
    return "\n".join(step.get("run", "") for step in job["steps"])


def test_a_release_builds_no_image_and_nothing_twice():
    jobs = workflow("release.yml")["jobs"]
    text = "\n".join(map(shell, jobs.values()))
    assert "docker build" not in text
    assert "buildx build" not in text
    assert [name for name, job in jobs.items() if "release_local.sh" in shell(job)] == ["packages"]


@pytest.mark.parametrize("name", ["image.yml", "release.yml"])
def test_a_job_that_may_sign_or_write_the_repository_installs_nothing(name: str):
    content = workflow(name)
    assert content["permissions"] == {}
    for job in content["jobs"].values():
        rights = {scope for scope, access in job["permissions"].items() if access == "write"}
        if rights & {"contents", "id-token", "attestations"}:
            assert not re.search(r"\b(?:pip|make|npm|uv|curl|apt)\b", shell(job)), job["name"]
        if "id-token" in rights:
            assert not [step for step in job["steps"] if "checkout" in step.get("uses", "")], job["name"]
        assert "secrets." not in json.dumps(job)


def test_publishing_waits_for_approval_and_verifies_who_built_the_image_before_it_is_tagged():
    publish = workflow("release.yml")["jobs"]["publish"]
    assert publish["environment"] == "release"
    text = shell(publish)
    order = ["skopeo copy", "release.py pin", "gh attestation verify", "release.py tag", "gh release create"]
    assert sorted(order, key=text.index) == order
