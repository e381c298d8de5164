"""Fetch the official JSON-Schema-Test-Suite: `make json-schema-suite`.

    python -m tests.real.fetch_json_schema_suite FOLDER

It lies in the source distribution of `jsonschema`, at the version and hash of requirements/runtime.lock. pip
builds the metadata of what it downloads, so the build tools come first, pinned by hash as well
(requirements/json-schema-suite.lock), into an environment of their own. Only the folder `json` is unpacked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
BUILD_TOOLS = ROOT / "requirements" / "json-schema-suite.lock"
RUNTIME = ROOT / "requirements" / "runtime.lock"
PACKAGE = "jsonschema"
WANTED = "json"
MOST_FILES = 5_000
MOST_BYTES = 64 << 20


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


def unpack(archive: Path, out: Path) -> int:
    """Write the files of the suite below `out`; how many.

    Plain files alone, each where its name says and nowhere else.
    """
    written = size = 0
    with tarfile.open(archive, "r:gz") as packed:
        for member in packed:
            parts = PurePosixPath(member.name).parts
            if not member.isfile() or len(parts) < 3 or parts[1] != WANTED or ".." in parts:
                continue
            written, size = written + 1, size + member.size
            content = packed.extractfile(member)
            if content is None or written > MOST_FILES or size > MOST_BYTES:
                raise SystemExit(f"{archive.name} is not what it should be: stopped at {member.name}")
            path = out.joinpath(*parts[2:])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
    return written


def main(out: Path) -> None:
    """Fetch the suite into `out`, whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        fresh = Path(scratch) / "suite"
        number = unpack(download(Path(scratch)), fresh)
        if not (fresh / "tests").is_dir():
            raise SystemExit("the archive holds no suite")
        shutil.rmtree(out, ignore_errors=True)
        fresh.rename(out)
    print(f"{number} files of the JSON-Schema-Test-Suite are in {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
