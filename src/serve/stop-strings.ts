/** Looks for stop strings in a text that comes in pieces. What may be the beginning of one is held back until it is clear. */
import { heldMark } from "../text/formats/format.ts";

export class StopStrings {
  readonly #stops: readonly string[];
  #held = "";
  #found = false;

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** A stop string was found: nothing more comes. */
  get found(): boolean {
    return this.#found;
  }

  /** The text up to the earliest stop string, as far as it is certain. */
  push(piece: string): string {
    if (this.#stops.length === 0) return piece;
    if (this.#found) return "";
    const text = this.#held + piece;
    const places = this.#stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0);
    if (places.length > 0) {
      this.#found = true;
      this.#held = "";
      return text.slice(0, Math.min(...places));
    }
    const safe = text.length - heldMark(text, ...this.#stops);
    this.#held = text.slice(safe);
    return text.slice(0, safe);
  }

  /** No more text comes: what was held back was no stop string. */
  end(): string {
    const held = this.#held;
    this.#held = "";
    return held;
  }
}
