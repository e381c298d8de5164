"""The image that GitHub builds and runs: what is in it, and the main job inside it."""

import json
import os
import re
import stat
import uuid
from pathlib import Path

import pytest

from agent_eval import __version__
from agent_eval.errors import ExitCode
from scripts.release import LABEL, CannotRelease, Layout, check, verified_digest
from tests.container.image import ROOT, Buildah, Image, missing
from tests.contract.test_locks import pins
from tests.extent import unavailable
from tests.fakes.git_host import commit, serving
from tests.job_inputs import job_inputs
from tests.unit.ci.platforms.builds import Repository

pytestmark = [pytest.mark.container, pytest.mark.slow]

MEGABYTE = 1_000_000
LARGEST = 205 * MEGABYTE
OWN = "opt/agent-eval"
BILL_OF_MATERIALS = f"{OWN}/share/sbom/agent-eval.cdx.json"
NOT_NEEDED = ("gcc", "cc", "make", "perl5", "git-upload-pack", "pip-compile", "pytest")


def job(workspace: Path, tmp_path: Path, **inputs: str) -> dict[str, object]:
    """Keyword arguments of `Image.run` for a job on a push: the runner's files and `INPUT_` variables."""
    commands = tmp_path / f"commands-{uuid.uuid4().hex}"
    commands.mkdir()
    for name in ("output", "summary"):
        (commands / name).touch()
    environ = {
        "CI": "true", "GITHUB_ACTIONS": "true", "GITHUB_API_URL": "http://127.0.0.1:9",
        "GITHUB_EVENT_NAME": "push", "GITHUB_OUTPUT": "/github/commands/output",
        "GITHUB_REF": "refs/heads/main", "GITHUB_REPOSITORY": "octo/agent", "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_ID": "7", "GITHUB_SERVER_URL": "http://127.0.0.1:9", "GITHUB_SHA": "0" * 40,
        "GITHUB_STEP_SUMMARY": "/github/commands/summary", "GITHUB_WORKSPACE": "/github/workspace",
        "HOME": "/github/home",
        **{f"INPUT_{name.upper()}": value for name, value in job_inputs(inputs).items()},
    }  # fmt: skip
    return {"workspace": workspace, "environ": environ, "mounts": {commands: "/github/commands"}}


@pytest.fixture(scope="module")
def files(image: Image) -> dict[str, os.stat_result]:
    """Every file of the image that is no directory, by its path without the leading slash."""
    root = image.root
    paths = (Path(place, name) for place, _, names in os.walk(root) for name in names)
    return {str(path.relative_to(root)): path.lstat() for path in paths}


def test_it_has_at_most_205_megabytes(files: dict[str, os.stat_result]):
    size = sum(status.st_size for status in {s.st_ino: s for s in files.values()}.values())
    print(f"unpacked: {size / MEGABYTE:.1f} MB")
    assert size <= LARGEST


def test_its_git_finds_where_a_branch_began_and_reads_files_of_that_commit(image: Image, tmp_path: Path):
    repository = Repository(tmp_path / "checkout")
    base = repository.git("rev-parse", "HEAD")
    repository.branch("topic", base)
    repository.commit()
    mounted = ("--isolation", "chroot", "--volume", f"{repository.top}:/checkout", image.container)
    inside = ("run", *mounted, "--", "git", "-C", "/checkout")
    assert image.buildah(*inside, "merge-base", "HEAD", "main") == base
    assert image.buildah(*inside, "cat-file", "blob", f"{base}:README") == "shop"


def test_its_git_fetches_what_a_checkout_lacks(image: Image, tmp_path: Path):
    head = commit(tmp_path / "shop", **{"agent.py": "agent"})
    with serving(tmp_path / "host") as host:
        url = host.add("shop.git", tmp_path / "shop")
        inside = (
            *("run", "--isolation", "chroot", image.container, "--", "git", "ls-remote", url),
            "refs/heads/main",
        )
        assert image.buildah(*inside) == f"{head}\trefs/heads/main"


def test_it_holds_only_what_runs(image: Image, files: dict[str, os.stat_result]):
    programs = {Path(name).name for name in files if Path(name).parent.name == "bin"}
    assert programs.isdisjoint(NOT_NEEDED)
    assert [name for name in files if name.endswith(".whl") and "python-wheels" not in name] == []
    assert not (image.root / "build").exists()
    of_tests = re.compile(rf"{OWN}/lib/.*/_?tests?/")
    assert [name for name in files if of_tests.match(name)] == []
    caches = re.compile(r"(?:root/\.cache|tmp|var/tmp|var/cache/apt|var/lib/apt/lists)/.")
    assert [name for name in files if caches.match(name)] == []


def test_no_file_lends_rights_or_can_be_changed_by_others(image: Image, files: dict[str, os.stat_result]):
    regular = {name: status.st_mode for name, status in files.items() if stat.S_ISREG(status.st_mode)}
    assert [name for name, mode in regular.items() if mode & (stat.S_ISUID | stat.S_ISGID)] == []
    assert [name for name, mode in regular.items() if mode & stat.S_IWOTH] == []
    own = {name: mode for name, mode in regular.items() if name.startswith(OWN)}
    assert len(own) > 1000
    assert [name for name, mode in own.items() if not mode & stat.S_IROTH] == []
    assert os.access(image.root / "entrypoint", os.X_OK)


