/**
 * Which pages of the KV cache are in use, and by how many conversations. A page holds ATTENTION_BLOCK positions; the
 * samples of one group share the pages of their prompt, so pages are counted, and a shared page is copied before it
 * is written.
 */
import { AgentRLError } from "../errors.ts";

export class PagePool {
  readonly size: number;
  #free: number[] = [];
  #uses: Uint32Array;

  constructor(size: number) {
    this.size = size;
    this.#uses = new Uint32Array(size);
    for (let page = size - 1; page >= 0; page--) this.#free.push(page);
  }

  /** A page used by one. Throws when none is free: admission must prevent that. */
  take(): number {
    const page = this.#free.pop();
    if (page === undefined) {
      throw new AgentRLError("PIPELINE", "The KV cache has no free page", {
        where: "generation engine",
        got: `${this.size} pages, all in use`,
        expected: "admission that keeps open conversations within the cache",
        hint: "lower rollout.maxSequences or rollout.contextLimit",
      });
    }
    this.#uses[page] = 1;
    return page;
  }

  share(page: number): void {
    this.#uses[page]! += 1;
  }

  isShared(page: number): boolean {
    return this.#uses[page]! > 1;
  }

  release(page: number): void {
    const left = this.#uses[page]! - 1;
    if (left < 0) throw new AgentRLError("PIPELINE", "A KV page was released twice", { where: `page ${page}` });
    this.#uses[page] = left;
    if (left === 0) this.#free.push(page);
  }
}
