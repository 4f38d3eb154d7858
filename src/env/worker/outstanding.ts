/** Work that is under way and has to be done before its process may end: answers that are being sent, notices. */
export class Outstanding {
  readonly #work = new Set<Promise<unknown>>();

  add(work: Promise<unknown>): void {
    const done = work.then(
      () => {},
      () => {},
    );
    this.#work.add(done);
    void done.then(() => this.#work.delete(done));
  }

  /** Resolves when nothing is left, also of what is added meanwhile. */
  async settled(): Promise<void> {
    // What has just ended a session may be about to add its answer.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#work.size > 0) await Promise.all(this.#work);
  }
}