def test_bytecode_counts_whatever_times_its_files_have(image: Image, files: dict[str, os.stat_result]):
    """A copied file can be a second younger, and Python would compile it anew in every process."""
    compiled = [name for name in files if name.startswith(OWN) and name.endswith(".pyc")]
    heads = {name: (image.root / name).read_bytes()[4:8] for name in compiled}
    assert {name for name, flags in heads.items() if flags != b"\x01\0\0\0"} == set()
    modules = {re.sub(r"__pycache__/(\w+)\.cpython-\d+\.pyc", r"\1.py", name) for name in compiled}
    sources = {name for name in files if re.match(rf"{OWN}/lib/.*/agent_eval/.*\.py$", name)}
    left_out = {name for name in sources - modules if not name.endswith("__main__.py")}
    assert {name for name in left_out if "benchmarks" not in name} == set()
    assert left_out


def test_its_labels_say_what_it_is(image: Image):
    labels = image.config["Labels"]
    assert isinstance(labels, dict)
    found = {key.removeprefix("org.opencontainers.image."): value for key, value in labels.items()}
    assert {key: found[key] for key in ("title", "licenses", "version", "base.name")} == {
        "title": "agent-eval", "licenses": "MIT", "version": __version__, "base.name": "localhost/base",
    }  # fmt: skip
    assert found["description"]


def test_its_bill_of_materials_is_that_of_the_locks(image: Image):
    bill = json.loads((image.root / BILL_OF_MATERIALS).read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {component["name"].lower(): component["version"] for component in bill["components"]}
    assert listed.pop("agent-eval-gate", __version__) == __version__
    assert {re.sub(r"[-_.]+", "-", name): version for name, version in listed.items()} == pins("runtime.lock")
    assert bill["metadata"]["component"]["name"] == "agent-eval-gate"
    described = [component for component in bill["components"] if component.get("licenses")]
    assert len(described) == len(bill["components"])
    needs = {row["ref"]: row.get("dependsOn", []) for row in bill["dependencies"]}
    assert len(needs[bill["metadata"]["component"]["bom-ref"]]) >= 17


def test_it_starts_the_entrypoint_itself_and_sets_neither_user_nor_directory(image: Image):
    assert image.config["Entrypoint"] == ["/entrypoint"]
    assert not image.config.get("User")
    assert image.config.get("WorkingDir", "/") in ("", "/")


def test_arguments_are_those_of_the_command_line(image: Image, workspace: Path):
    done = image.run(["--help"], workspace=workspace)
    assert done.returncode == ExitCode.OK
    assert "ci" in done.stdout


def test_it_runs_as_somebody_who_is_not_root(image: Image, workspace: Path):
    arguments = ["run", "--suite", "suite_good.json", "--out", "runs/mine"]
    done = image.run(arguments, workspace=workspace, user="1001:1001")
    assert done.returncode == ExitCode.OK, done.stderr
    assert (workspace / "runs/mine/manifest.json").stat().st_uid == 1001


def test_an_exit_code_of_a_wrong_request_is_passed_on(image: Image, workspace: Path, tmp_path: Path):
    wrong = job(workspace, tmp_path, suite="suite_good.json", max_regressed_cases="many")
    done = image.run([], **wrong)
    assert done.returncode == ExitCode.WRONG_REQUEST
    assert "max-regressed-cases" in done.stdout + done.stderr


def test_a_folder_that_may_not_be_written_is_said_and_exits_4(image: Image, workspace: Path):
    os.chmod(workspace, 0o555)
    done = image.run(
        ["run", "--suite", "suite_good.json", "--out", "runs/mine"], workspace=workspace, user="1001:1001"
    )
    assert done.returncode == ExitCode.NOT_EVALUABLE
    assert '"storage_error"' in done.stderr


# The digest that a release writes into action.yml, from a layout that a builder of images wrote

COMMIT = "c" * 40
VERSION = check(ROOT)


def index_of(buildah: Buildah, name: str, revisions: dict[str, str]) -> str:
    """Build an empty image for each platform, from the commit named for it; return their index."""
    buildah("manifest", "create", name)
    for architecture, revision in revisions.items():
        container = buildah("from", "scratch")
        labels = {"version": str(VERSION), "revision": revision}
        options = [f"--label={LABEL}{key}={value}" for key, value in labels.items()]
        buildah("config", "--os", "linux", "--arch", architecture, *options, container)
        image = f"localhost/{name}-{architecture}"
        buildah("commit", "--quiet", "--rm", container, image)
        buildah("manifest", "add", name, image)
    return name


def test_the_digest_is_the_one_under_which_the_builder_published_the_index(tmp_path: Path):
    reason = missing()
    if reason:
        unavailable(f"of an image for two platforms, which {reason}")
    buildah = Buildah(tmp_path / "store")

    name = index_of(buildah, "sound", {"amd64": COMMIT, "arm64": COMMIT})
    published = tmp_path / "digest"
    layout = tmp_path / "layout"
    buildah("manifest", "push", "--all", f"--digestfile={published}", name, f"oci:{layout}:release")
    assert verified_digest(Layout(layout), VERSION, COMMIT) == published.read_text().strip()

    name = index_of(buildah, "mixed", {"amd64": COMMIT, "arm64": "d" * 40})
    mixed = tmp_path / "mixed"
    buildah("manifest", "push", "--all", name, f"oci:{mixed}:release")
    with pytest.raises(CannotRelease, match="linux/arm64"):
        verified_digest(Layout(mixed), VERSION, COMMIT)
