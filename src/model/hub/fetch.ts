/**
 * A model of the Hugging Face Hub, on this disk: what loading it needs is downloaded into the shared cache, small files first. Without
 * a network, or with HF_HUB_OFFLINE=1, what is in the cache is taken, if all of it is there.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { AgentRLError } from "../../errors.ts";
import { indexFile, readWeightMap, weightsFile } from "../shards.ts";
import { RepoCache } from "./cache.ts";
import {
  HubClient,
  hubCacheFolder,
  hubEndpoint,
  isOffline,
  type RepoFile,
  type RepoListing,
  Unreachable,
} from "./client.ts";
import { type DownloadOptions, downloadBlob } from "./download.ts";
import { formatHubName, type HubName } from "./name.ts";
import { downloadProgress } from "./progress.ts";

export interface FetchOptions extends Pick<DownloadOptions, "pauses"> {
  /** Fetch the weights as well; else only what describes the model. @default true */
  weights?: boolean;
  /** Told what a user should know, one line each. @default to stderr */
  notice?: (message: string) => void;
  out?: Parameters<typeof downloadProgress>[2];
}

export interface FetchedModel {
  /** A model folder, or a GGUF file. */
  path: string;
  /** Bytes of weights that are still to be downloaded: 0 unless `weights` is false. */
  missing: number;
}

const texts = [
  "config.json",
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "chat_template.jinja",
];

/** @throws AgentRLError HUB */
export async function fetchHubModel(name: HubName, options: FetchOptions = {}): Promise<FetchedModel> {
  const { notice = (message) => void process.stderr.write(`${message}\n`) } = options;
  const cache = new RepoCache(hubCacheFolder(), name.repo);
  if (isOffline()) return fromCache(name, cache, "HF_HUB_OFFLINE is set");
  const client = new HubClient(name);
  let listing: RepoListing;
  try {
    listing = await client.list();
  } catch (error) {
    if (!(error instanceof Unreachable)) throw error;
    const reason = `${hubEndpoint()} cannot be reached: ${error.message}`;
    const cached = fromCache(name, cache, reason);
    notice(`${reason}; ${formatHubName(name)} is taken from the cache, as it was fetched last`);
    return cached;
  }
  return download(name, listing, client, cache, options);
}

async function download(
  name: HubName,
  listing: RepoListing,
  client: HubClient,
  cache: RepoCache,
  { weights = true, out, pauses }: FetchOptions,
): Promise<FetchedModel> {
  const { commit, files } = listing;
  const label = formatHubName(name);
  const fetchAll = async (wanted: readonly RepoFile[]) => {
    const todo = wanted.filter(({ path, size }) => !cache.has(commit, path, size));
    const bytes = todo.filter(({ etag, size }) => !cache.hasBlob(etag, size)).reduce((sum, { size }) => sum + size, 0);
    const progress = bytes > 0 ? downloadProgress(label, bytes, out) : undefined;
    try {
      for (const file of todo) {
        const { path, etag, size } = file;
        if (!cache.hasBlob(etag, size)) {
          const onBytes = (more: number, earlier: boolean) => progress?.add(more, earlier);
          await downloadBlob(client, cache, commit, file, { onBytes, ...(pauses && { pauses }) });
        }
        cache.link(commit, path, etag);
      }
    } finally {
      progress?.end();
    }
  };

  const gguf = ggufOf(name, [...files.keys()]);
  const index = files.get(indexFile);
  const single = files.get(weightsFile);
  let large: RepoFile[];
  if (gguf !== undefined) large = [files.get(gguf)!];
  else {
    const small = texts.flatMap((path) => files.get(path) ?? []);
    await fetchAll(single === undefined && index !== undefined ? [...small, index] : small);
    large = single === undefined ? shardsOf(name, cache.snapshot(commit), files) : [single];
  }
  const snapshot = cache.snapshot(commit);
  const path = gguf === undefined ? snapshot : join(snapshot, gguf);
  const missing = large.filter((file) => !cache.has(commit, file.path, file.size));
  if (!weights && gguf !== undefined && missing.length > 0) throw nothingKnown(name, missing[0]!);
  if (!weights) return { path, missing: missing.reduce((sum, { size }) => sum + size, 0) };
  await fetchAll(large);
  cache.writeRef(name.revision, commit);
  return { path, missing: 0 };
}

