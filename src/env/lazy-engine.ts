/**
 * An environment's engine, started by the first session that needs it and shared by all. A start that fails is its session's
 * fault alone: the next one starts it anew.
 */
export class LazyEngine<E extends { close(): Promise<void> }> {
  readonly #start: () => Promise<E>;
  #engine: Promise<E> | undefined;

  constructor(start: () => Promise<E>) {
    this.#start = start;
  }

  /** Rejects as the start does. */
  get(): Promise<E> {
    if (this.#engine === undefined) {
      const starting = this.#start();
      this.#engine = starting;
      starting.catch(() => {
        if (this.#engine === starting) this.#engine = undefined;
      });
    }
    return this.#engine;
  }

  /** Closes the engine where there is one, or is about to be. */
  async close(): Promise<void> {
    const engine = this.#engine;
    this.#engine = undefined;
    await (await engine?.catch(() => undefined))?.close();
  }
}
