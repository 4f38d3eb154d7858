/** The pages of the KV cache that conversations write to, share and give back. */
import { ATTENTION_BLOCK } from "../device/device.ts";
import type { Conversation } from "./conversation.ts";
import { PagePool } from "./page-pool.ts";

export class CachePages {
  readonly #pool: PagePool;
  readonly #copyPage: (from: number, to: number) => void;

  constructor(size: number, copyPage: (from: number, to: number) => void) {
    this.#pool = new PagePool(size);
    this.#copyPage = copyPage;
  }

  /** Gives `to`, which has none, the keys and values of the first `computed` tokens of `from`. */
  share(from: Conversation, to: Conversation, computed: number): void {
    for (const page of from.pages.slice(0, Math.ceil(computed / ATTENTION_BLOCK))) {
      this.#pool.share(page);
      to.pages.push(page);
    }
    to.computed = computed;
    to.oldestVersion = computed === 0 ? -1 : from.oldestVersion;
  }

  /** Pages for `rows` more tokens; a shared page that will be written becomes the conversation's own first. */
  makeRoom({ pages, computed }: Conversation, rows: number): void {
    if (rows === 0) return;
    const firstPage = Math.floor(computed / ATTENTION_BLOCK);
    const lastPage = Math.floor((computed + rows - 1) / ATTENTION_BLOCK);
    if (firstPage < pages.length && this.#pool.isShared(pages[firstPage]!)) {
      const own = this.#pool.take();
      if (computed % ATTENTION_BLOCK !== 0) this.#copyPage(pages[firstPage]!, own);
      this.#pool.release(pages[firstPage]!);
      pages[firstPage] = own;
    }
    while (pages.length <= lastPage) pages.push(this.#pool.take());
  }

  /** Nothing of the conversation is in the cache any more. */
  giveBack(conversation: Conversation): void {
    for (const page of conversation.pages) this.#pool.release(page);
    conversation.pages.length = 0;
    conversation.computed = 0;
    conversation.oldestVersion = -1;
  }
}
