// `npm run demo` and `npm test` on a fresh clone: installs the packages and builds the addon where they are missing,
// then runs the task. Plain node, no dependencies, since it runs before any exist.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { constants, tmpdir, userInfo } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const root = realpathSync(dirname(dirname(fileURLToPath(import.meta.url))));
const addon = join(root, "build", "Release", "agentrl.node");

const tasks = {
  demo: (args) => [join(root, "bin", "agentrl.js"), "demo", ...args],
  test: (args) => [join(root, "node_modules", "vitest", "vitest.mjs"), "run", ...args],
};

class Failure extends Error {}

// --------------------------------------------------------------------------------------------------------------------
// What is missing

/** Newest change below a file or folder, in ms; 0 where there is nothing. */
function newest(path) {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return 0;
  if (!stat.isDirectory()) return stat.mtimeMs;
  return readdirSync(path).reduce((latest, name) => Math.max(latest, newest(join(path, name))), 0);
}

function packagesMissing() {
  const installed = newest(join(root, "node_modules", ".package-lock.json"));
  return installed === 0 || newest(join(root, "package-lock.json")) > installed;
}

/** "missing", "stale" (the sources changed since it was built) or undefined. */
function addonProblem() {
  const built = newest(addon);
  if (built === 0) return "missing";
  const sources = ["native", "binding.gyp"].map((name) => newest(join(root, name)));
  return Math.max(...sources) > built ? "stale" : undefined;
}

// --------------------------------------------------------------------------------------------------------------------
// Installing and building

/** npm's own script when npm started us: no shell, no PATH, the same npm. */
function npm(args) {
  const script = process.env.npm_execpath;
  if (script && /npm-cli\.[cm]?js$/.test(script)) return [process.execPath, [script, ...args], {}];
  return ["npm", args, { shell: process.platform === "win32" }];
}

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 11)) return;
  throw new Failure(
    `Node ${process.versions.node} is too old.\n  expected: 20.11 or newer\n  do:       install it from https://nodejs.org`,
  );
}

function has(command, args = ["--version"]) {
  return spawnSync(command, args, { stdio: "ignore" }).status === 0;
}

const toolchain = {
  linux:
    "Debian, Ubuntu: apt-get install g++ make python3 · Fedora: dnf install gcc-c++ make python3 · Alpine: apk add g++ make python3",
  darwin: "xcode-select --install",
  win32: 'the "Desktop development with C++" workload of the Visual Studio Build Tools, and Python 3',
};

/** Says what to install before a build fails half-way with a page of compiler output. */
function checkCompiler() {
  if (process.platform === "win32") return; // node-gyp finds Visual Studio by itself; its message says what is missing.
  const lacking = [];
  const compilers = [process.env.CXX, "c++", "g++", "clang++"].filter(Boolean);
  if (!compilers.some((compiler) => has(compiler.split(" ")[0]))) lacking.push("a C++20 compiler");
  if (!has("make")) lacking.push("make");
  if (![process.env.PYTHON, "python3", "python"].filter(Boolean).some((python) => has(python)))
    lacking.push("Python 3");
  if (lacking.length === 0) return;
  throw new Failure(
    `The native addon cannot be built: ${lacking.join(", ")} not found.\n  do:       ${toolchain[process.platform] ?? "install a C++20 compiler, make and Python 3"}`,
  );
}

/** Runs a step of the installation as an owner of the lock: should we be killed, others still wait for the step. */
async function run(lock, command, args, options = {}) {
  const child = spawn(command, args, { cwd: root, stdio: "inherit", ...options });
  const ended = new Promise((resolve, reject) => {
    child.once("error", (error) => reject(new Failure(`${command} could not be started: ${error.message}`)));
    child.once("exit", (code, signal) => resolve(signal ? 128 + (constants.signals[signal] ?? 0) : code));
  });
  const leave = child.pid === undefined ? () => {} : lock.enter(child.pid);
  try {
    return await ended;
  } finally {
    leave();
  }
}

