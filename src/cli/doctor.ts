/**
 * `agentrl doctor`: what of this machine matters to a run, what is wrong with it, and what to do about it. Every check
 * stands alone: a broken part is reported, never thrown.
 */
import { existsSync, readdirSync, readFileSync, statfsSync } from "node:fs";
import { availableParallelism, cpus, totalmem } from "node:os";
import type { Command } from "commander";
import { AgentRLError } from "../errors.ts";
import { addJson, jsonWriter } from "./options.ts";

export interface Check {
  name: string;
  /** fail: nothing will run. warn: something will be slow, small or missing. */
  status: "ok" | "warn" | "fail";
  value: string;
  /** What to do, where something is to be done. */
  hint?: string;
}

export interface DoctorReport {
  /** No check failed. */
  ok: boolean;
  checks: Check[];
}

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .description("check this machine: CPU, memory, shared memory, the native addon");
  addJson(command).action(async ({ json }: { json?: string }) => {
    const writeJson = jsonWriter(json);
    const report = await examine();
    console.log(formatReport(report));
    writeJson(report);
    if (!report.ok) process.exitCode = 1;
  });
}

export async function examine(): Promise<DoctorReport> {
  const checks = [
    node(),
    system(),
    cpu(),
    memory(),
    sharedMemory(),
    ...(await addon()),
    openBlas(),
    processTable(),
    await webGpu(),
  ];
  return { ok: checks.every((check) => check.status !== "fail"), checks };
}

export function formatReport(report: DoctorReport): string {
  const width = Math.max(...report.checks.map((check) => check.name.length));
  return report.checks
    .flatMap(({ name, status, value, hint }) => [
      `${status.padEnd(4)}  ${name.padEnd(width)}  ${value}`,
      ...(hint === undefined ? [] : [`${" ".repeat(width + 8)}do: ${hint}`]),
    ])
    .join("\n");
}

// --------------------------------------------------------------------------------------------------------------------

function node(): Check {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  const fine = major > 20 || (major === 20 && minor >= 11);
  return {
    name: "node",
    status: fine ? "ok" : "fail",
    value: process.versions.node,
    ...(fine ? {} : { hint: "install Node 20.11 or newer" }),
  };
}

function system(): Check {
  return { name: "system", status: "ok", value: `${process.platform} ${process.arch}` };
}

function cpu(): Check {
  const model = cpus()[0]?.model.trim() || "unknown CPU";
  const cores = availableParallelism();
  const quota = cpuQuota();
  const value = `${model}, ${cores} ${cores === 1 ? "core" : "cores"}`;
  if (quota !== null && quota < cores) {
    return {
      name: "cpu",
      status: "warn",
      value: `${value}, of which the container may use ${quota}`,
      hint: "set the config's threads to what the container may use, or raise its CPU limit",
    };
  }
  if (cores >= 2) return { name: "cpu", status: "ok", value };
  return { name: "cpu", status: "warn", value, hint: "generation and training will take turns on one core" };
}

/** Cores that cgroup v2 grants, or null without a limit. */
function cpuQuota(): number | null {
  const file = "/sys/fs/cgroup/cpu.max";
  if (!existsSync(file)) return null;
  const [quota, period] = readFileSync(file, "utf8").trim().split(" ").map(Number);
  return quota && period ? quota / period : null;
}

function memory(): Check {
  const free = process.availableMemory?.();
  const constrained = process.constrainedMemory?.() ?? 0;
  const total = constrained > 0 && constrained < totalmem() ? constrained : totalmem();
  const value = `${bytes(total)}${free === undefined ? "" : `, ${bytes(free)} free`}`;
  if (total >= 2 ** 30) return { name: "memory", status: "ok", value };
  return {
    name: "memory",
    status: "warn",
    value,
    hint: "use a small model: `agentrl train CONFIG --dry-run` estimates",
  };
}

