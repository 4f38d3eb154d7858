/**
 * A model folder in Hugging Face's layout: config.json, tokenizer.json, tokenizer_config.json (with the chat template),
 * generation_config.json, and model.safetensors or its shards; or one GGUF file, which holds the same. Everything that can be
 * checked without reading the weights is checked at once: names, shapes and types against the config, the tokenizer against both.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import path from "node:path";
import { AgentRLError } from "../errors.ts";
import { ChatTemplate } from "../text/chat-template.ts";
import type { TextSettings } from "../text/text-settings.ts";
import { type Json, Tokenizer } from "../text/tokenizer.ts";
import { isAdapterFolder, openAdapterFolder } from "./adapter-files.ts";
import { formatModelConfig, type ModelConfig, parseModelConfig, readModelConfig } from "./config.ts";
import { writeDurably, writeFully } from "./durable.ts";
import { type GgufModel, openGguf } from "./gguf/model.ts";
import { tensorTypes } from "./gguf/tensor-types.ts";
import type { LoraShape } from "./lora.ts";
import { parameterLayout } from "./parameters.ts";
import { type FileDType, type Tensor, writeSafetensors } from "./safetensors.ts";
import { indexFile, openShards, type TensorSource, weightsFile } from "./shards.ts";

export interface ModelText {
  /** `eosTokenIds` are those of config.json and generation_config.json together. */
  config: ModelConfig;
  tokenizer: Tokenizer;
  template: ChatTemplate;
}

export interface ModelFolder extends ModelText {
  path: string;
  /** Of the model, without its adapter. */
  tensors: TensorReader;
  /** Where the folder holds an adapter: what is to be added, in the layout of lora.ts. */
  adapter?: { lora: LoraShape; data: Float32Array };
}

/** Reads the weights by Hugging Face name, each when asked. */
export interface TensorReader {
  names(): string[];
  /** @throws AgentRLError MODEL_FILE */
  read(name: string): Tensor;
  /** Frees the file handles; nothing can be read afterwards. */
  close(): void;
}

export interface ModelContent extends ModelText {
  /** By Hugging Face name, matrices as [out, in]. */
  tensors: ReadonlyMap<string, Tensor>;
  /** How the weights are written. @default f32 */
  dtype?: FileDType;
}

/**
 * @param place A model folder, a GGUF file, or a folder with one GGUF file and no config.json. Of an adapter's folder the
 * model is the one that it names.
 * @throws AgentRLError MODEL_FILE, TOKENIZER. Close `tensors` when the weights are read.
 */
export function loadModelFolder(place: string, settings: TextSettings = {}): ModelFolder {
  if (isAdapterFolder(place)) {
    const { base, lora, read } = openAdapterFolder(place);
    const model = loadModelFolder(base, settings);
    return { ...model, path: place, adapter: { lora, data: read(model.config) } };
  }
  const file = ggufFileAt(place);
  if (file === undefined) {
    const text = folderText(place, settings);
    return { path: place, ...text, tensors: checkedReader(place, text.config, openShards(place)) };
  }
  const gguf = openGguf(file);
  let text: ModelText;
  try {
    text = ggufText(file, gguf, settings);
  } catch (error) {
    gguf.tensors.close();
    throw error;
  }
  return { path: file, ...text, tensors: checkedReader(file, text.config, gguf.tensors) };
}

/** The same without the weights: what a process needs that gets them from elsewhere. */
export function loadModelText(place: string, settings: TextSettings = {}): ModelText {
  if (isAdapterFolder(place)) return loadModelText(openAdapterFolder(place).base, settings);
  const file = ggufFileAt(place);
  if (file === undefined) return folderText(place, settings);
  const gguf = openGguf(file);
  gguf.tensors.close();
  return ggufText(file, gguf, settings);
}

/** The GGUF file that `place` is or holds, where it is no folder in Hugging Face's layout. */
export function ggufFileAt(place: string): string | undefined {
  if (place.endsWith(".gguf")) return place;
  if (!statSync(place, { throwIfNoEntry: false })?.isDirectory() || existsSync(path.join(place, "config.json"))) {
    return undefined;
  }
  const files = readdirSync(place).filter((name) => name.endsWith(".gguf"));
  if (files.length > 1) {
    throw new AgentRLError("MODEL_FILE", "The folder holds several GGUF files.", {
      where: place,
      got: files.join(", "),
      expected: "one, or a folder with a config.json",
      hint: "Name the file itself.",
    });
  }
  return files[0] && path.join(place, files[0]);
}

function folderText(folder: string, settings: TextSettings): ModelText {
  const read = readModelConfig(path.join(folder, "config.json"));
  const config = { ...read, eosTokenIds: [...new Set([...read.eosTokenIds, ...generationEos(folder)])] };
  const tokenizer = Tokenizer.load(folder);
  const template = ChatTemplate.load(folder, tokenizer, settings);
  checkTokenizer(folder, config, tokenizer, template);
  return { config, tokenizer, template };
}

