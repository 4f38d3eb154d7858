/** Models of the Hub, from a server on the loopback: what is fetched, what the cache holds, and whatever may go wrong. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { formatPlan, planTraining } from "../../src/cli/plan.ts";
import { trainSchema } from "../../src/config/train.ts";
import { AgentRLError } from "../../src/errors.ts";
import { loadModelFolder, loadModelText, saveModelFolder } from "../../src/model/files.ts";
import type { FetchOptions } from "../../src/model/hub/fetch.ts";
import { formatHubName, parseHubName } from "../../src/model/hub/name.ts";
import { downloadProgress } from "../../src/model/hub/progress.ts";
import { initWeights } from "../../src/model/init.ts";
import { locateModel } from "../../src/model/locate.ts";
import { parameterLayout, unpackTensors } from "../../src/model/parameters.ts";
import { writeSafetensors } from "../../src/model/safetensors.ts";
import { withLocalModels } from "../../src/pipeline/locate-models.ts";
import { gitOid, HubServer, sha256 } from "./hub-server.ts";

/** The tiny model's text with fewer weights. */
const tiny = mkdtempSync(join(tmpdir(), "hub-model-"));
{
  const text = loadModelText(join(import.meta.dirname, "../../models/tiny"));
  const config = { ...text.config, hiddenSize: 64, intermediateSize: 64, layers: 1, heads: 4, kvHeads: 2, headDim: 16 };
  saveModelFolder(tiny, { ...text, config, tensors: unpackTensors(parameterLayout(config), initWeights(config, 1)) });
}
const texts = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"];
const content = (name: string) => readFileSync(join(tiny, name));
const repo = "someone/tiny-model";
const name = `hf://${repo}`;

let root: string;
let server: HubServer;
let cache: string;
let notices: string[];
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "hub-"));
});
afterAll(() => {
  for (const folder of [root, tiny]) rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  server = new HubServer(repo);
  for (const file of [...texts, "model.safetensors"]) server.files.set(file, content(file));
  server.files.set("README.md", Buffer.from("# A model"));
  server.files.set("pytorch_model.bin", Buffer.alloc(5000));
  await server.listen();
  cache = mkdtempSync(join(root, "cache-"));
  notices = [];
  vi.stubEnv("HF_ENDPOINT", server.url);
  vi.stubEnv("HF_HUB_CACHE", cache);
  vi.stubEnv("HF_HUB_OFFLINE", "");
  vi.stubEnv("HF_TOKEN", "secret");
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await server.close();
});

/** A connection is tried three times, without pauses. */
const locate = (place = name, options: FetchOptions = {}) =>
  locateModel(place, { pauses: [0, 0], notice: (message) => notices.push(message), ...options });

async function errorOf(action: () => unknown): Promise<AgentRLError> {
  try {
    await action();
  } catch (error) {
    if (error instanceof AgentRLError) return error;
    throw error;
  }
  throw new Error("nothing was thrown");
}

const storage = () => join(cache, "models--someone--tiny-model");
const blobs = () => (existsSync(join(storage(), "blobs")) ? readdirSync(join(storage(), "blobs")) : []);
const weights = () => join(storage(), "blobs", sha256(content("model.safetensors")));

