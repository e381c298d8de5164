#!/bin/sh
# scripts/release_local.sh [DIRECTORY] builds and tries what a release publishes, without a hosted CI: wheel and source
# distribution from the commit, the bill of materials, checksums, notes. The release workflow calls it too. It pushes
# nothing and sets no tag; at the end it says what would. Needs `make venv`, a commit, and the package index.
set -eu
cd "$(dirname "$0")/.."
out=${1:-dist}
python=$PWD/.venv/bin/python

say() { printf '\n== %s\n' "$1"; }
complain() {
	printf 'release_local.sh: %s\n' "$1" >&2
	exit 1
}

[ -x "$python" ] || complain "run make venv first"
[ -z "$(git status --porcelain)" ] || complain "commit or put away what differs from the commit: git status"

say "Version, in every place"
version=$("$python" scripts/release.py check)
echo "$version"

say "Old suites and exports"
scripts/check_contracts.sh >/dev/null
echo "are still read"

# The mode of files is part of a wheel.
umask 022
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say "Wheel and source distribution"
# From the commit, so that no untracked file gets in; with its time, so that the same commit gives the same wheel.
mkdir "$scratch/source" "$scratch/packages"
git archive HEAD | tar -x --no-same-permissions -C "$scratch/source"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
"$python" -m build --no-isolation --outdir "$scratch/packages" "$scratch/source" >"$scratch/build.log" 2>&1 ||
	{ cat "$scratch/build.log" >&2 && complain "the build failed"; }
"$python" -m build --no-isolation --wheel --outdir "$scratch/again" "$scratch/source" >/dev/null 2>&1
wheel=$(basename "$scratch"/packages/*.whl)
cmp "$scratch/packages/$wheel" "$scratch/again/$wheel" || complain "two builds of the wheel differ"
case $wheel in *-"$version"-*) ;; *) complain "$wheel is not version $version" ;; esac
echo "$wheel, the same twice"

say "Installed as a user installs it"
# With the locked dependencies, and nothing of the checkout.
"$python" -m venv "$scratch/venv"
pip="$scratch/venv/bin/python -m pip --disable-pip-version-check --quiet"
$pip install --require-hashes --no-deps --only-binary :all: --requirement requirements/runtime.lock
$pip install --no-deps --no-index "$scratch/packages/$wheel"
$pip check
installed=$scratch/venv/bin/agent-eval
test "$("$installed" --version)" = "agent-eval $version" || complain "the installed command is of another version"
examples=$PWD/examples
(
	cd "$scratch"
	"$installed" run "$examples/suite_good.json" --out good >/dev/null
	"$installed" run "$examples/suite_bad.json" --out bad >/dev/null
	"$installed" compare --baseline good --candidate bad --allow-incompatible >/dev/null
	code=0
	"$installed" gate --compare bad --max-regressed-cases 0 >/dev/null || code=$?
	test "$code" = 1 || complain "the gate let a worse run pass: exit code $code"
	"$installed" pack verify --run bad >/dev/null
)
echo "runs, compares and decides"

say "Bill of materials"
"$python" -m venv "$scratch/sbom"
"$scratch/sbom/bin/python" -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps --only-binary :all: \
	--requirement requirements/sbom.lock
# pip came with the environment, and is no dependency.
$pip uninstall --yes pip setuptools 2>/dev/null
"$scratch/sbom/bin/cyclonedx-py" environment --pyproject pyproject.toml --output-reproducible \
	--output-file "$scratch/packages/agent-eval.cdx.json" "$scratch/venv/bin/python"

"$python" scripts/release.py notes >"$scratch/packages/notes.md"
cp requirements/runtime.lock "$scratch/packages/"
(cd "$scratch/packages" && sha256sum -- * >"$scratch/SHA256SUMS")
mv "$scratch/SHA256SUMS" "$scratch/packages/"
rm -rf "$out"
mkdir -p "$out"
cp "$scratch"/packages/* "$out/"

say "In $out"
cat "$out/SHA256SUMS"
cat <<END

Nothing was published. On GitHub the workflow "release" does the rest. By hand, where you publish yourself:
  docker build --tag agent-eval:$version .
  skopeo copy --all docker://REGISTRY/agent-eval:BUILT oci:layout
  git checkout --detach
  python scripts/release.py pin --layout layout --image REGISTRY/agent-eval --revision $(git rev-parse HEAD)
  python scripts/release.py tag --push origin
END
