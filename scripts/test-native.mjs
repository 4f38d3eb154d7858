// Builds the C++ unit tests with CMake and runs them with CTest: once with the address and undefined-behaviour
// sanitizers, once with the thread sanitizer. `--sanitize LIST` (address,undefined | thread | none ...) does one of them;
// what follows `--` goes to ctest, such as `-- -R ring`.
import { spawnSync } from "node:child_process";
import { availableParallelism } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

function parse(argv) {
  const split = argv.indexOf("--");
  const own = split < 0 ? argv : argv.slice(0, split);
  const forCtest = split < 0 ? [] : argv.slice(split + 1);
  if (own.length === 0) return { sanitizers: ["address,undefined", "thread"], forCtest };
  if (own.length === 2 && own[0] === "--sanitize") return { sanitizers: [own[1]], forCtest };
  console.error("usage: node scripts/test-native.mjs [--sanitize address,undefined|thread|none] [-- CTEST OPTIONS]");
  process.exit(2);
}

function run(command, args, env = process.env) {
  const result = spawnSync(command, args, { cwd: root, env, stdio: "inherit" });
  if (result.error?.code === "ENOENT") {
    console.error(`${command} is not installed: the C++ tests need cmake (with ctest), make and a C++20 compiler.`);
    process.exit(1);
  }
  if (result.status !== 0) process.exit(result.status ?? 1);
}

const { sanitizers, forCtest } = parse(process.argv.slice(2));
for (const sanitizer of sanitizers) {
  const name = sanitizer.replaceAll(",", "-");
  const build = path.join("build", `ctest-${name}`);
  console.log(`\nC++ tests, sanitizer: ${sanitizer}`);
  run("cmake", ["-S", ".", "-B", build, `-DSANITIZE=${sanitizer === "none" ? "" : sanitizer}`, "--log-level=WARNING"]);
  run("cmake", ["--build", build, "--parallel", String(availableParallelism()), "--", "--quiet"]);
  run("ctest", ["--test-dir", build, "--output-on-failure", ...forCtest]);
}
