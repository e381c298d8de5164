"""Fetch the official JSON-Schema-Test-Suite: `make json-schema-suite`.

    python -m tests.real.fetch_json_schema_suite FOLDER

It lies in the source distribution of `jsonschema`, at the version and hash of requirements/runtime.lock. pip
builds the metadata of what it downloads, so the build tools come first, pinned by hash as well
(requirements/json-schema-suite.lock), into an environment of their own. The folder `json` is kept.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD_TOOLS = ROOT / "requirements" / "json-schema-suite.lock"
RUNTIME = ROOT / "requirements" / "runtime.lock"
PACKAGE = "jsonschema"
WANTED = "json"


def pin() -> str:
    """The requirement of the package with its hashes, as the lock has it."""
    found = re.search(
        rf"^{PACKAGE}==[^\n]*\\\n(?: +--hash=\S+(?: \\)?\n)+", RUNTIME.read_text("utf-8"), flags=re.MULTILINE
    )
    if found is None:
        raise SystemExit(f"{RUNTIME} does not pin {PACKAGE}")
    return found[0]


def download(folder: Path) -> Path:
    """Let pip fetch the source distribution into a folder, its hash checked."""
    venv.create(folder / "tools", with_pip=True)
    pip = [str(folder / "tools" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--require-hashes", "--no-deps", "-r", str(BUILD_TOOLS)], check=True)
    (folder / "pin.txt").write_text(pin(), "utf-8")
    fetch = ["download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
    subprocess.run([*pip, *fetch, "-r", str(folder / "pin.txt"), "-d", str(folder / "source")], check=True)
    (archive,) = (folder / "source").iterdir()
    return archive


def main(out: Path) -> None:
    """Fetch the suite into `out`, whole or not at all. The hash says that the archive is the right one."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        with tarfile.open(download(Path(scratch))) as packed:
            packed.extractall(Path(scratch) / "all", filter="data")
        (suite,) = Path(scratch).glob(f"all/*/{WANTED}")
        shutil.rmtree(out, ignore_errors=True)
        suite.rename(out)
    print(f"the JSON-Schema-Test-Suite is in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
