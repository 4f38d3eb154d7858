// Builds the addon with node-gyp into build/Release/agentrl.node. With --if-missing only when it is absent or older than
// one of its sources. Needs a C++20 compiler, make and Python; nothing is downloaded where Node's headers lie beside it.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const output = path.join(root, "build", "Release", "agentrl.node");

function newest(folder) {
  let latest = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const full = path.join(folder, entry.name);
    latest = Math.max(latest, entry.isDirectory() ? newest(full) : statSync(full).mtimeMs);
  }
  return latest;
}

function upToDate() {
  if (!existsSync(output)) return false;
  const sources = Math.max(newest(path.join(root, "native")), statSync(path.join(root, "binding.gyp")).mtimeMs);
  return statSync(output).mtimeMs >= sources;
}

/** Node's headers where the running node was installed, so that node-gyp need not fetch them. */
function headersFolder() {
  const prefix = path.resolve(process.execPath, "..", "..");
  return existsSync(path.join(prefix, "include", "node", "node_api.h")) ? prefix : undefined;
}

if (process.argv.includes("--if-missing") && upToDate()) process.exit(0);

const env = { ...process.env };
const headers = headersFolder();
if (headers !== undefined && env.npm_config_nodedir === undefined) env.npm_config_nodedir = headers;

const nodeGyp = createRequire(import.meta.url).resolve("node-gyp/bin/node-gyp.js");
// `configure` is quick and picks up new files; `build` then compiles what changed.
for (const step of ["configure", "build"]) {
  const args = step === "build" ? [step, "--jobs", "max"] : [step];
  const run = spawnSync(process.execPath, [nodeGyp, ...args, "--release", "--loglevel=warn"], {
    cwd: root,
    env,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    maxBuffer: 1 << 28,
  });
  if (run.status !== 0) {
    process.stderr.write(`${run.stdout ?? ""}${run.stderr ?? ""}\n`);
    process.stderr.write(
      `The native addon did not build (node-gyp ${step}).\n` +
        "  do: install a C++20 compiler (g++ 11 or clang 14, or newer), make and python3, then run `npm run build:native`.\n",
    );
    process.exit(1);
  }
}
console.log(`built ${path.relative(root, output)}`);