describe("a model of the Hub", () => {
  it("is fetched into the shared layout: what it needs, nothing else, once", async () => {
    const { path, missing } = await locate();
    expect(missing).toBe(0);
    expect(path).toBe(join(storage(), "snapshots", server.commit));
    const model = loadModelFolder(path);
    expect(model.config).toEqual(loadModelFolder(tiny).config);
    model.tensors.close();
    expect(server.fetched().sort()).toEqual([...texts, "model.safetensors"].sort());

    // blobs under their hashes, links beside each other, the branch's commit.
    expect(readFileSync(join(storage(), "refs/main"), "utf8")).toBe(server.commit);
    expect(blobs().sort()).toEqual(
      [...texts.map((file) => gitOid(content(file))), sha256(content("model.safetensors"))].sort(),
    );
    expect(readlinkSync(join(path, "config.json"))).toBe(`../../blobs/${gitOid(content("config.json"))}`);
    expect(readFileSync(weights()).equals(content("model.safetensors"))).toBe(true);

    server.requests.length = 0;
    expect(await locate()).toEqual({ path, missing: 0 });
    expect(server.fetched()).toEqual([]);
    // The token is the Hub's alone, not the host's that serves large files.
    expect([...server.tokens]).toEqual(["127.0.0.1: Bearer secret"]);
  });

  it("in shards: those that the index names", async () => {
    const model = loadModelFolder(tiny);
    const names = model.tensors.names();
    const map: Record<string, string> = {};
    const shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    for (const [i, file] of shards.entries()) {
      const held = names.filter((_, at) => at % 2 === i);
      for (const tensor of held) map[tensor] = file;
      writeSafetensors(join(root, file), new Map(held.map((tensor) => [tensor, model.tensors.read(tensor)])));
      server.files.set(file, readFileSync(join(root, file)));
    }
    server.files.delete("model.safetensors");
    server.files.set("model.safetensors.index.json", Buffer.from(JSON.stringify({ weight_map: map })));
    const { path } = await locate();
    const fetched = loadModelFolder(path);
    for (const tensor of names) expect(fetched.tensors.read(tensor)).toEqual(model.tensors.read(tensor));
    fetched.tensors.close();
    model.tensors.close();

    server.files.delete(shards[1]!);
    server.commit = "d".repeat(40);
    const error = await errorOf(() => locate());
    expect(error.message).toMatch(/index names a file that the repository lacks[\s\S]*model-00002-of-00002/);
  });

  it("as one GGUF file, named or the only one", async () => {
    for (const file of [...texts, "model.safetensors"]) server.files.delete(file);
    server.files.set("tiny-f16.gguf", readFileSync(join(import.meta.dirname, "../golden/gguf/llama.gguf")));
    const { path } = await locate();
    expect(path).toBe(join(storage(), "snapshots", server.commit, "tiny-f16.gguf"));
    expect(loadModelFolder(path).config.layers).toBe(2);
    expect((await locate(`${name}/tiny-f16.gguf`)).path).toBe(path);

    server.files.set("tiny-q4.gguf", Buffer.alloc(10));
    const several = await errorOf(() => locate());
    expect(several.message).toMatch(/several GGUF files[\s\S]*hf:\/\/someone\/tiny-model\/tiny-f16\.gguf/);
    expect((await locate(`${name}/tiny-f16.gguf`)).path).toBe(path);
    const none = await errorOf(() => locate(`${name}/other.gguf`));
    expect(none.message).toMatch(/no file other\.gguf[\s\S]*tiny-f16\.gguf, tiny-q4\.gguf/);
  });

  it("without weights for a dry run, which says what a run will download", async () => {
    const config = trainSchema.parse({ model: { path: name }, steps: 20, tasks: [{ name: "kg" }] });
    const plan = await planTraining(config);
    const { length } = content("model.safetensors");
    expect(plan.download).toBe(length);
    expect(formatPlan(plan)).toMatch(
      /hf:\/\/someone\/tiny-model, [\d,]+ parameters\n.* of weights will be downloaded when the run/,
    );
    expect(server.fetched().sort()).toEqual([...texts].sort());
    // What is not there in whole is not taken from the cache.
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect((await errorOf(() => locate())).message).toMatch(/not in the cache/);
    vi.stubEnv("HF_HUB_OFFLINE", "");
    const { config: local, missing } = await withLocalModels(config);
    expect(missing).toBe(0);
    expect(local.model.path).toBe(join(storage(), "snapshots", server.commit));
    expect((await planTraining(config)).download).toBe(0);
  });

  it("by a path that exists rather than from the Hub", async () => {
    expect(await locate(tiny)).toEqual({ path: tiny, missing: 0 });
    expect(server.requests).toEqual([]);
    expect((await errorOf(() => locate("./nowhere"))).message).toMatch(/no model here[\s\S]*org\/name/);
    expect((await errorOf(() => locate("hf://nowhere"))).message).toMatch(/name of a model[\s\S]*malformed/);
  });
});