function ggufText(file: string, gguf: GgufModel, settings: TextSettings): ModelText {
  const config = parseModelConfig(gguf.config, file);
  const tokenizer = new Tokenizer(gguf.tokenizer.json, gguf.tokenizer.config, file);
  const template = ChatTemplate.ofConfig(tokenizer, `${file}: tokenizer.chat_template`, settings);
  checkTokenizer(file, config, tokenizer, template);
  return { config, tokenizer, template };
}

const torchDtypes: Record<FileDType, string> = { f32: "float32", bf16: "bfloat16", f16: "float16" };

/**
 * Writes the folder. Each file appears whole or not at all, the weights last, so a folder with weights is complete.
 * @throws AgentRLError MODEL_FILE (a tensor that does not fit the config), TOKENIZER, DISK
 */
export function saveModelFolder(folder: string, content: ModelContent): void {
  const { config, tokenizer, template, tensors, dtype = "f32" } = content;
  checkTokenizer(folder, config, tokenizer, template);
  const info = (name: string) => (tensors.has(name) ? { dtype: "F32", shape: tensors.get(name)!.shape } : undefined);
  checkTensors(folder, config, [...tensors.keys()], info);
  try {
    mkdirSync(folder, { recursive: true });
  } catch (cause) {
    throw new AgentRLError("DISK", "The model folder cannot be made.", {
      where: folder,
      got: (cause as Error).message,
      expected: "a writable place",
      hint: "Check the path and its permissions.",
      cause,
    });
  }
  const eos = config.eosTokenIds.length === 1 ? config.eosTokenIds[0] : config.eosTokenIds;
  writeJson(path.join(folder, "config.json"), { ...formatModelConfig(config), torch_dtype: torchDtypes[dtype] });
  writeJson(path.join(folder, "generation_config.json"), {
    ...(config.bosTokenId === undefined ? {} : { bos_token_id: config.bosTokenId }),
    eos_token_id: eos,
    do_sample: true,
  });
  writeJson(path.join(folder, "tokenizer.json"), tokenizer.json);
  writeJson(path.join(folder, "tokenizer_config.json"), {
    tokenizer_class: "PreTrainedTokenizerFast",
    model_max_length: config.maxPositions,
    clean_up_tokenization_spaces: false,
    ...tokenizer.config,
    ...(tokenizer.namedToken("eos_token") === undefined ? { eos_token: template.endOfTurn.content } : {}),
    chat_template: template.source,
  });
  // What an earlier model in this folder may have left would take precedence over what was just written.
  for (const file of ["chat_template.jinja", indexFile]) rmSync(path.join(folder, file), { force: true });
  writeSafetensors(path.join(folder, weightsFile), tensors, { dtype });
}

/** Name and shape of every tensor of the model. */
export function expectedTensors(config: ModelConfig): Map<string, number[]> {
  return new Map(parameterLayout(config).entries.map(({ name, shape }) => [name, shape]));
}

/** The tensors, checked against the config at once, and their values as each is read. Owns `source`. */
function checkedReader(where: string, config: ModelConfig, source: TensorSource): TensorReader {
  try {
    checkTensors(where, config, source.names(), (name) => source.info(name));
  } catch (error) {
    source.close();
    throw error;
  }
  return {
    names: () => source.names(),
    read: (name) => {
      if (source.info(name) === undefined) throw missingTensor(where, name, source.names(), undefined);
      const tensor = source.read(name);
      assertFinite(tensor.data, `${where}, tensor ${name}`);
      return tensor;
    },
    close: () => source.close(),
  };
}

/** A value that is no number would spread to every logit. @throws AgentRLError MODEL_FILE */
function assertFinite(values: Float32Array, where: string): void {
  // 0 times a number is 0, and NaN times an infinity: one test for the whole tensor.
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += 0 * values[i]!;
  if (sum === 0) return;
  const at = values.findIndex((value) => !Number.isFinite(value));
  throw new AgentRLError("MODEL_FILE", "The weights hold a value that is not finite.", {
    where: `${where}, value ${at}`,
    got: String(values[at]),
    expected: "finite numbers",
    hint: "Fetch the file again, or take an earlier checkpoint.",
  });
}

function missingTensor(folder: string, name: string, names: string[], shape: number[] | undefined): AgentRLError {
  return new AgentRLError("MODEL_FILE", `Tensor "${name}" is missing.`, {
    where: folder,
    got: `${names.length} tensors: ${names.slice(0, 6).join(", ")}`,
    expected: shape === undefined ? `a tensor "${name}"` : `"${name}" of shape [${shape.join(", ")}]`,
    hint: "Check that config.json belongs to these weights and that all shards are there.",
  });
}

