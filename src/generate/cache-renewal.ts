/**
 * Keys and values of one version only: when the weights have changed, the cache of a conversation that goes on is given
 * back, and its whole context is fed again under the new weights before anything more is sampled from it. What forks have
 * in common with the conversation that they were made from is computed once, by that one, and shared again.
 *
 * The weights may change again before that is done: it begins anew. That it comes to its end is the pacing's doing, which
 * lets generation fall behind by a bounded number of versions.
 */
import type { CachePages } from "./cache-pages.ts";
import type { Conversation } from "./conversation.ts";

export class CacheRenewal {
  readonly #pages: CachePages;
  readonly #prefill: (conversation: Conversation) => void;

  /** @param prefill has a conversation that may be at rest computed up to its last token. */
  constructor(pages: CachePages, prefill: (conversation: Conversation) => void) {
    this.#pages = pages;
    this.#prefill = prefill;
  }

  /** Call before a step under `version` that goes on with the conversation. */
  renew(conversation: Conversation, version: number): void {
    const { oldestVersion, origin } = conversation;
    if (oldestVersion >= 0 && oldestVersion !== version) {
      this.#pages.giveBack(conversation);
      conversation.awaitsOrigin = origin !== null;
    }
    if (!conversation.awaitsOrigin || origin === null) return;
    if (origin.from.closed) {
      conversation.origin = null;
      conversation.awaitsOrigin = false;
    } else if (!isComputed(origin, version)) {
      this.#prefill(origin.from);
    }
  }

  /** After `renew`: whether its next rows can be fed in this step; false while what it shares is being computed. */
  ready(conversation: Conversation, version: number): boolean {
    const { origin } = conversation;
    if (!conversation.awaitsOrigin || origin === null) return true;
    if (!isComputed(origin, version)) return false;
    this.#pages.share(origin.from, conversation, origin.length - 1);
    conversation.awaitsOrigin = false;
    return true;
  }
}

/** The last common token is each fork's own to feed: what comes after it is sampled from its row. */
function isComputed({ from, length }: NonNullable<Conversation["origin"]>, version: number): boolean {
  return from.oldestVersion === version && from.computed >= length - 1;
}
