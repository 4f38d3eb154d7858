/** Model folders: saved and loaded again, in one file or in shards, and every mismatch by the error that names it. */
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { AgentRLError, type ErrorCode } from "../../src/errors.ts";
import type { ModelConfig } from "../../src/model/config.ts";
import { expectedTensors, loadModelFolder, type ModelContent, saveModelFolder } from "../../src/model/files.ts";
import { type Tensor, writeSafetensors } from "../../src/model/safetensors.ts";
import { trainBpe } from "../../src/text/bpe-trainer.ts";
import { ChatTemplate } from "../../src/text/chat-template.ts";
import { tinyChatTemplate, tinyControlTokens, tinyPattern } from "../../src/text/tiny-template.ts";
import { type Json, Tokenizer } from "../../src/text/tokenizer.ts";

const config: ModelConfig = {
  vocabSize: 280,
  hiddenSize: 12,
  intermediateSize: 20,
  layers: 2,
  heads: 4,
  kvHeads: 2,
  headDim: 4,
  family: "llama" as const,
  ropeTheta: 10000,
  rmsNormEps: 1e-5,
  tieWordEmbeddings: true,
  maxPositions: 64,
  eosTokenIds: [5],
};

const json = trainBpe(["film director film director"], {
  vocabSize: 270,
  controlTokens: tinyControlTokens,
  pattern: tinyPattern,
});

function content(changes: Partial<ModelConfig> = {}): ModelContent {
  const tokenizer = new Tokenizer(json, { eos_token: "<|end|>", pad_token: "<|pad|>" });
  const merged = { ...config, ...changes };
  let next = 0;
  const tensors = new Map<string, Tensor>();
  for (const [name, shape] of expectedTensors(merged)) {
    const length = shape.reduce((a, b) => a * b, 1);
    tensors.set(name, { shape, data: Float32Array.from({ length }, () => Math.sin(next++)) });
  }
  return { config: merged, tokenizer, template: new ChatTemplate(tokenizer, tinyChatTemplate), tensors };
}

let root: string;
let folder: string;
beforeAll(() => {
  root = mkdtempSync(path.join(tmpdir(), "model-"));
});
afterAll(() => rmSync(root, { recursive: true }));
beforeEach(() => {
  folder = path.join(root, "model");
  rmSync(folder, { recursive: true, force: true });
});

test("how turns are read is saved with the model, and can be set anew", () => {
  saveModelFolder(folder, content());
  const format = (settings = {}) => loadModelFolder(folder, settings).template.toolFormat.name;
  expect(format()).toBe("hermes");
  const asked = loadModelFolder(folder, { toolFormat: "llama3" });
  saveModelFolder(folder, { ...asked, tensors: content().tensors });
  expect([format(), format({ toolFormat: "auto" }), format({ toolFormat: "json" })]).toEqual([
    "llama3",
    "llama3",
    "json",
  ]);
});

const edit = (file: string, change: (value: Json) => void) => {
  const value = JSON.parse(readFileSync(path.join(folder, file), "utf8")) as Json;
  change(value);
  writeFileSync(path.join(folder, file), JSON.stringify(value));
};