function nothingKnown(name: HubName, { path, size }: RepoFile): AgentRLError {
  return new AgentRLError("HUB", "What a GGUF file holds is known only once it is downloaded.", {
    where: formatHubName({ ...name, file: path }),
    got: "only the small files of models are fetched now",
    expected: `the file in the cache, ${(size / 1e6).toFixed(0)} MB`,
    hint: "Run without --dry-run: it is downloaded, and what does not fit is refused before anything is trained.",
  });
}

function shardsOf(name: HubName, snapshot: string, files: RepoListing["files"]): RepoFile[] {
  const shards = new Set(Object.values(readWeightMap(join(snapshot, indexFile))));
  return [...shards].map((path) => {
    const file = files.get(path);
    if (file !== undefined) return file;
    throw new AgentRLError("HUB", "The model's index names a file that the repository lacks.", {
      where: formatHubName(name),
      got: `no ${path}`,
      expected: `all files that ${indexFile} names`,
      hint: "Take another revision of the model.",
    });
  });
}

/**
 * The GGUF file that is meant: the one that is named, or the only one where there are no safetensors.
 * @throws AgentRLError HUB where it is not there, or where nothing can be loaded
 */
function ggufOf(name: HubName, paths: readonly string[]): string | undefined {
  const refuse = (what: string, got: string, expected: string, hint: string) =>
    new AgentRLError("HUB", what, { where: formatHubName(name), got, expected, hint });
  const ggufs = paths.filter((path) => path.endsWith(".gguf"));
  const { file } = name;
  if (file !== undefined) {
    if (ggufs.includes(file)) return file;
    const got = ggufs.join(", ") || "no GGUF file";
    throw refuse(`The repository has no file ${file}.`, got, "one of its GGUF files", "Choose one of them.");
  }
  if (paths.includes(weightsFile) || paths.includes(indexFile)) {
    const missing = ["config.json", "tokenizer.json"].find((path) => !paths.includes(path));
    if (missing === undefined) return undefined;
    throw refuse(
      "The repository is no model that can be loaded.",
      `no ${missing}`,
      missing,
      "Choose another repository.",
    );
  }
  if (ggufs.length === 1) return ggufs[0];
  if (ggufs.length > 1) {
    const hint = `Name one of them, as in ${formatHubName({ ...name, file: ggufs[0]! })}.`;
    throw refuse("The repository holds several GGUF files.", ggufs.join(", "), "the name of one", hint);
  }
  const got = paths.filter((path) => /\.(bin|pt|pth|onnx|h5|msgpack)$/.test(path)).join(", ") || "none";
  throw refuse(
    "The repository holds no weights that can be loaded.",
    got,
    `${weightsFile}, its shards, or a GGUF file`,
    "Choose a repository of the model with safetensors.",
  );
}

/** @throws AgentRLError HUB where not all of it is there; `reason` says why it is not fetched. */
function fromCache(name: HubName, cache: RepoCache, reason: string): FetchedModel {
  const refuse = (what: string, got: string) =>
    new AgentRLError("HUB", what, {
      where: formatHubName(name),
      got: `${got}; ${reason}`,
      expected: "the whole model in the cache, or the Hub",
      hint: "Run once with a network, or set HF_HUB_CACHE to a cache that has the model.",
    });
  const commit = cache.commitOf(name.revision);
  const snapshot = cache.snapshot(commit ?? "");
  if (commit === undefined || !existsSync(snapshot)) {
    throw refuse("The model is not in the cache.", `nothing in ${cache.folder} for revision ${name.revision}`);
  }
  const paths = namesIn(snapshot);
  const gguf = ggufOf(name, paths);
  if (gguf !== undefined) return { path: join(snapshot, gguf), missing: 0 };
  if (!paths.includes(weightsFile)) {
    const missing = Object.values(readWeightMap(join(snapshot, indexFile))).find((shard) => !paths.includes(shard));
    if (missing !== undefined) throw refuse("The model is in the cache in part.", `no ${missing} in ${snapshot}`);
  }
  return { path: snapshot, missing: 0 };
}

/** Paths of a snapshot's files, those left out that are links to nothing. */
function namesIn(snapshot: string): string[] {
  return readdirSync(snapshot, { recursive: true, encoding: "utf8" })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => existsSync(join(snapshot, path)));
}