async function installAndBuild(lock) {
  if (addonProblem()) checkCompiler();
  if (packagesMissing()) {
    console.error("Installing the packages (npm ci), once …");
    const [command, args, options] = npm(["ci", "--include=dev", "--no-audit", "--no-fund"]);
    if ((await run(lock, command, args, options)) !== 0) {
      throw new Failure(
        "npm ci failed; its own message is above.\n  do:       offline, or a registry out of reach? Connect, or set the registry with `npm config set registry URL`,\n            and run this again. If the addon's build failed, see docs/troubleshooting.md.",
      );
    }
  }
  const problem = addonProblem();
  if (problem) {
    console.error(`The native addon is ${problem}: building it …`);
    if ((await run(lock, process.execPath, [join(root, "scripts", "build-native.mjs")])) !== 0) {
      throw new Failure(
        `The build of the native addon failed; the compiler's message is above.\n  do:       check the tools (${toolchain[process.platform] ?? "a C++20 compiler"}); more in docs/troubleshooting.md.`,
      );
    }
    if (!existsSync(addon)) throw new Failure(`The build ended without an error but left no ${addon}.`);
  }
}

// --------------------------------------------------------------------------------------------------------------------
// One at a time
//
// Every process announces itself with a file of its own name, and holds the lock only if it then sees no other live
// owner; otherwise it takes its file back and waits. Of two holders the one that looked last would have seen the other,
// so there is never more than one; and a dead process's file can be removed by anyone, since its name (process id and
// start time) is never used again. Child processes are entered too: npm goes on when only its parent is killed. node_modules/ and build/ are wiped while we work, so the files live in the system's
// temporary folder.

function startTime(pid) {
  try {
    // Field 22 of /proc/PID/stat; the second field may hold spaces and parentheses.
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  } catch (error) {
    if (error.code === "ENOENT" || error.code === "ESRCH") return "0"; // no /proc here, or no such process
    throw error;
  }
}

function alive(owner) {
  const [pid, started] = owner.split("-");
  try {
    process.kill(Number(pid), 0);
  } catch (error) {
    if (error.code === "ESRCH") return false;
    if (error.code !== "EPERM") throw error;
  }
  return startTime(pid) === started;
}

/** `work` gets a way to enter a child process as an owner beside us; what `enter` returns takes it out again. */
async function withLock(work) {
  const id = createHash("sha256").update(`${root}:${userInfo().uid}`).digest("hex").slice(0, 16);
  const folder = join(tmpdir(), `agentrl-bootstrap-${id}`);
  mkdirSync(folder, { recursive: true });
  const entered = new Set();
  const enter = (pid) => {
    const name = `${pid}-${startTime(pid)}`;
    const leave = () => {
      entered.delete(name);
      rmSync(join(folder, name), { force: true });
    };
    entered.add(name);
    writeFileSync(join(folder, name), "");
    return leave;
  };
  const others = () => {
    const names = readdirSync(folder).filter((name) => !entered.has(name) && /^\d+-\d+$/.test(name));
    const living = names.filter(alive);
    for (const name of names) if (!living.includes(name)) rmSync(join(folder, name), { force: true });
    return living;
  };

  const deadline = Date.now() + 15 * 60_000;
  let leave;
  for (let told = false; ; ) {
    let [owner] = others();
    if (owner === undefined) {
      leave = enter(process.pid);
      [owner] = others();
      if (owner === undefined) break;
      leave();
    }
    const pid = owner.split("-")[0];
    if (!told) console.error(`Process ${pid} is installing already; waiting for it …`);
    told = true;
    if (Date.now() > deadline) {
      throw new Failure(`Process ${pid} has been installing for 15 minutes.\n  do:       end it and run this again.`);
    }
    await delay(100 + Math.random() * 300);
  }
  try {
    return await work({ enter });
  } finally {
    leave();
  }
}

// --------------------------------------------------------------------------------------------------------------------

/** Runs the task; Ctrl-C is the task's to handle, and its exit status becomes ours. */
function runTask(args) {
  const child = spawn(process.execPath, args, { stdio: "inherit" });
  process.on("SIGINT", () => {}); // The terminal sends it to the child as well.
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.once("error", (error) => {
    console.error(`node could not be started: ${error.message}`);
    process.exitCode = 1;
  });
  child.once("exit", (code, signal) => {
    process.exitCode = signal ? 128 + (constants.signals[signal] ?? 0) : (code ?? 1);
  });
}

const [name, ...args] = process.argv.slice(2);
try {
  const task = tasks[name];
  if (!task) throw new Failure(`Unknown task ${name ?? "(none)"}.\n  expected: ${Object.keys(tasks).join(" or ")}`);
  checkNode();
  if (packagesMissing() || addonProblem()) await withLock(installAndBuild);
  runTask(task(args));
} catch (error) {
  if (!(error instanceof Failure)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