function checkTensors(
  folder: string,
  config: ModelConfig,
  names: string[],
  infoOf: (name: string) => { dtype: string; shape: readonly number[] } | undefined,
): void {
  const expected = expectedTensors(config);
  for (const [name, shape] of expected) {
    const info = infoOf(name);
    if (info === undefined) throw missingTensor(folder, name, names, shape);
    const { dtype, shape: got } = info;
    if (!Object.hasOwn(tensorTypes, dtype)) {
      throw new AgentRLError("MODEL_FILE", `Tensor "${name}" has a dtype that the model cannot use.`, {
        where: folder,
        got: dtype,
        expected: "F32, F16 or BF16",
        hint: "Convert the weights to bfloat16 or float32.",
      });
    }
    if (got.join() !== shape.join()) {
      throw new AgentRLError("MODEL_FILE", `Tensor "${name}" has another shape than config.json says.`, {
        where: folder,
        got: `[${got.join(", ")}]`,
        expected: `[${shape.join(", ")}]`,
        hint: "Check that config.json belongs to these weights.",
      });
    }
  }
  for (const name of names) {
    // A tied head is the embedding; inv_freq is a buffer of old exports. Anything else would be computed with.
    if (expected.has(name) || name === "lm_head.weight" || name.endsWith(".rotary_emb.inv_freq")) continue;
    throw new AgentRLError("MODEL_FILE", `Tensor "${name}" does not belong to the model that config.json describes.`, {
      where: folder,
      got: `"${name}" of shape [${infoOf(name)?.shape.join(", ")}]`,
      expected: `the ${expected.size} tensors of a ${config.family} model with ${config.layers} layers`,
      hint: "Check that config.json belongs to these weights; merge adapters into them first.",
    });
  }
}

function checkTokenizer(folder: string, config: ModelConfig, tokenizer: Tokenizer, template: ChatTemplate): void {
  const fail = (what: string, got: unknown, expected: string): never => {
    throw new AgentRLError("TOKENIZER", what, {
      where: folder,
      got,
      expected,
      hint: "Use the tokenizer that the model was trained with: tokenizer files and config.json of one folder.",
    });
  };
  const { vocabSize, eosTokenIds, bosTokenId } = config;
  if (tokenizer.vocabSize > vocabSize) {
    const control = tokenizer.controlTokens.find(({ id }) => id >= vocabSize);
    fail(
      "The tokenizer has more tokens than the model.",
      `ids up to ${tokenizer.vocabSize - 1}${control === undefined ? "" : `, "${control.content}" is ${control.id}`}`,
      `ids below vocab_size = ${vocabSize}`,
    );
  }
  for (const id of [...eosTokenIds, ...(bosTokenId === undefined ? [] : [bosTokenId])]) {
    if (tokenizer.tokenString(id) === undefined) {
      fail("config.json names a special token that the tokenizer lacks.", id, `an id below ${tokenizer.vocabSize}`);
    }
  }
  const eosToken = tokenizer.namedToken("eos_token");
  const ends = [{ content: template.endOfTurn.content, source: "the chat template ends turns with" }];
  if (eosToken !== undefined) ends.push({ content: eosToken, source: "tokenizer_config.json has eos_token" });
  for (const { content, source } of ends) {
    const id = tokenizer.tokenId(content);
    if (id === undefined || !eosTokenIds.includes(id)) {
      fail(
        "The tokenizer's end token is not one of the model's.",
        `${source} "${content}", id ${id ?? "none"}`,
        `one of eos_token_id = [${eosTokenIds.join(", ")}] in config.json or generation_config.json`,
      );
    }
  }
}

function generationEos(folder: string): number[] {
  const file = path.join(folder, "generation_config.json");
  if (!existsSync(file)) return [];
  let eos: unknown;
  try {
    eos = (JSON.parse(readFileSync(file, "utf8")) as Json).eos_token_id ?? [];
  } catch (cause) {
    throw new AgentRLError("MODEL_FILE", "generation_config.json cannot be read.", {
      where: file,
      got: (cause as Error).message,
      expected: "one JSON object",
      hint: "Fetch the file again, or remove it.",
      cause,
    });
  }
  const ids = Array.isArray(eos) ? (eos as unknown[]) : [eos];
  if (!ids.every((id) => Number.isSafeInteger(id) && (id as number) >= 0)) {
    throw new AgentRLError("MODEL_FILE", 'generation_config.json field "eos_token_id" is malformed.', {
      where: file,
      got: eos,
      expected: "a token id or a list of them",
      hint: "Fetch the file again, or remove it.",
    });
  }
  return ids as number[];
}

function writeJson(file: string, value: unknown): void {
  writeDurably(file, (descriptor) => writeFully(descriptor, Buffer.from(`${JSON.stringify(value, null, 2)}\n`)));
}
