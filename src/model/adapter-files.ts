/**
 * Adapters as PEFT's files: adapter_config.json and adapter_model.safetensors. They name the model that they belong to and
 * hold nothing of it.
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "./config.ts";
import { writeDurably, writeFully } from "./durable.ts";
import { adapterLayout, type LoraShape } from "./lora.ts";
import {
  type HostTensor,
  type LinearRole,
  linearModules,
  linearRoles,
  type ParameterLayout,
  packTensors,
  unpackTensors,
} from "./parameters.ts";
import { openSafetensors, writeSafetensors } from "./safetensors.ts";

const configFile = "adapter_config.json";
const tensorsFile = "adapter_model.safetensors";
/** What PEFT puts before the names of the model that it has wrapped. */
const prefix = "base_model.model.";

export interface AdapterFolder {
  /** Model that it belongs to: a path or a name. @throws AgentRLError MODEL_FILE when the file names none. */
  readonly base: string;
  lora: LoraShape;
  /** In the layout of lora.ts. @throws AgentRLError MODEL_FILE */
  read(config: ModelConfig): Float32Array;
}

export function isAdapterFolder(folder: string): boolean {
  return existsSync(path.join(folder, configFile));
}

/** Fields of PEFT's LoraConfig that change what is computed, each with the value that is. */
const plainLora = {
  bias: "none",
  use_dora: false,
  use_rslora: false,
  fan_in_fan_out: false,
  lora_bias: false,
  modules_to_save: null,
  layers_to_transform: null,
  rank_pattern: {},
  alpha_pattern: {},
  target_parameters: null,
} as const;

const configSchema = z.looseObject({
  peft_type: z.literal("LORA"),
  base_model_name_or_path: z.string().min(1).nullish(),
  r: z.int().min(1),
  lora_alpha: z.number().gt(0),
  target_modules: z.union([z.array(z.string()), z.string()]),
});

/** @throws AgentRLError MODEL_FILE */
export function openAdapterFolder(folder: string): AdapterFolder {
  const file = path.join(folder, configFile);
  const fail = (field: string, got: unknown, expected: string): never => {
    throw new AgentRLError("MODEL_FILE", `adapter_config.json field "${field}" is malformed or not supported.`, {
      where: `${file}: ${field}`,
      got,
      expected,
      hint: "Use a LoRA adapter of a layer's linear modules, without extras.",
    });
  };
  const json = readConfig(file);
  const parsed = configSchema.safeParse(json);
  if (!parsed.success) {
    const { path: at, message } = parsed.error.issues[0]!;
    return fail(at.join("."), json[String(at[0])], message);
  }
  for (const [field, value] of Object.entries(plainLora)) {
    const got = json[field];
    if (got !== undefined && got !== null && JSON.stringify(got) !== JSON.stringify(value)) {
      fail(field, got, JSON.stringify(value));
    }
  }
  const { base_model_name_or_path: base = null, r: rank, lora_alpha: alpha, target_modules } = parsed.data;
  const targets = target_modules === "all-linear" ? [...linearRoles] : rolesOf(target_modules);
  if (targets === undefined) {
    return fail("target_modules", target_modules, `"all-linear", or a list of ${modules().join(", ")}`);
  }
  const lora = { rank, alpha, targets };
  return {
    lora,
    get base() {
      return base ?? fail("base_model_name_or_path", base, "the model that the adapter belongs to");
    },
    read: (config) => readTensors(folder, adapterLayout(config, lora)),
  };
}

/** Writes the folder: the config first, so that a folder with tensors is complete. @throws AgentRLError DISK */
export function saveAdapterFolder(
  folder: string,
  content: { base: string; config: ModelConfig; lora: LoraShape; arena: Float32Array },
): void {
  const { base, config, lora, arena } = content;
  mkdirSync(folder, { recursive: true });
  const json = {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: base,
    r: lora.rank,
    lora_alpha: lora.alpha,
    lora_dropout: 0,
    target_modules: lora.targets.map(moduleOf),
    inference_mode: true,
    ...plainLora,
  };
  const text = Buffer.from(`${JSON.stringify(json, null, 2)}\n`);
  writeDurably(path.join(folder, configFile), (descriptor) => writeFully(descriptor, text));
  const tensors = unpackTensors(adapterLayout(config, lora), arena);
  writeSafetensors(
    path.join(folder, tensorsFile),
    new Map([...tensors].map(([name, tensor]) => [prefix + name, tensor])),
  );
}

function readConfig(file: string): Record<string, unknown> {
  try {
    const json: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (typeof json === "object" && json !== null && !Array.isArray(json)) return json as Record<string, unknown>;
    throw new SyntaxError("not an object");
  } catch (cause) {
    throw new AgentRLError("MODEL_FILE", "The adapter's config cannot be read.", {
      where: file,
      got: (cause as Error).message,
      expected: "one JSON object",
      hint: "Use the folder that PEFT or a run wrote, whole.",
      cause,
    });
  }
}

function readTensors(folder: string, layout: ParameterLayout): Float32Array {
  const file = path.join(folder, tensorsFile);
  const reader = openSafetensors(file);
  try {
    const expected = new Set(layout.entries.map(({ name }) => prefix + name));
    const stray = reader.names().find((name) => !expected.has(name));
    const missing = [...expected].find((name) => reader.info(name) === undefined);
    if (stray !== undefined || missing !== undefined) {
      throw new AgentRLError("MODEL_FILE", "The adapter's tensors are not those that its config names.", {
        where: file,
        got: stray === undefined ? `no "${missing}"` : `"${stray}"`,
        expected: `the ${expected.size} tensors of its target modules in every layer of its model`,
        hint: "Use the adapter's own config, and the model that it was trained on.",
      });
    }
    return packTensors(layout, (name): HostTensor => reader.read(prefix + name));
  } finally {
    reader.close();
  }
}

/** "q_proj" of "self_attn.q_proj". */
export function moduleOf(role: LinearRole): string {
  return linearModules[role].split(".").at(-1)!;
}

function modules(): string[] {
  return linearRoles.map(moduleOf);
}

/** In the order of `linearRoles`; undefined when one is none. */
function rolesOf(names: readonly string[] | string): LinearRole[] | undefined {
  if (typeof names === "string") return undefined;
  const last = names.map((name) => name.split(".").at(-1)!);
  if (last.length === 0 || last.some((name) => !modules().includes(name))) return undefined;
  return linearRoles.filter((role) => last.includes(moduleOf(role)));
}