function fails(code: ErrorCode, message: RegExp, action: () => unknown = () => loadModelFolder(folder)): void {
  let error: unknown;
  try {
    action();
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(AgentRLError);
  expect((error as AgentRLError).code).toBe(code);
  expect((error as AgentRLError).message).toMatch(message);
  expect((error as AgentRLError).message).toContain(folder);
  expect((error as AgentRLError).detail.hint).toBeTruthy();
}

describe("a folder comes back as it was saved", () => {
  test.each([{ tieWordEmbeddings: true }, { tieWordEmbeddings: false, eosTokenIds: [5, 0], bosTokenId: 1 }])(
    "%j",
    (changes) => {
      const saved = content(changes);
      saveModelFolder(folder, saved);
      const loaded = loadModelFolder(folder);
      expect(loaded.config).toEqual(saved.config);
      expect(loaded.tokenizer.json).toEqual(json);
      expect(loaded.template.source).toBe(tinyChatTemplate);
      expect(loaded.tensors.names().sort()).toEqual([...saved.tensors.keys()].sort());
      for (const [name, tensor] of saved.tensors) expect(loaded.tensors.read(name)).toEqual(tensor);
      expect(() => loaded.tensors.read("nothing")).toThrow(/"nothing" is missing/);
      loaded.tensors.close();
    },
  );

  test("what was loaded can be saved elsewhere, and two saves are the same bytes", () => {
    const saved = content();
    saveModelFolder(folder, saved);
    const again = path.join(root, "again");
    saveModelFolder(again, { ...loadModelFolder(folder), tensors: saved.tensors });
    for (const file of ["config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"]) {
      expect(readFileSync(path.join(again, file)).equals(readFileSync(path.join(folder, file)))).toBe(true);
    }
  });

  test("in shards", () => {
    const saved = content();
    saveModelFolder(folder, saved);
    rmSync(path.join(folder, "model.safetensors"));
    const names = [...saved.tensors.keys()];
    const shards = {
      "model-00001-of-00002.safetensors": names.slice(0, 7),
      "model-00002-of-00002.safetensors": names.slice(7),
    };
    const map: Record<string, string> = {};
    for (const [file, held] of Object.entries(shards)) {
      for (const name of held) map[name] = file;
      writeSafetensors(path.join(folder, file), new Map(held.map((name) => [name, saved.tensors.get(name)!])));
    }
    const index = path.join(folder, "model.safetensors.index.json");
    writeFileSync(index, JSON.stringify({ metadata: {}, weight_map: map }));
    const loaded = loadModelFolder(folder);
    for (const [name, tensor] of saved.tensors) expect(loaded.tensors.read(name)).toEqual(tensor);
    loaded.tensors.close();

    writeFileSync(index, JSON.stringify({ weight_map: { ...map, [names[0]!]: "model-00002-of-00002.safetensors" } }));
    fails("MODEL_FILE", /"model\.embed_tokens\.weight" is not in the shard[\s\S]*00002/);
    writeFileSync(index, JSON.stringify({ weight_map: { ...map, [names[0]!]: "../elsewhere.safetensors" } }));
    fails("MODEL_FILE", /index of the model's shards is malformed/);
    writeFileSync(index, "{");
    fails("MODEL_FILE", /index of the model's shards cannot be read/);
    writeFileSync(index, JSON.stringify({ weight_map: map }));
    rmSync(path.join(folder, "model-00002-of-00002.safetensors"));
    fails("MODEL_FILE", /model-00002-of-00002\.safetensors[\s\S]*ENOENT/);
  });

  test("a template of its own file, and generation_config's end tokens, are read", () => {
    saveModelFolder(folder, content());
    edit("config.json", (value) => {
      value.eos_token_id = 0;
    });
    writeFileSync(path.join(folder, "chat_template.jinja"), `${tinyChatTemplate}{# own #}`);
    const loaded = loadModelFolder(folder);
    expect(loaded.config.eosTokenIds).toEqual([0, 5]);
    expect(loaded.template.source).toMatch(/own/);
    loaded.tensors.close();
  });
});

describe("a shard that is damaged is found before anything is read", () => {
  const shard = "model-00002-of-00002.safetensors";
  /** Saves the model in two shards, then lets the second be what `change` makes of it. */
  function damage(change: (bytes: Buffer, tensors: Map<string, Tensor>) => Buffer | undefined): void {
    const saved = content();
    saveModelFolder(folder, saved);
    rmSync(path.join(folder, "model.safetensors"));
    const names = [...saved.tensors.keys()];
    const map: Record<string, string> = {};
    for (const [file, held] of [
      ["model-00001-of-00002.safetensors", names.slice(0, 7)],
      [shard, names.slice(7)],
    ] as const) {
      for (const name of held) map[name] = file;
      const tensors = new Map(held.map((name) => [name, saved.tensors.get(name)!]));
      const place = path.join(folder, file);
      writeSafetensors(place, tensors);
      if (file !== shard) continue;
      const changed = change(readFileSync(place), tensors);
      if (changed === undefined) rmSync(place);
      else writeFileSync(place, changed);
    }
    writeFileSync(path.join(folder, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
  }
  /** The header with another text of the same length in place of `from`. */
  const inHeader = (bytes: Buffer, from: string, to: string) =>
    Buffer.from(bytes.toString("latin1").replace(from, to.padEnd(from.length)), "latin1");

  test.each<[string, Parameters<typeof damage>[0], RegExp]>([
    ["missing", () => undefined, /cannot be opened[\s\S]*00002[\s\S]*ENOENT/],
    ["empty", () => Buffer.alloc(0), /is truncated[\s\S]*00002[\s\S]*0 bytes/],
    ["cut inside its header", (bytes) => bytes.subarray(0, 100), /truncated inside its header[\s\S]*00002/],
    [
      "cut inside a tensor",
      (bytes) => bytes.subarray(0, bytes.length - 1),
      /is truncated, or tensor "model\.[\s\S]*00002/,
    ],
    ["a web page", () => Buffer.from("<!DOCTYPE html><html>sign in</html>"), /impossible header length[\s\S]*00002/],
    ["no JSON", (bytes) => inHeader(bytes, '{"__metadata__"', '<"__metadata__"'), /corrupt header[\s\S]*00002/],
    [
      "of offsets that lie",
      (bytes) => inHeader(bytes, '"data_offsets":[0,', '"data_offsets":[4,'),
      /size that is not its shape's/,
    ],
    [
      "of a dtype that cannot be computed with",
      (bytes) => inHeader(bytes, '"F32"', '"I32"'),
      /Tensor "model\.[\w.]+" has a dtype that the model cannot use[\s\S]*I32[\s\S]*F32, F16 or BF16/,
    ],
    [
      "without one of its tensors",
      (_, tensors) => {
        const [first] = tensors.keys();
        tensors.delete(first!);
        writeSafetensors(path.join(folder, shard), tensors);
        return readFileSync(path.join(folder, shard));
      },
      /is not in the shard that the index names[\s\S]*00002/,
    ],
  ])("%s", (_, change, message) => {
    damage(change);
    fails("MODEL_FILE", message);
  });
});

describe("weights that do not fit the config", () => {
  test("a missing file, a truncated file", () => {
    saveModelFolder(folder, content());
    const file = path.join(folder, "model.safetensors");
    const bytes = readFileSync(file);
    writeFileSync(file, bytes.subarray(0, bytes.length - 100));
    fails("MODEL_FILE", /truncated[\s\S]*model\.safetensors|model\.safetensors[\s\S]*truncated/);
    rmSync(file);
    fails("MODEL_FILE", /model\.safetensors[\s\S]*ENOENT/);
  });

  test.each([Number.NaN, Number.NEGATIVE_INFINITY])("a value of %d", (value) => {
    const model = content();
    model.tensors.get("model.layers.1.self_attn.k_proj.weight")!.data[7] = value;
    saveModelFolder(folder, model);
    const { tensors } = loadModelFolder(folder);
    fails("MODEL_FILE", /not finite[\s\S]*model\.layers\.1\.self_attn\.k_proj\.weight, value 7/, () =>
      tensors.read("model.layers.1.self_attn.k_proj.weight"),
    );
    tensors.close();
  });

  test("a missing tensor", () => {
    const { tensors, ...rest } = content();
    const some = new Map(tensors);
    some.delete("model.layers.1.self_attn.k_proj.weight");
    fails("MODEL_FILE", /"model\.layers\.1\.self_attn\.k_proj\.weight" is missing[\s\S]*\[8, 12\]/, () =>
      saveModelFolder(folder, { ...rest, tensors: some }),
    );
    expect(existsSync(folder)).toBe(false);
  });

  test("another shape", () => {
    saveModelFolder(folder, content());
    edit("config.json", (value) => {
      value.intermediate_size = 24;
    });
    fails("MODEL_FILE", /"model\.layers\.0\.mlp\.gate_proj\.weight"[\s\S]*\[20, 12\][\s\S]*\[24, 12\]/);
  });

  test("a tensor too many", () => {
    saveModelFolder(folder, content());
    edit("config.json", (value) => {
      value.num_hidden_layers = 1;
    });
    fails("MODEL_FILE", /"model\.layers\.1\.[a-z_.]+" does not belong[\s\S]*1 layers/);
  });

  test("a folder that is not there", () => fails("MODEL_FILE", /config\.json[\s\S]*ENOENT/));
});

describe("a tokenizer that does not match the model", () => {
  test("more tokens than the model has", () => {
    saveModelFolder(folder, content());
    edit("tokenizer.json", (value) => {
      (value.added_tokens as Json[]).push({ id: 300, content: "<|more|>", special: true });
    });
    fails("TOKENIZER", /more tokens than the model[\s\S]*<\|more\|>" is 300[\s\S]*vocab_size = 280/);
  });

  test("an end token that is not the model's", () => {
    saveModelFolder(folder, content());
    for (const file of ["config.json", "generation_config.json"]) {
      edit(file, (value) => {
        value.eos_token_id = 0;
      });
    }
    fails("TOKENIZER", /end token[\s\S]*<\|end\|>", id 5[\s\S]*eos_token_id = \[0\]/);
  });

  test("tokenizer_config's end token is not the model's", () => {
    saveModelFolder(folder, content());
    edit("tokenizer_config.json", (value) => {
      value.eos_token = "<|user|>";
    });
    fails("TOKENIZER", /eos_token "<\|user\|>", id 2/);
  });

  test("a special id that the tokenizer lacks", () => {
    saveModelFolder(folder, content());
    edit("config.json", (value) => {
      value.bos_token_id = 279;
    });
    fails("TOKENIZER", /special token that the tokenizer lacks[\s\S]*279/);
  });

  test("no chat template", () => {
    saveModelFolder(folder, content());
    edit("tokenizer_config.json", (value) => {
      delete value.chat_template;
    });
    fails("TOKENIZER", /no chat template[\s\S]*tokenizer_config\.json/);
  });

  test("no tokenizer", () => {
    saveModelFolder(folder, content());
    cpSync(path.join(folder, "config.json"), path.join(folder, "tokenizer.json"));
    fails("TOKENIZER", /no BPE model/);
    rmSync(path.join(folder, "tokenizer.json"));
    fails("TOKENIZER", /tokenizer\.json[\s\S]*ENOENT/);
  });
});