describe("a download that fails", () => {
  const file = "model.safetensors";
  const { length } = content(file);
  const half = Math.floor(length / 2);
  /** Where requests for the weights began. */
  const starts = () =>
    server.requests.flatMap((line) => {
      const match = /^GET (?:\[bytes=(\d+)-\d+\] )?\/cdn\/model/.exec(line);
      return match === null ? [] : [Number(match[1] ?? 0)];
    });

  it("by a dropped connection goes on in the middle", async () => {
    server.faults.set(file, [{ dropAfter: half }, { short: 1000 }, {}]);
    const { path } = await locate();
    const [first, second, third, ...more] = starts();
    expect(first).toBe(0);
    expect(second).toBeGreaterThan(0);
    expect(second).toBeLessThanOrEqual(half);
    expect(third).toBe(second! + 1000);
    expect(more).toEqual([]);
    expect(readFileSync(join(path, file)).equals(content(file))).toBe(true);
  });

  it("for good leaves no entry, and the next one goes on from what there is", async () => {
    server.faults.set(file, [{ dropAfter: half }, { dropAfter: 0 }]);
    const error = await errorOf(() => locate());
    expect(error.code).toBe("HUB");
    expect(error.message).toMatch(/download broke off[\s\S]*model\.safetensors[\s\S]*goes on where it stopped/);
    expect(error.detail.got).toMatch(new RegExp(`^[1-9]\\d* of ${length} bytes; `));
    // Once, and three tries in vain.
    expect(starts()).toHaveLength(4);
    expect(existsSync(weights())).toBe(false);
    expect(existsSync(join(storage(), "refs/main"))).toBe(false);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect((await errorOf(() => locate())).message).toMatch(/not in the cache/);
    const part = await errorOf(() => locate(`${name}@${server.commit}`));
    expect(part.message).toMatch(/no weights that can be loaded/);

    vi.stubEnv("HF_HUB_OFFLINE", "");
    server.faults.clear();
    server.requests.length = 0;
    const { path } = await locate();
    expect(server.fetched()).toEqual([file]);
    expect(starts()).toHaveLength(1);
    expect(starts()[0]).toBeGreaterThan(0);
    loadModelFolder(path).tensors.close();
    expect(blobs().filter((blob) => blob.includes("incomplete"))).toEqual([]);
  });

  it.each([file, "tokenizer.json"])("by other content of the same size in %s", async (path) => {
    server.faults.set(path, [{ wrong: true }]);
    const error = await errorOf(() => locate());
    expect(error.message).toMatch(/something else than the file that it lists/);
    expect(error.detail.where).toBe(path);
    const hash = path === file ? sha256(content(path)) : gitOid(content(path));
    expect(blobs().filter((blob) => blob.startsWith(hash))).toEqual([]);
    server.faults.clear();
    loadModelFolder((await locate()).path).tensors.close();
  });

  it("by a beginning that was wrong is begun anew", async () => {
    mkdirSync(join(storage(), "blobs"), { recursive: true });
    writeFileSync(`${weights()}.agentrl-incomplete`, Buffer.alloc(1000));
    const { path } = await locate();
    expect(starts()).toEqual([1000, 0]);
    expect(readFileSync(join(path, file)).equals(content(file))).toBe(true);
  });

  it("leaves alone what another process is writing", async () => {
    mkdirSync(join(storage(), "blobs"), { recursive: true });
    // The parent of this process is alive; a process of number 2^22 cannot be.
    const living = `${weights()}.agentrl-incomplete.${process.ppid}`;
    writeFileSync(living, content(file).subarray(0, 1000));
    await locate();
    expect(starts()).toEqual([0]);
    expect(readFileSync(living)).toHaveLength(1000);
    rmSync(weights());
    writeFileSync(`${weights()}.agentrl-incomplete.${2 ** 22}`, content(file).subarray(0, 2000));
    await locate();
    expect(starts()).toEqual([0, 2000]);
  });

  it("by a size that is not the listed one", async () => {
    server.oversized.set(file, 1);
    const error = await errorOf(() => locate());
    expect(error.message).toMatch(/another size than it lists/);
    expect(error.detail.got).toBe(`${length} bytes`);
    expect(existsSync(weights())).toBe(false);
  });
});

