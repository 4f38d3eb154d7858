/** Machines of every engine: a session's shell goes on from script to script, and hostile scripts get a bounded answer. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openEngine, settingsOf } from "../../../envs/os/engine.ts";
import { createOs } from "../../../envs/os/index.ts";
import type { RunResult, Sandbox, SandboxEngine } from "../../../envs/os/sandbox.ts";
import type { EnvironmentOptions } from "../../../src/env/registry.ts";
import { runScripted } from "../../../src/env/scripted.ts";
import { type ContainerService, canUseNamespaces, startContainerService } from "./engines.ts";

const service = await startContainerService();
const engines: [string, EnvironmentOptions][] = [["embedded", { engine: "embedded" }]];
if (canUseNamespaces()) engines.push(["namespace", { engine: "namespace", settings: { memory: 64, processes: 32 } }]);
if (service !== undefined) {
  const settings = { memory: 64, processes: 32, image: service.image };
  engines.push(["container", { engine: "container", endpoint: service.socket, settings }]);
}
afterAll(() => service?.stop());

describe.each(engines)("%s", (name, options) => {
  let engine: SandboxEngine;
  let machine: Sandbox;
  beforeAll(async () => {
    engine = await openEngine(options, settingsOf(options));
    machine = await engine.start();
  });
  afterAll(() => engine.close());

  const run = (script: string, timeoutMs = 5000, on = machine): Promise<RunResult> =>
    on.run(script, { timeoutMs, outputBytes: 1000 });
  const fresh = async (use: (machine: Sandbox) => Promise<void>) => {
    const other = await engine.start();
    try {
      await use(other);
    } finally {
      await other.close();
    }
  };

  test("a shell goes on where the last script left it; a fresh one begins at home", async () => {
    await run("cd /tmp; shade=green");
    expect((await run("echo $shade; pwd")).stdout).toBe("green\n/tmp\n");
    const anew = await machine.run("echo [$shade]; pwd", { timeoutMs: 5000, outputBytes: 1000, fresh: true });
    expect(anew.stdout).toBe("[]\n/root\n");
    expect((await run("pwd")).stdout).toBe("/tmp\n");
  });

  test("the expert plays a task of each level on it", async () => {
    const env = createOs(options);
    try {
      expect(await runScripted(env, { split: "eval", policy: "expert", episodes: 5 })).toMatchObject({ successes: 5 });
    } finally {
      await env.close();
    }
  });

  test("status, output and errors are told apart", async () => {
    expect(await run("echo out; echo err >&2; false")).toMatchObject({
      stdout: "out\n",
      stderr: "err\n",
      exitCode: 1,
      timedOut: false,
      cut: false,
    });
    expect((await run("exit 7")).exitCode).toBe(7);
    expect((await run("set -- $#; echo $1")).stdout).toBe("0\n");
  });

  test("root may add users and change modes", async () => {
    await run("useradd -m vera; touch /tmp/mine; chmod 640 /tmp/mine; chown vera /tmp/mine");
    expect((await run("id -un vera; stat -c %a /tmp/mine")).stdout).toBe("vera\n640\n");
  });

  test("machines do not see each other", async () => {
    await run("echo secret > /tmp/secret; touch /usr/bin/planted");
    await fresh(async (other) => {
      expect((await run("cat /tmp/secret /usr/bin/planted", 5000, other)).exitCode).not.toBe(0);
    });
    expect(existsSync("/usr/bin/planted")).toBe(false);
  });

  test("output beyond the limit is thrown away", async () => {
    const { stdout, cut } = await run("printf 'x%.0s' {1..5000}");
    expect(stdout).toBe("x".repeat(1000));
    expect(cut).toBe(true);
  });

  test("10 GB of output", () =>
    fresh(async (other) => {
      const result = await run("head -c 10000000000 /dev/zero | tr '\\0' x", 3000, other);
      expect(result.stdout.length).toBeLessThanOrEqual(1000);
      expect((await run("echo on", 20_000, other)).stdout).toBe("on\n");
    }));

  test("an endless loop", () =>
    fresh(async (other) => {
      const begun = performance.now();
      const result = await run("while :; do :; done", 1000, other);
      expect(result.exitCode).not.toBe(0);
      expect(performance.now() - begun).toBeLessThan(10_000);
      expect((await run("echo on", 20_000, other)).stdout).toBe("on\n");
    }));

  // One that ends when it may not fork, one that goes on, and one that leaves no room.
  test.each([":(){ :|:& };:", "b() { while :; do b & done; }; b &", "for i in {1..99}; do sleep 987 & done"])(
    "a fork bomb: %s",
    (bomb) =>
      fresh(async (other) => {
        await run(bomb, 1000, other);
        expect((await run("echo on", 20_000, other)).stdout).toBe("on\n");
      }),
  );

  test("more memory than there is", () =>
    fresh(async (other) => {
      const double = 'x=aaaaaaaaaaaaaaaa; for i in {1..30}; do x="$x$x"; done; printf %s "$x" | wc -c';
      const result = await run(double, 5000, other);
      expect(result.stdout).not.toMatch(/\d{10,}/);
      expect((await run("echo on", 20_000, other)).stdout).toBe("on\n");
    }));

  test("everything killed", () =>
    fresh(async (other) => {
      await run("kill -9 -1; kill -9 1", 1000, other);
      expect((await run("echo on", 20_000, other)).stdout).toBe("on\n");
    }));

  test("everything removed", () =>
    fresh(async (other) => {
      // The host is asked first whether the machine is one of its own: this must never run anywhere else.
      const marker = join(tmpdir(), `agentrl-marker-${process.pid}`);
      writeFileSync(marker, "");
      try {
        expect((await run(`ls ${marker}`, 5000, other)).exitCode).not.toBe(0);
        expect((await run(`ls ${process.cwd()}`, 5000, other)).exitCode).not.toBe(0);
        await run("rm -rf --no-preserve-root / 2>/dev/null", 5000, other);
        const after = await run("echo on", 20_000, other);
        // Memory has no programs to remove.
        if (name === "embedded") expect(after.stdout).toBe("on\n");
        else expect(after).toMatchObject({ shellGone: true, stdout: "", stderr: "" });
        expect(existsSync(marker)).toBe(true);
        expect(existsSync(join(import.meta.dirname, "sandbox.test.ts"))).toBe(true);
      } finally {
        rmSync(marker);
      }
      expect((await run("echo on")).stdout).toBe("on\n");
    }));

  test("status 127 of a script's own is not the end of the shell", () =>
    fresh(async (other) => {
      const result = await run("nosuchprogram", 5000, other);
      expect(result.exitCode).toBe(127);
      expect(result.stderr).toContain("nosuchprogram");
      expect(result).not.toHaveProperty("shellGone");
    }));

  // On real machines bash itself, and what leads to it, can be removed one by one; memory has no programs to remove.
  if (name !== "embedded") {
    test.each(["bash", "timeout"])("%s removed: the policy is told in plain words", async (program) => {
      const env = createOs(options);
      const session = await env.start("eval", 0, 1);
      const say = async (tool: string, args: Record<string, string>) =>
        session.step({ text: "", calls: [{ id: "0", name: tool, arguments: args }] });
      try {
        await say("bash_action", { script: `rm -f /bin/${program} /usr/bin/${program}` });
        const { messages, done } = await say("bash_action", { script: "ls" });
        expect(messages[0]!.content).toBe(
          "The machine's shell is gone: bash, or what it needs, was removed. No script can be run any more. " +
            "You can still answer or finish.",
        );
        expect(done).toBe(false);
        // Not an environment's fault, but the policy's own doing.
        expect(await say("answer_action", { answer: "" })).toMatchObject({
          done: true,
          endReason: "completed",
          reward: 0,
        });
        expect(existsSync(`/usr/bin/${program}`)).toBe(true);
      } finally {
        await session.close();
        await env.close();
      }
    });

    test("without mkdir, cat and grep a script's output is its own alone", () =>
      fresh(async (other) => {
        await run("rm -f /usr/bin/mkdir /usr/bin/cat /usr/bin/grep /bin/mkdir /bin/cat /bin/grep", 5000, other);
        await run("cd /tmp", 5000, other);
        expect(await run("pwd", 5000, other)).toMatchObject({ stdout: "/tmp\n", stderr: "", exitCode: 0 });
      }));
  }

  test("the host's files, by links, by .. and by their names", async () => {
    const folder = mkdtempSync(join(homedir(), ".agentrl-secret-"));
    writeFileSync(join(folder, "file"), "the host's secret");
    try {
      const script = `ln -sfn / /tmp/up; cat ${folder}/file /tmp/up${folder}/file ../../../../../..${folder}/file /proc/1/root${folder}/file; cat /etc/shadow /proc/1/environ`;
      const { stdout } = await run(script);
      expect(stdout).not.toContain("secret");
      // Nobody has a password, and nothing of the host's environment is seen.
      expect(stdout).not.toMatch(/\$[1-9y]\$/);
      expect(stdout).not.toContain("npm_");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("no network, not even the host's own", async () => {
    const server = createServer((_, response) => response.end("reached"));
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    let reached = 0;
    server.on("connection", () => reached++);
    try {
      const { port } = server.address() as AddressInfo;
      const { stdout } = await run(
        `exec 3<>/dev/tcp/127.0.0.1/${port} && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3; curl -s http://127.0.0.1:${port}`,
      );
      expect(stdout).not.toContain("reached");
      expect(reached).toBe(0);
    } finally {
      server.close();
    }
  });

  if (name === "embedded") {
    test("a script that blocks its thread: the event loop goes on, and so do the machines beside it", async () => {
      // More machines than there are threads: some share one with the script.
      const beside = await Promise.all(Array.from({ length: 6 }, () => engine.start()));
      for (const [i, other] of beside.entries()) {
        await run(
          `cd /opt; n=${i}; echo ${i} > f; chmod 751 f; ln -s f l; touch -d 2020-01-02 f; rm /usr/bin/jq`,
          5000,
          other,
        );
      }
      let ticks = 0;
      const clock = setInterval(() => ticks++, 10);
      // Appending to an array takes time in proportion to its length, and cannot be interrupted.
      const result = await run("for i in {1..100000}; do a+=($i $i $i $i); done", 500, beside[0]!);
      clearInterval(clock);
      expect(result).toMatchObject({ timedOut: true, stdout: "" });
      expect(ticks).toBeGreaterThan(5);
      for (const [i, other] of beside.entries()) {
        const after = await run("pwd; echo $n; cat l; stat -c '%a %Y' f; ls /usr/bin/jq", 5000, other);
        expect(after.stdout).toBe(`/opt\n${i}\n${i}\n751 ${Date.UTC(2020, 0, 2) / 1000}\n`);
        await other.close();
      }
    });
  }

  if (name !== "embedded") {
    test("the kernel's settings, devices and mounts", async () => {
      const { stdout } = await run(
        "echo 1 > /proc/sys/kernel/panic && echo written; mount -t tmpfs none /opt && echo mounted; mknod /tmp/disk b 8 0 && echo made; chroot / true && echo moved",
      );
      expect(stdout).toBe("");
    });

    test("processes and folders are gone when a machine is closed", () =>
      fresh(async (other) => {
        await run("sleep 4321 & disown", 5000, other);
        await other.close();
        const commands = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid));
        expect(commands.length).toBeGreaterThan(0);
        expect(processesCalled("sleep 4321")).toBe(0);
        await expect(run("echo on", 20_000, other)).rejects.toThrow(/closed/);
      }));

    test("kill -9 of the process that made a machine leaves nothing", async () => {
      const child = spawn(
        process.execPath,
        ["--import", "tsx", join(import.meta.dirname, "holder.ts"), JSON.stringify(options)],
        { stdio: ["ignore", "pipe", "inherit"] },
      );
      await once(child.stdout, "data");
      expect(processesCalled("sleep 8765")).toBeGreaterThan(0);
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      // A namespace ends with its maker; containers are removed by the next engine that starts.
      const next = await openEngine(options, settingsOf(options));
      await next.close();
      await gone("sleep 8765");
      if (name === "container")
        expect((service as ContainerService).podman("ps", "-aq").trim().split("\n")).toHaveLength(1);
    });
  }
});

function processesCalled(command: string): number {
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => commandLine(pid) === command).length;
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
  } catch {
    return "";
  }
}

async function gone(command: string): Promise<void> {
  const until = performance.now() + 5000;
  while (processesCalled(command) > 0 && performance.now() < until)
    await new Promise((resolve) => setImmediate(resolve));
  expect(processesCalled(command)).toBe(0);
}
