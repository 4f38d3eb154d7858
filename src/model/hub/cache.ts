/**
 * A model's part of the cache that all Hugging Face tools share: contents once in blobs/, under their hash, and for each
 * commit in snapshots/ its files as links to them; refs/ holds the commit that a branch or tag stood at
 * (https://huggingface.co/docs/huggingface_hub/guides/manage-cache). A blob has its name only when it is whole.
 */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { writeDurably, writeFully } from "../durable.ts";

const partial = ".agentrl-incomplete";

export class RepoCache {
  /** models--org--name */
  readonly folder: string;

  constructor(root: string, repo: string) {
    this.folder = join(root, `models--${repo.replaceAll("/", "--")}`);
  }

  /** Where the revision stood when it was fetched last. */
  commitOf(revision: string): string | undefined {
    if (/^[0-9a-f]{40}$/.test(revision)) return revision;
    const file = join(this.folder, "refs", revision);
    return existsSync(file) ? readFileSync(file, "utf8").trim() : undefined;
  }

  writeRef(revision: string, commit: string): void {
    if (revision === commit || this.commitOf(revision) === commit) return;
    const file = join(this.folder, "refs", revision);
    mkdirSync(dirname(file), { recursive: true });
    writeDurably(file, (descriptor) => writeFully(descriptor, Buffer.from(commit)));
  }

  snapshot(commit: string): string {
    return join(this.folder, "snapshots", commit);
  }

  blob(etag: string): string {
    return join(this.folder, "blobs", etag);
  }

  /** Whether the snapshot has the file, with this size: what another program left half-written does not count. */
  has(commit: string, path: string, size: number): boolean {
    return sizeOf(join(this.snapshot(commit), path)) === size;
  }

  hasBlob(etag: string, size: number): boolean {
    return sizeOf(this.blob(etag)) === size;
  }

  /** Lets the snapshot's file be the blob. */
  link(commit: string, path: string, etag: string): void {
    const file = join(this.snapshot(commit), path);
    const blob = this.blob(etag);
    mkdirSync(dirname(file), { recursive: true });
    const temporary = `${file}.${process.pid}.tmp`;
    rmSync(temporary, { force: true });
    try {
      symlinkSync(relative(dirname(file), blob), temporary);
    } catch (error) {
      // Windows allows links to few: there the snapshot has a copy.
      if ((error as NodeJS.ErrnoException).code !== "EPERM") throw error;
      copyFileSync(blob, temporary);
    }
    renameSync(temporary, file);
  }

  /**
   * A file of this process's own to write the blob to: what an earlier process left of it, or an empty one.
   * What has another owner that is alive is left alone.
   */
  claimPartial(etag: string): string {
    const blob = this.blob(etag);
    const own = `${blob}${partial}.${process.pid}`;
    mkdirSync(dirname(blob), { recursive: true });
    const left = readdirSync(dirname(blob)).find((name) => {
      if (!name.startsWith(`${basename(blob)}${partial}`)) return false;
      const owner = Number(name.slice(name.lastIndexOf(".") + 1));
      return Number.isNaN(owner) || !isAlive(owner);
    });
    try {
      if (left !== undefined) renameSync(join(dirname(blob), left), own);
    } catch (error) {
      // Another process was quicker.
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    return own;
  }

  /** Leaves what there is for whoever tries again. */
  releasePartial(own: string): void {
    if (existsSync(own)) renameSync(own, own.slice(0, own.lastIndexOf(".")));
  }
}

function sizeOf(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.size;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
