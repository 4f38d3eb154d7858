/**
 * A server on the loopback that speaks the part of the Hub's API that downloads use: model info, tree, files with ranges,
 * large ones behind a redirect to another host, as on the Hub. It can be told to fail in the ways that real ones do.
 */
import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** How an answer is spoiled. */
export interface HubFault {
  /** The connection is destroyed after so many bytes. */
  dropAfter?: number;
  /** Other content of the same size. */
  wrong?: boolean;
  /** So many bytes, as if they were all. */
  short?: number;
}

export class HubServer {
  readonly files = new Map<string, Buffer>();
  /** By path, one an answer; the last one stays. */
  readonly faults = new Map<string, HubFault[]>();
  /** By path: bytes that the tree adds to the size. */
  readonly oversized = new Map<string, number>();
  /** Who may not have it: the Hub's word and status. */
  refusal: { status: number; code: string } | undefined;
  /** What was asked, as "GET /path" with the range where there was one. */
  readonly requests: string[] = [];
  /** `authorization` of the requests by host. */
  readonly tokens = new Set<string>();
  commit = "c".repeat(40);
  readonly #server: Server;
  readonly #repo: string;

  constructor(repo: string) {
    this.#repo = repo;
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Paths of files whose content was asked for. */
  fetched(): string[] {
    const paths = this.requests.flatMap(
      (line) => / \/cdn\/(\S+)$| \/\S+\/resolve\/[0-9a-f]+\/(\S+)$/.exec(line)?.slice(1) ?? [],
    );
    return [...new Set(paths.filter((path) => path !== undefined))];
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { pathname } = new URL(request.url!, this.url);
    const { range, host, authorization } = request.headers;
    // Every download begins with a question for one byte.
    const probe = range === "bytes=0-0";
    if (!probe) this.requests.push(`GET ${range === undefined ? "" : `[${range}] `}${pathname}`);
    if (authorization !== undefined) this.tokens.add(`${host!.split(":")[0]}: ${authorization}`);
    const api = `/api/models/${this.#repo}`;
    const refuse = (status: number, code: string) => {
      response.writeHead(status, { "x-error-code": code, "content-type": "application/json" });
      response.end(JSON.stringify({ error: code }));
    };
    if (this.refusal !== undefined && !pathname.startsWith("/cdn/")) refuse(this.refusal.status, this.refusal.code);
    else if (pathname.startsWith("/cdn/")) this.#send(pathname.slice(5), request, response, probe);
    else if (pathname === `${api}/revision/main` || pathname === `${api}/revision/${this.commit}`) {
      response.setHeader("content-type", "application/json");
      response.end(
        JSON.stringify({ _id: "1", id: this.#repo, sha: this.commit, private: false, lastModified: new Date(0) }),
      );
    } else if (pathname.startsWith(`${api}/revision/`)) refuse(404, "RevisionNotFound");
    else if (pathname === `${api}/tree/${this.commit}`) {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify([...this.files].map(([path, content]) => this.#entry(path, content))));
    } else if (pathname.startsWith(`/${this.#repo}/resolve/${this.commit}/`)) {
      const path = pathname.slice(`/${this.#repo}/resolve/${this.commit}/`.length);
      const content = this.files.get(path);
      if (content === undefined) refuse(404, "EntryNotFound");
      else if (!isLarge(path)) this.#send(path, request, response, probe);
      else {
        // Another host, as far as HTTP is concerned.
        const location = `${this.url.replace("127.0.0.1", "localhost")}/cdn/${path}`;
        response.writeHead(302, {
          location,
          "x-repo-commit": this.commit,
          "x-linked-size": content.length,
          ...etagOf(path, content),
        });
        response.end();
      }
    } else refuse(404, "RepoNotFound");
  }

  #send(path: string, request: IncomingMessage, response: ServerResponse, probe: boolean): void {
    let content = this.files.get(path)!;
    const faults = probe ? [] : (this.faults.get(path) ?? []);
    const { dropAfter, wrong, short } = (faults.length > 1 ? faults.shift() : faults[0]) ?? {};
    if (wrong) content = Buffer.from(content.map((byte) => byte ^ 1));
    const size = content.length;
    const [, from = "0", to = String(size - 1)] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
    const part = content.subarray(Number(from), Number(to) + 1);
    const sent = short === undefined ? part : part.subarray(0, short);
    const ranged = request.headers.range !== undefined;
    response.writeHead(ranged ? 206 : 200, {
      "accept-ranges": "bytes",
      "content-length": sent.length,
      ...(ranged && { "content-range": `bytes ${from}-${to}/${size}` }),
      "x-repo-commit": this.commit,
      ...etagOf(path, this.files.get(path)!),
    });
    if (dropAfter === undefined || part.length <= dropAfter) response.end(sent);
    else if (dropAfter === 0) response.destroy();
    else response.write(part.subarray(0, dropAfter), () => response.destroy());
  }

  #entry(path: string, content: Buffer) {
    const size = content.length + (this.oversized.get(path) ?? 0);
    const plain = { type: "file", path, size };
    if (!isLarge(path)) return { ...plain, oid: gitOid(content) };
    const oid = sha256(content);
    const pointer = Buffer.from(`version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${size}\n`);
    return { ...plain, oid: gitOid(pointer), lfs: { oid, size, pointerSize: pointer.length } };
  }
}

function isLarge(path: string): boolean {
  return /\.(safetensors|gguf|bin)$/.test(path);
}

function etagOf(path: string, content: Buffer): Record<string, string> {
  return isLarge(path) ? { "x-linked-etag": `"${sha256(content)}"` } : { etag: `"${gitOid(content)}"` };
}

export function sha256(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

export function gitOid(content: Buffer): string {
  return createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
}
