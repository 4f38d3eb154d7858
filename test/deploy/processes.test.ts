/** The commands of compose.yaml as plain processes, with ports of this machine: registration, a session, probes, the drain. */
import { resolve } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { compose, root } from "./deployment.ts";
import { Program } from "./program.ts";

const env = { ...process.env, AGENTRL_TOKEN: "a-token-of-the-test" };
const programs: Program[] = [];
let port: string;

function node(...args: string[]): Program {
  const program = new Program(process.execPath, args, { env, cwd: root });
  programs.push(program);
  return program;
}
const agentrl = (...args: string[]) => node("bin/agentrl.js", ...args);
const probe = (service: string, variables: NodeJS.ProcessEnv = {}) => {
  const [script, api, ...task] = compose.services[service]!.healthcheck!.test.slice(2);
  const here = api!.replace(/\/\/\w+:5020/, `//127.0.0.1:${port}`);
  const file = resolve(root, script!.replace("/opt/agentrl/", ""));
  const program = new Program(process.execPath, [file, here, ...task], { env: { ...env, ...variables } });
  programs.push(program);
  return program;
};

beforeAll(async () => {
  const command = compose.services.controller!.command!.map((word) => (word === "5020" ? "0" : word));
  const controller = agentrl(...command);
  [, port] = (await controller.says(/listens on http:\/\/0\.0\.0\.0:(\d+), with a token/)) as unknown as [
    string,
    string,
  ];
});
afterAll(async () => {
  for (const { process } of programs) process.kill("SIGKILL");
  await Promise.all(programs.map(({ ended }) => ended));
});

it("a session runs to its reward while its worker, told to end, is drained", async () => {
  expect(await probe("controller").ended).toBe(0);
  const early = probe("kg");
  expect(await early.ended).toBe(1);
  expect(early.said).toContain("kg-std: not registered");
  const stranger = probe("controller", { AGENTRL_TOKEN: "another-token" });
  expect(await stranger.ended).toBe(1);
  expect(stranger.said).toContain("401");

  const command = compose.services.kg!.command!.map((word) => word.replace("controller:5020", `127.0.0.1:${port}`));
  const worker = agentrl(...command);
  await worker.says(/registered as kg-std by a stream/);
  expect(await probe("kg").ended).toBe(0);

  const api = `http://127.0.0.1:${port}/api`;
  const client = node("--import", "tsx", "test/deploy/fixtures/expert.ts", api, "kg-std", "0");
  await client.says(/begun/);
  worker.process.kill("SIGTERM");
  await worker.says(/no more sessions; 1 to finish/);
  client.process.stdin!.write("go on\n");
  await client.says(/reward 1\n/);
  expect(await client.ended).toBe(0);
  expect(await worker.ended).toBe(0);

  const late = probe("kg");
  expect(await late.ended).toBe(1);
  expect(late.said).toContain("kg-std: COMA");
});
