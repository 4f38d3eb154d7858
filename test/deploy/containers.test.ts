/**
 * The images of the controller and of a worker, built from their Containerfiles on deploy/local-base.sh's base, run as
 * compose.yaml says: its command, its limits, its probes, its way to end.
 */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ownPodman, type Podman, podmanIsHere } from "../podman.ts";
import { compose, root } from "./deployment.ts";
import { Program } from "./program.ts";

const here = podmanIsHere("images of deploy/");
const programs: Program[] = [];
let podman: Podman;

beforeAll(() => {
  if (!here) return;
  podman = ownPodman();
  // What the network of compose's services does.
  writeFileSync(join(podman.folder, "hosts"), "127.0.0.1 localhost controller\n");
  const archive = join(podman.folder, "base.tar");
  const made = spawnSync("sh", ["-c", `deploy/local-base.sh >${archive}`], { cwd: root, encoding: "utf8" });
  if (made.status !== 0) throw new Error(made.stderr);
  const changes = ['ENTRYPOINT ["agentrl"]', "USER=node"].flatMap((change) => ["--change", change]);
  podman.run("import", ...changes, archive, "agentrl");
  for (const name of ["controller", "kg"]) {
    const { image, build } = compose.services[name]!;
    podman.run("build", "--tag", image, "--file", resolve(root, build.dockerfile), root);
  }
});
afterAll(() => {
  // Those that a test left when it failed.
  for (const { process } of programs) process.kill("SIGKILL");
  podman?.remove();
});

/** `podman run` of a service of compose.yaml; the controller's network stands for that of the services. */
function run(name: string, ...options: string[]): Program {
  const { image, command, deploy } = compose.services[name]!;
  const { memory, pids } = deploy!.resources.limits;
  const confined = ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"];
  const token = ["--env", "AGENTRL_TOKEN"];
  const limits = ["--memory", memory, "--pids-limit", String(pids)];
  const hosts = ["--volume", `${join(podman.folder, "hosts")}:/etc/hosts:ro`];
  return program("run", "--name", name, ...confined, ...limits, ...options, ...hosts, ...token, image, ...command!);
}

function program(...args: string[]): Program {
  const env = { ...podman.env, AGENTRL_TOKEN: "a-token-of-the-test" };
  const started = new Program("podman", [...podman.storage, ...args], { env, cwd: podman.folder });
  programs.push(started);
  return started;
}

const probe = (name: string) => program("exec", name, ...compose.services[name]!.healthcheck!.test.slice(1));

describe.skipIf(!here)("controller and worker in containers", () => {
  it("play a session to its reward while the worker is stopped, and end well", async () => {
    const controller = run("controller", "--network", "none");
    await controller.says(/listens on .*, with a token/);
    expect(await probe("controller").ended).toBe(0);

    const worker = run("kg", "--network", "container:controller");
    await worker.says(/registered as kg-std by a stream/);
    expect(await probe("kg").ended).toBe(0);

    const fixtures = resolve(import.meta.dirname, "fixtures");
    const client = program(
      ...["run", "--rm", "--interactive", "--network", "container:controller", "--env", "AGENTRL_TOKEN"],
      ...["--volume", `${fixtures}:/opt/agentrl/test/deploy/fixtures:ro`, "--workdir", "/opt/agentrl"],
      ...["--tmpfs", "/tmp", "--entrypoint", "node", "agentrl", "--import", "tsx", "test/deploy/fixtures/expert.ts"],
      ...["http://localhost:5020/api", "kg-std", "1"],
    );
    await client.says(/begun/);
    const grace = Number.parseInt(compose.services.kg!.stop_grace_period!, 10);
    const stopped = program("stop", "--time", String(grace), "kg").ended;
    await worker.says(/no more sessions; 1 to finish/);
    client.process.stdin!.write("go on\n");
    await client.says(/reward 1\n/);
    expect(await client.ended).toBe(0);
    expect(await stopped).toBe(0);
    expect(podman.run("inspect", "--format", "{{.State.ExitCode}} {{.State.OOMKilled}}", "kg").trim()).toBe("0 false");

    expect(await program("stop", "--time", "30", "controller").ended).toBe(0);
    expect(podman.run("inspect", "--format", "{{.State.ExitCode}}", "controller").trim()).toBe("0");
    await Promise.all([controller.ended, worker.ended]);
  });
});
