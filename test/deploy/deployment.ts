/** What the files of deploy/ say: their commands, variables and probes, read as the programs that use them would. */
import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Command } from "commander";
import { parse, parseAllDocuments } from "yaml";
import { addController } from "../../src/cli/controller.ts";
import { addWorker } from "../../src/cli/worker.ts";

export const root = resolve(import.meta.dirname, "../..");
const text = (file: string) => readFileSync(resolve(root, "deploy", file), "utf8");

export interface ComposeService {
  image: string;
  build: { context: string; dockerfile: string };
  command?: string[];
  environment?: Record<string, string>;
  ports?: string[];
  profiles?: string[];
  restart?: string;
  healthcheck?: { test: string[] };
  stop_grace_period?: string;
  deploy?: { resources: { limits: { cpus: string; memory: string; pids: number } } };
}

export const compose = parse(text("compose.yaml"), { merge: true }) as { services: Record<string, ComposeService> };

export interface Manifest {
  kind: string;
  metadata: { name: string };
  // biome-ignore lint/suspicious/noExplicitAny: an object of Kubernetes' API, whose own types the project does without
  spec?: any;
  stringData?: Record<string, string>;
}

export const manifests = parseAllDocuments(text("kubernetes.yaml")).map((document) => {
  if (document.errors.length > 0) throw document.errors[0];
  return document.toJS() as Manifest;
});

export const manifest = (kind: string, name: string): Manifest => {
  const found = manifests.find((one) => one.kind === kind && one.metadata.name === name);
  if (found === undefined) throw new Error(`kubernetes.yaml has no ${kind} ${name}`);
  return found;
};

/** The instructions of a Containerfile, continued lines joined. */
export function instructions(file: string): [instruction: string, value: string][] {
  const lines = text(file)
    .replace(/^#.*\n/gm, "")
    .replace(/\\\n/g, " ")
    .split("\n");
  return lines
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, instruction = "", value = ""] = /^(\w+)\s+(.*)$/.exec(line) ?? [];
      return [instruction, value.replace(/\s+/g, " ")];
    });
}

export const containerfiles = readdirSync(resolve(root, "deploy"))
  .filter((name) => name.endsWith(".Containerfile"))
  .map((name) => name.slice(0, -".Containerfile".length));

export function defaultCommand(image: string): string[] {
  const command = instructions(`${image}.Containerfile`).findLast(([instruction]) => instruction === "CMD");
  return JSON.parse(command?.[1] ?? "null");
}

export interface ParsedCommand {
  name: string;
  args: string[];
  options: Record<string, unknown>;
}

/** Parses the arguments of `agentrl` by the command line's own definitions. @throws CommanderError as the program would. */
export function parseCommand(args: readonly string[]): ParsedCommand {
  const program = new Command("agentrl").exitOverride().configureOutput({ writeErr: () => {} });
  let parsed: ParsedCommand | undefined;
  for (const add of [addController, addWorker]) add(program);
  for (const command of program.commands) {
    command.exitOverride().configureOutput({ writeErr: () => {} });
    command.action((...given: unknown[]) => {
      parsed = { name: command.name(), args: given.slice(0, -2) as string[], options: command.opts() };
    });
  }
  program.parse([...args], { from: "user" });
  return parsed!;
}
