/** One file of a model into the cache: resumed where it broke off, and under its name only when size and hash are right. */
import { createHash, type Hash } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, renameSync, rmSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { AgentRLError } from "../../errors.ts";
import { writeFully } from "../durable.ts";
import { readFully } from "../read-fully.ts";
import type { RepoCache } from "./cache.ts";
import { type HubClient, type RepoFile, Unreachable } from "./client.ts";

export interface DownloadOptions {
  /** Called with bytes as they come, first with those that were there `earlier`; negative when they must be thrown away. */
  onBytes?: (bytes: number, earlier: boolean) => void;
  /** Pauses before the tries after a connection that brought nothing, in milliseconds. */
  pauses?: readonly number[];
}

const defaultPauses = [1000, 2000, 4000, 8000];
const pieceBytes = 1 << 22;

/** @throws AgentRLError HUB: the connection broke off for good, or the content is not what the Hub lists */
export async function downloadBlob(
  client: HubClient,
  cache: RepoCache,
  commit: string,
  file: RepoFile,
  options: DownloadOptions = {},
): Promise<void> {
  const own = cache.claimPartial(file.etag);
  // Created where it is not there, and written at its end.
  const descriptor = openSync(own, "a+");
  try {
    await fill(client, commit, file, descriptor, options);
    fsyncSync(descriptor);
    renameSync(own, cache.blob(file.etag));
  } catch (error) {
    if (error instanceof WrongContent) rmSync(own, { force: true });
    else cache.releasePartial(own);
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

class WrongContent extends AgentRLError {}

async function fill(
  client: HubClient,
  commit: string,
  file: RepoFile,
  descriptor: number,
  { onBytes, pauses = defaultPauses }: DownloadOptions,
): Promise<void> {
  let { size: done } = fstatSync(descriptor);
  let resumed = done > 0;
  let hash = hashOf(file);
  const startOver = () => {
    ftruncateSync(descriptor);
    onBytes?.(-done, resumed);
    done = 0;
    resumed = false;
    hash = hashOf(file);
  };
  onBytes?.(done, true);
  if (done > file.size) startOver();
  else addFrom(descriptor, hash, done);

  let failures = 0;
  for (;;) {
    const before = done;
    try {
      for await (const piece of client.read(commit, file, done)) {
        writeFully(descriptor, piece);
        hash.update(piece);
        done += piece.length;
        onBytes?.(piece.length, false);
        if (done > file.size) break;
      }
      if (done < file.size) throw new Unreachable(`the connection ended after ${done} of ${file.size} bytes`);
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      // A connection that brings something is worth another one, however often it breaks.
      failures = done > before ? 0 : failures + 1;
      if (failures > pauses.length) throw brokenOff(file, done, error);
      await delay(pauses[Math.max(0, failures - 1)]);
      continue;
    }
    const got = done > file.size ? "more bytes" : hash.digest("hex");
    if (got === file.etag) return;
    // What was there before may have been wrong.
    if (!resumed) throw wrongContent(file, got);
    startOver();
  }
}

/** The file's name in the cache is its hash: of LFS the content's, of git that of "blob SIZE", a zero byte and the content. */
function hashOf({ algorithm, size }: RepoFile): Hash {
  return algorithm === "sha256" ? createHash("sha256") : createHash("sha1").update(`blob ${size}\0`);
}

function addFrom(descriptor: number, hash: Hash, bytes: number): void {
  const piece = new Uint8Array(Math.min(bytes, pieceBytes));
  for (let at = 0; at < bytes; ) {
    const got = readFully(descriptor, piece.subarray(0, Math.min(piece.length, bytes - at)), at);
    hash.update(piece.subarray(0, got));
    at += got;
  }
}

function brokenOff({ path, size }: RepoFile, done: number, cause: Error): AgentRLError {
  return new AgentRLError("HUB", "The download broke off.", {
    where: path,
    got: `${done} of ${size} bytes; ${cause.message}`,
    expected: "the whole file",
    hint: "Try again: it goes on where it stopped.",
    cause,
  });
}

function wrongContent({ path, etag, algorithm }: RepoFile, got: string): WrongContent {
  return new WrongContent("HUB", "The Hub sent something else than the file that it lists.", {
    where: path,
    got: `${algorithm} ${got}`,
    expected: `${algorithm} ${etag}`,
    hint: "Try again. If it happens again, something between here and the Hub changes what it sends: a proxy, a mirror.",
  });
}
