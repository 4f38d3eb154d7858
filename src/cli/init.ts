/** `agentrl init env NAME`: an environment of the user's own to begin with, which works as it is written. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import type { Command } from "commander";
import { knownTasks } from "../config/sections.ts";
import { AgentRLError } from "../errors.ts";
import { diskError } from "../observe/metrics.ts";
import { packageFile } from "../own-files.ts";

interface InitOptions {
  dir: string;
  force?: boolean;
}

/** The template is an environment like any other, tested under this name. */
const templateName = "appointments";
const parts = [".ts", ".test.ts", ".sft.yaml", ".train.yaml"];

export function addInit(program: Command): void {
  program
    .command("init")
    .description("write files to begin with")
    .command("env")
    .description("write an environment of your own, its test, and the configs that train a first model on it")
    .argument("<name>", "letters, digits, dashes and underscores")
    .option("--dir <folder>", "where to", ".")
    .option("--force", "overwrite files that are there")
    .action(initEnv);
}

/** @throws AgentRLError USAGE for a name that cannot be one and for files that are there, DISK where nothing can be written. */
export function initEnv(name: string, { dir, force = false }: InitOptions): void {
  checkName(name);
  const files = parts.map((part) => ({ part, path: join(dir, `${name}${part}`) }));
  if (!force) refuseExisting(files.map(({ path }) => path));
  try {
    mkdirSync(dir, { recursive: true });
    for (const { part, path } of files) {
      const text = readFileSync(packageFile(`templates/env/${templateName}${part}`), "utf8").replaceAll(
        templateName,
        name,
      );
      writeFileSync(path, text, { flag: force ? "w" : "wx" });
    }
  } catch (cause) {
    throw diskError("The environment's files cannot be written", dir, cause);
  }
  console.log(nextSteps(name, dir));
}

/** Stricter than an environment's name need be: it is the name of files as well. */
function checkName(name: string): void {
  if (!/^[A-Za-z][\w-]{0,63}$/.test(name)) {
    throw new AgentRLError("USAGE", "This cannot be an environment's name.", {
      got: name,
      expected: "a letter, then letters, digits, dashes and underscores, 64 at most",
      hint: "For example: agentrl init env my-task",
    });
  }
  if ((knownTasks as readonly string[]).includes(name)) {
    throw new AgentRLError("USAGE", "An environment of this name ships with AgentRL.", {
      got: name,
      expected: `a name other than ${knownTasks.join(", ")}`,
      hint: "Choose another: metrics are reported by name.",
    });
  }
}

function refuseExisting(paths: readonly string[]): void {
  const existing = paths.filter((path) => existsSync(path));
  if (existing.length === 0) return;
  throw new AgentRLError("USAGE", "Files of this name are there already; nothing was written.", {
    got: existing.join(", "),
    expected: "a name that is free",
    hint: "Choose another name or --dir, or overwrite them with --force.",
  });
}

function nextSteps(name: string, dir: string): string {
  const from = relative(".", dir);
  const at = (file: string) => `./${join(from, file)}`;
  const steps = [
    [`test ${at(`${name}.test.ts`)}`, "what must hold, and does"],
    [`eval --task ${at(`${name}.ts`)} --policy expert`, "the ceiling"],
    [`sft ${at(`${name}.sft.yaml`)}`, "a small model that succeeds now and then"],
    [`train ${at(`${name}.train.yaml`)} --out runs/${name}`, "reinforcement learning from there"],
  ];
  const width = Math.max(...steps.map(([command]) => command!.length));
  return [
    `Wrote ${parts.map((part) => `${name}${part}`).join(", ")}${from === "" ? "" : ` to ${from}`}. Next:`,
    ...steps.map(([command, why]) => `  npx agentrl ${command!.padEnd(width)}  # ${why}`),
  ].join("\n");
}
