/** The files of deploy/ against the program: every command parses, every environment is there, the parts agree. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { environments } from "../../envs/index.ts";
import packageJson from "../../package.json" with { type: "json" };
import { tokenOf } from "../../src/cli/controller.ts";
import { controllerUrl } from "../../src/env/wire/controller-url.ts";
import { taskOfName } from "../../src/env/worker/task-name.ts";
import { failureOf } from "../failure.ts";
import {
  type ComposeService,
  compose,
  containerfiles,
  defaultCommand,
  instructions,
  manifest,
  manifests,
  parseCommand,
  root,
} from "./deployment.ts";

const names = environments.names();
const container = (name: string) => manifest("Deployment", `agentrl-${name}`).spec.template.spec.containers[0];

describe("every environment", () => {
  it("has its Containerfile, its compose service and its Deployment, and there are no others", () => {
    expect(containerfiles.sort()).toEqual([...names, "base", "controller"].sort());
    expect(Object.keys(compose.services).sort()).toEqual([...names, "base", "controller"].sort());
    const deployments = manifests.filter(({ kind }) => kind === "Deployment").map(({ metadata }) => metadata.name);
    expect(deployments.sort()).toEqual([...names, "controller"].map((name) => `agentrl-${name}`).sort());
  });
});

/** Where each command stands, and what it says. */
const commands: [where: string, args: string[]][] = [...names, "controller"].flatMap((name) => [
  [`${name}.Containerfile`, defaultCommand(name)],
  [`compose.yaml, ${name}`, compose.services[name]!.command!],
  [`kubernetes.yaml, agentrl-${name}`, container(name).args as string[]],
]);

describe("the command in", () => {
  it.each(commands)("%s is one that the program takes", async (where, args) => {
    const { name, args: given, options } = parseCommand(args);
    if (where.includes("controller")) {
      expect(name).toBe("controller");
      expect(options).toMatchObject({ host: "0.0.0.0", port: 5020 });
      return;
    }
    expect(name).toBe("worker");
    const { environment, split } = taskOfName(given[0]!);
    expect(where).toContain(environment);
    expect(split).toBe("eval");
    // An unknown environment or engine, or an endpoint without effect, is refused here.
    const { engine, endpoint } = options as { engine?: string; endpoint?: string };
    const opened = await environments.create(environment, { ...(engine && { engine }), ...(endpoint && { endpoint }) });
    expect(opened.split(split).indices.length).toBeGreaterThan(0);
    const service = where.startsWith("kubernetes") ? "agentrl-controller" : "controller";
    expect(controllerUrl(options.controller as string)).toBe(`grpc://${service}:5020`);
  });

  it("an image with an option or a task that does not exist would be noticed", async () => {
    expect(() => parseCommand(["worker", "kg-std", "--proceses", "2"])).toThrow(/unknown option/);
    expect(() => parseCommand(["worker", "kg-std", "--processes", "two"])).toThrow(/whole number/);
    expect(() => parseCommand(["serve"])).toThrow(/unknown command/);
    await expect(environments.create(taskOfName("kgs-std").environment)).rejects.toThrow(/no environment/);
  });
});

describe("Containerfiles", () => {
  it("stand on public images and on one another, run as no root, and copy what exists", () => {
    for (const name of containerfiles) {
      const file = instructions(`${name}.Containerfile`);
      const base = name === "base" ? "NODE=node:20-bookworm-slim" : "BASE=agentrl";
      expect(file[0]).toEqual(["ARG", base]);
      expect(file[1]).toEqual(["FROM", `\${${base.split("=")[0]}}`]);
      expect(file.filter(([instruction]) => instruction === "USER").at(-1)?.[1] ?? "node").toBe("node");
      for (const [instruction, value] of file) {
        if (instruction !== "COPY") continue;
        for (const path of value.split(" ").slice(0, -1)) expect(existsSync(resolve(root, path)), path).toBe(true);
      }
    }
  });

  it("are what compose builds", () => {
    for (const [name, { build, image }] of Object.entries(compose.services)) {
      expect(build).toEqual({ context: "..", dockerfile: `deploy/${name}.Containerfile` });
      const expected = { base: "agentrl", controller: "agentrl-controller" }[name] ?? `agentrl-worker-${name}`;
      expect(image).toBe(expected);
    }
  });
});

