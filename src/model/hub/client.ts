/**
 * The Hub's API by `@huggingface/hub`, with this user's settings: the variables and files that Python's huggingface_hub reads.
 * What goes wrong comes as an error that tells an answer from the lack of one.
 */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { AgentRLError } from "../../errors.ts";
import { formatHubName, type HubName } from "./name.ts";

export interface RepoFile {
  path: string;
  /** Bytes. */
  size: number;
  /** Name of its content in the cache: SHA-256 where it is stored in LFS or Xet, else git's SHA-1 of the blob. */
  etag: string;
  algorithm: "sha256" | "git-sha1";
}

export interface RepoListing {
  commit: string;
  /** By path. */
  files: ReadonlyMap<string, RepoFile>;
}

/** The Hub did not answer: no network, a server in trouble. */
export class Unreachable extends Error {}

/** The Hub's answer was no. */
class Refused extends Error {
  readonly status: number;
  /** The Hub's own word for it, as GatedRepo. */
  readonly code: string;

  constructor(url: string, status: number, code: string) {
    super(`${status}${code === "" ? "" : ` ${code}`} from ${url}`);
    this.status = status;
    this.code = code;
  }
}

export function hubCacheFolder(): string {
  const { HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE } = process.env;
  return HF_HUB_CACHE || HUGGINGFACE_HUB_CACHE || join(hubHome(), "hub");
}

export function isOffline(): boolean {
  return /^(1|on|yes|true)$/i.test(process.env.HF_HUB_OFFLINE ?? "");
}

export function hubEndpoint(): string {
  return (process.env.HF_ENDPOINT || "https://huggingface.co").replace(/\/+$/, "");
}

function hubHome(): string {
  const { HF_HOME, XDG_CACHE_HOME } = process.env;
  return HF_HOME || join(XDG_CACHE_HOME || join(homedir(), ".cache"), "huggingface");
}

function accessToken(): string | undefined {
  const { HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH } = process.env;
  const file = HF_TOKEN_PATH || join(hubHome(), "token");
  const token = HF_TOKEN || HUGGING_FACE_HUB_TOKEN || (existsSync(file) ? readFileSync(file, "utf8") : "");
  return token.trim() || undefined;
}

export class HubClient {
  readonly #hubUrl = hubEndpoint();
  readonly #token = accessToken();
  readonly #name: HubName;

  constructor(name: HubName) {
    this.#name = name;
  }

  /** Commit and files at the name's revision. @throws AgentRLError HUB, Unreachable */
  async list(): Promise<RepoListing> {
    const { modelInfo, listFiles } = await import("@huggingface/hub");
    const { repo, revision } = this.#name;
    const common = { hubUrl: this.#hubUrl, fetch: this.#fetch };
    return this.#explained(async () => {
      const { sha: commit } = await modelInfo({ name: repo, revision, additionalFields: ["sha"], ...common });
      if (!/^[0-9a-f]{40}$/.test(commit)) throw new Unreachable(`commit ${commit} in the Hub's answer`);
      const files = new Map<string, RepoFile>();
      for await (const entry of listFiles({ repo, revision: commit, recursive: true, ...common })) {
        const { type, path, size, oid, lfs } = entry;
        if (type !== "file") continue;
        const etag = lfs?.oid ?? oid ?? "";
        const algorithm = lfs === undefined ? "git-sha1" : "sha256";
        // Both become names of files here.
        if (!/^[0-9a-f]+$/.test(etag) || path.split("/").includes("..")) continue;
        files.set(path, { path, size: lfs?.size ?? size, etag, algorithm });
      }
      return { commit, files };
    });
  }

  /** The file's bytes from `start` on. @throws AgentRLError HUB; Unreachable where the connection fails or breaks off. */
  async *read(commit: string, { path, size }: RepoFile, start: number): AsyncGenerator<Uint8Array> {
    const { downloadFile } = await import("@huggingface/hub");
    const { repo } = this.#name;
    const blob = await this.#explained(() =>
      // Xet's own protocol would be a second way for the same bytes; the Hub serves every file by plain HTTP as well.
      downloadFile({ repo, path, revision: commit, hubUrl: this.#hubUrl, fetch: this.#fetch, xet: false }),
    );
    if (blob === null || blob.size !== size) {
      throw new AgentRLError("HUB", "The Hub serves a file of another size than it lists.", {
        where: `${formatHubName(this.#name)}: ${path}`,
        got: blob === null ? "no file" : `${blob.size} bytes`,
        expected: `${size} bytes`,
        hint: "Try again; the model may be changing at this moment.",
      });
    }
    if (start === size) return;
    const stream = (start === 0 ? blob : blob.slice(start)).stream();
    try {
      for await (const piece of stream) yield piece;
    } catch (error) {
      // The library aborts its stream with the message alone.
      if (error instanceof AgentRLError) throw error;
      throw new Unreachable(error instanceof Error ? reasonOf(error) : String(error), { cause: error });
    }
  }

  readonly #fetch: typeof fetch = async (input, init) => {
    const url = String(input instanceof Request ? input.url : input);
    const headers = new Headers(init?.headers);
    // A redirect to another host loses the header again.
    if (this.#token !== undefined && new URL(url).origin === new URL(this.#hubUrl).origin) {
      headers.set("authorization", `Bearer ${this.#token}`);
    }
    const response = await fetch(url, { ...init, headers }).catch((cause: Error) => {
      throw new Unreachable(reasonOf(cause), { cause });
    });
    if (!response.ok) {
      const { status } = response;
      await response.body?.cancel();
      if (status >= 500 || status === 429) throw new Unreachable(`${status} from ${url}`);
      throw new Refused(url, status, response.headers.get("x-error-code") ?? "");
    }
    const start = Number(/^bytes=(\d+)/.exec(headers.get("range") ?? "")?.[1] ?? 0);
    if (start > 0 && response.status !== 206) {
      await response.body?.cancel();
      throw new Unreachable(`${url} does not go on in the middle of a file`);
    }
    return response;
  };

  async #explained<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (error instanceof Refused) throw this.#refusal(error);
      if (error instanceof Unreachable || error instanceof AgentRLError) throw error;
      throw new Unreachable(reasonOf(error as Error), { cause: error });
    }
  }

  #refusal({ status, code, message }: Refused): AgentRLError {
    const { repo, revision } = this.#name;
    const page = `${this.#hubUrl}/${repo}`;
    const explain = (what: string, expected: string, hint: string) =>
      new AgentRLError("HUB", what, { where: formatHubName(this.#name), got: message, expected, hint });
    if (code === "RevisionNotFound") {
      return explain(
        `The model has no revision "${revision}".`,
        "a branch, a tag or a commit",
        `See ${page}/tree/main.`,
      );
    }
    if (code === "GatedRepo" || status === 403) {
      const hint = `Ask for access on ${page}, then set HF_TOKEN to a token of that account.`;
      return explain("Access to the model must be asked for.", "a token of an account that has it", hint);
    }
    // The Hub does not tell those without access which private models there are.
    if (status === 401 || status === 404) {
      const hint = "Check the name, or the path if a folder was meant; for a private model set HF_TOKEN.";
      return explain("There is no such model on the Hugging Face Hub, or it is private.", "a model of this name", hint);
    }
    return explain("The Hub refuses the request.", "its files", "See the status above.");
  }
}

/** What undici hides behind "fetch failed". */
function reasonOf(error: Error): string {
  const { cause } = error;
  return cause instanceof Error ? cause.message || String((cause as NodeJS.ErrnoException).code) : error.message;
}