describe("an entry of the cache that is not whole", () => {
  it("is fetched again, whoever left it", async () => {
    const { path } = await locate();
    truncateSync(realpathSync(join(path, "model.safetensors")), 1000);
    await locate();
    expect(readFileSync(weights()).equals(content("model.safetensors"))).toBe(true);
    // A link to nothing.
    rmSync(weights());
    await locate();
    expect(readFileSync(join(path, "model.safetensors")).equals(content("model.safetensors"))).toBe(true);
  });

  it("is an error without a network", async () => {
    const { path } = await locate();
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    const index = join(path, "model.safetensors.index.json");
    rmSync(join(path, "model.safetensors"));
    writeFileSync(index, JSON.stringify({ weight_map: { a: "model-00001-of-00002.safetensors" } }));
    symlinkSync("../../blobs/nothing", join(path, "model-00001-of-00002.safetensors"));
    expect((await errorOf(() => locate())).message).toMatch(/in the cache in part[\s\S]*model-00001-of-00002/);
    rmSync(index);
    expect((await errorOf(() => locate())).message).toMatch(/no weights that can be loaded/);
  });
});

describe("without the Hub", () => {
  /** An address where nothing listens any more. */
  async function deserted(): Promise<string> {
    const other = new HubServer(repo);
    await other.listen();
    const { url } = other;
    await other.close();
    return url;
  }

  it("is taken from the cache: offline, out of reach, or in trouble", async () => {
    const { path } = await locate();
    server.requests.length = 0;
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect(await locate()).toEqual({ path, missing: 0 });
    expect(await locate(`${name}@${server.commit}`)).toEqual({ path, missing: 0 });
    expect(server.requests).toEqual([]);
    expect(notices).toEqual([]);
    vi.stubEnv("HF_HUB_OFFLINE", "");
    server.refusal = { status: 503, code: "" };
    expect(await locate()).toEqual({ path, missing: 0 });
    expect(notices).toEqual([expect.stringMatching(/cannot be reached: 503 .* is taken from the cache/)]);
    vi.stubEnv("HF_ENDPOINT", await deserted());
    expect(await locate()).toEqual({ path, missing: 0 });
    expect(notices[1]).toContain("ECONNREFUSED");
  });

  it("and without the cache it is an error", async () => {
    const url = await deserted();
    vi.stubEnv("HF_ENDPOINT", url);
    const error = await errorOf(() => locate());
    expect(error.code).toBe("HUB");
    expect(error.message).toMatch(/not in the cache/);
    expect(error.detail.got).toMatch(`${url} cannot be reached: `);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    expect((await errorOf(() => locate())).message).toMatch(/not in the cache[\s\S]*HF_HUB_OFFLINE is set/);
  });
});

describe("a model that may not be fetched", () => {
  it.each([
    [401, "RepoNotFound", /no such model/],
    [404, "RepoNotFound", /no such model/],
    [401, "", /no such model/],
    [403, "GatedRepo", /must be asked for[\s\S]*Ask for access on http:\/\/127\.0\.0\.1:\d+\/someone\/tiny-model/],
    [401, "GatedRepo", /must be asked for/],
    [400, "BadRequest", /refuses[\s\S]*400 BadRequest/],
  ])("%i %s", async (status, code, message) => {
    server.refusal = { status, code };
    const error = await errorOf(() => locate());
    expect(error.code).toBe("HUB");
    expect(error.message).toMatch(message);
    expect(error.detail.where).toBe(name);
    expect(blobs()).toEqual([]);
  });

  it("for want of the revision, of weights, of a tokenizer", async () => {
    expect((await errorOf(() => locate(`${name}@v2`))).message).toMatch(/no revision "v2"/);
    server.files.delete("tokenizer.json");
    expect((await errorOf(() => locate())).message).toMatch(/no tokenizer\.json/);
    server.files.delete("model.safetensors");
    expect((await errorOf(() => locate())).message).toMatch(/no weights that can be loaded[\s\S]*pytorch_model\.bin/);
    expect(server.fetched()).toEqual([]);
  });
});