const seconds = (text: string) => Number(/^(\d+)s$/.exec(text)?.[1]);
const health = (test: string[]) => test.slice(test.indexOf("node") + 1);
const drainOf = (args: string[]) => parseCommand(args).options.drain as number;

describe("compose.yaml", () => {
  const { base, controller, ...workers } = compose.services as Record<string, ComposeService>;

  it("asks for the token once and gives it to all that run", () => {
    const variables = [controller!, ...Object.values(workers)].map(({ environment }) => environment);
    for (const variable of variables)
      expect(variable).toEqual({ AGENTRL_TOKEN: expect.stringMatching(/^\$\{AGENTRL_TOKEN:\?/) });
    expect(base!.profiles).toEqual(["build"]);
  });

  it("opens the controller's port alone, to this machine", () => {
    expect(controller!.ports).toEqual(["127.0.0.1:5020:5020"]);
    for (const worker of Object.values(workers)) expect(worker.ports).toBeUndefined();
  });

  it("restarts, limits and probes every service, and leaves workers the time to drain", () => {
    for (const [name, service] of Object.entries(compose.services)) {
      if (name === "base") continue;
      expect(service.restart).toBe("unless-stopped");
      expect(service.deploy?.resources.limits).toEqual({
        cpus: expect.stringMatching(/^\d+$/),
        memory: expect.stringMatching(/^\d+G$/),
        pids: expect.any(Number),
      });
      const [script, api, task] = health(service.healthcheck!.test);
      expect(script).toBe("/opt/agentrl/deploy/health.mjs");
      if (name === "controller") {
        expect([api, task]).toEqual(["http://localhost:5020/api", undefined]);
      } else {
        expect([api, task]).toEqual(["http://controller:5020/api", service.command![1]]);
        expect(seconds(service.stop_grace_period!)).toBeGreaterThan(drainOf(service.command!));
      }
    }
  });
});

describe("kubernetes.yaml", () => {
  it("its token is refused until it is replaced", async () => {
    const { stringData } = manifest("Secret", "agentrl-token");
    const error = await failureOf(Promise.resolve().then(() => tokenOf(stringData!.token)));
    expect(error).toMatchObject({ code: "CONFIG", message: expect.stringContaining("The token cannot be used") });
  });

  it("the Service leads to the controller's pods and port", () => {
    const { selector, ports } = manifest("Service", "agentrl-controller").spec;
    const { template, replicas, strategy } = manifest("Deployment", "agentrl-controller").spec;
    expect(template.metadata.labels).toMatchObject(selector);
    expect(ports).toEqual([{ name: "api", port: 5020, targetPort: "api" }]);
    expect(template.spec.containers[0].ports).toEqual([{ name: "api", containerPort: 5020 }]);
    // Two controllers would each know half of the sessions.
    expect([replicas, strategy.type]).toEqual([1, "Recreate"]);
  });

  it.each([...names, "controller"])("the pods of %s have the token, a probe, limits, no rights, and time", (name) => {
    const { selector, template } = manifest("Deployment", `agentrl-${name}`).spec;
    expect(template.metadata.labels).toEqual(selector.matchLabels);
    const pod = template.spec;
    const [only, ...others] = pod.containers;
    expect(others).toEqual([]);
    const image = compose.services[name]!.image;
    expect(only.image).toBe(`registry.example.com/${image}:${packageJson.version}`);
    expect(only.env).toEqual([
      { name: "AGENTRL_TOKEN", valueFrom: { secretKeyRef: { name: "agentrl-token", key: "token" } } },
    ]);
    const [script, api, task] = health(only.readinessProbe.exec.command);
    expect(script).toBe("/opt/agentrl/deploy/health.mjs");
    const isController = name === "controller";
    expect(api).toBe(isController ? "http://localhost:5020/api" : "http://agentrl-controller:5020/api");
    expect(task).toBe(isController ? undefined : only.args[1]);
    expect(only.resources).toMatchObject({ requests: { cpu: "500m" }, limits: { cpu: "2" } });
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    expect(only.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(isController ? 0 : drainOf(only.args));
  });
});