/** Trajectories and weights travel through POSIX shared memory, on Linux a file system of limited size. */
function sharedMemory(): Check {
  const name = "shared memory";
  if (!existsSync("/dev/shm")) {
    if (process.platform !== "linux") return { name, status: "ok", value: "the system's own (no /dev/shm to measure)" };
    return { name, status: "fail", value: "no /dev/shm", hint: "mount it: mount -t tmpfs tmpfs /dev/shm" };
  }
  const { bsize, blocks, bavail } = statfsSync("/dev/shm");
  const free = bsize * bavail;
  const value = `/dev/shm: ${bytes(bsize * blocks)}, ${bytes(free)} free`;
  if (free >= 2 ** 28) return { name, status: "ok", value };
  return {
    name,
    status: "warn",
    value,
    hint: "give it 1 GiB: docker run --shm-size=1g, or mount -o remount,size=1g /dev/shm",
  };
}

async function addon(): Promise<Check[]> {
  try {
    const { addon } = await import("../device/addon.ts");
    const [best] = addon.simdLevels();
    const level = addon.simd();
    return [
      { name: "native addon", status: "ok", value: "built" },
      {
        name: "simd",
        status: level === best && level !== "plain" ? "ok" : "warn",
        value: `${level} (this machine can run ${addon.simdLevels().join(", ")})`,
      },
    ];
  } catch (error) {
    // The addon is loaded when its module is; a failure there is what this check is for.
    if (!(error instanceof AgentRLError)) throw error;
    return [
      {
        name: "native addon",
        status: "fail",
        value: String(error.detail.got ?? error.message),
        hint: error.detail.hint ?? "run `npm run build:native`",
      },
    ];
  }
}

/** Only a reference for `agentrl bench gemm`; nothing else uses it. */
function openBlas(): Check {
  const folders = ["/usr/lib64", "/usr/lib", "/usr/local/lib", "/opt/homebrew/opt/openblas/lib"];
  if (existsSync("/usr/lib")) {
    const perMachine = readdirSync("/usr/lib").filter((entry) => entry.includes("-linux-gnu"));
    folders.push(...perMachine.map((entry) => `/usr/lib/${entry}`));
  }
  for (const folder of folders.filter((entry) => existsSync(entry))) {
    const library = readdirSync(folder).find((entry) => /^libopenblas\.(so(\.\d+)?|dylib)$/.test(entry));
    if (library !== undefined) return { name: "openblas", status: "ok", value: `${folder}/${library}` };
  }
  return {
    name: "openblas",
    status: "ok",
    value: "not installed: `agentrl bench gemm` has no reference to compare with (Debian: libopenblas0-pthread)",
  };
}

/** Liveness of a lock's owner is read from /proc where it exists. */
function processTable(): Check {
  const there = existsSync("/proc/self/stat");
  if (there || process.platform !== "linux") {
    return { name: "/proc", status: "ok", value: there ? "mounted" : "not used on this system" };
  }
  return { name: "/proc", status: "warn", value: "not mounted", hint: "mount it: mount -t proc proc /proc" };
}

/** What `device: auto` would take, and whether `webgpu` works at all. */
async function webGpu(): Promise<Check> {
  const name = "webgpu";
  try {
    const { describeAdapter, findAdapter } = await import("../device/webgpu/adapter.ts");
    const adapter = await findAdapter();
    if (adapter === null) {
      return {
        name,
        status: "ok",
        value: "no adapter: `device: auto` is `native`",
        hint: "for a GPU install its Vulkan driver (Debian and Ubuntu: mesa-vulkan-drivers 23 or newer)",
      };
    }
    const { description, device, software } = describeAdapter(adapter);
    const about = description || device;
    return software
      ? { name, status: "ok", value: `${about}, which computes on the CPU: only with \`device: webgpu\`` }
      : { name, status: "ok", value: `${about}: what \`device: auto\` takes` };
  } catch (error) {
    if (!(error instanceof AgentRLError)) throw error;
    return { name, status: "warn", value: String(error.detail.got ?? error.message), hint: "use `device: native`" };
  }
}

function bytes(value: number): string {
  return value >= 2 ** 30 ? `${(value / 2 ** 30).toFixed(1)} GiB` : `${(value / 2 ** 20).toFixed(0)} MiB`;
}