describe("settings", () => {
  it("of the cache and the token are those of other Hugging Face tools", async () => {
    for (const variable of [
      "HF_HUB_CACHE",
      "HUGGINGFACE_HUB_CACHE",
      "HF_TOKEN",
      "HUGGING_FACE_HUB_TOKEN",
      "HF_TOKEN_PATH",
    ]) {
      vi.stubEnv(variable, "");
    }
    vi.stubEnv("HF_HOME", cache);
    writeFileSync(join(cache, "token"), "from-file\n");
    const { path } = await locate();
    expect(path.startsWith(join(cache, "hub/models--someone--tiny-model/snapshots/"))).toBe(true);
    expect([...server.tokens]).toEqual(["127.0.0.1: Bearer from-file"]);
  });
});

describe("names", () => {
  it.each([
    ["org/name", { repo: "org/name", revision: "main" }],
    ["hf://org/na.me-1_b@v1.0", { repo: "org/na.me-1_b", revision: "v1.0" }],
    ["org/name@refs/pr/3/sub/q4.gguf", { repo: "org/name", revision: "refs/pr/3", file: "sub/q4.gguf" }],
    ["org/name/Model.Q4_K_M.gguf", { repo: "org/name", revision: "main", file: "Model.Q4_K_M.gguf" }],
  ])("%s", (text, parsed) => {
    expect(parseHubName(text)).toEqual(parsed);
    expect(parseHubName(formatHubName(parsed))).toEqual(parsed);
  });

  it.each([
    "name",
    "./org/name",
    "../org/name",
    "/org/name",
    "a/b/c",
    "models/q4.gguf",
    "org/name@",
    "hf://org/../x/a.gguf",
    "org/name@../x",
  ])("%s is none", (text) => expect(parseHubName(text)).toBeUndefined());

  it("never lead out of the cache", () => {
    const pieces = fc.constantFrom("..", ".", "a", "B-1", "/", "@", "hf://", "refs/pr/1", ".gguf", "\\", "%2e", " ");
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 10 }), (parts) => {
        const { repo, revision, file } = parseHubName(parts.join("")) ?? {};
        for (const part of [repo, revision, file]) expect(part ?? "").not.toMatch(/(^|\/)\.\.?(\/|$)|\\/);
      }),
    );
  });
});

describe("the progress line", () => {
  it("is written over on a terminal, counts what was there but not as speed, and ends with a line feed", () => {
    let now = 0;
    let text = "";
    const out = { isTTY: true, columns: 200, write: (piece: string) => (text += piece) };
    const progress = downloadProgress("org/name", 10e6, out, () => now);
    progress.add(5e6, true);
    now = 1000;
    progress.add(2e6);
    expect(text.split("\r").at(-1)).toBe("org/name  [#################-------] 70 %  7.0 of 10.0 MB  2.0 MB/s\x1b[K");
    now = 1050;
    progress.add(1e6);
    expect(text.split("\r")).toHaveLength(3);
    now = 2000;
    progress.end();
    expect(text.split("\r").at(-1)).toBe("org/name  [###################-----] 80 %  8.0 of 10.0 MB  1.5 MB/s\x1b[K\n");
  });

  it("is silent where the output is no terminal", () => {
    const write = vi.fn();
    const progress = downloadProgress("org/name", 10, { write });
    progress.add(10);
    progress.end();
    expect(write).not.toHaveBeenCalled();
  });
});
