/** Timestamps of the beginning and the end of a compute pass. */
export class PassClock {
  /** For beginComputePass. */
  readonly pass: GPUComputePassDescriptor;
  readonly #queries: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  readonly #staging: GPUBuffer;

  constructor(device: GPUDevice) {
    this.#queries = device.createQuerySet({ label: "pass clock", type: "timestamp", count: 2 });
    const resolve = GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC;
    this.#resolved = device.createBuffer({ label: "pass clock", size: 16, usage: resolve });
    const read = GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ;
    this.#staging = device.createBuffer({ label: "pass clock, read back", size: 16, usage: read });
    this.pass = {
      label: "timed",
      timestampWrites: { querySet: this.#queries, beginningOfPassWriteIndex: 0, endOfPassWriteIndex: 1 },
    };
  }

  /** Records the copy of the last timed pass's stamps. */
  resolve(encoder: GPUCommandEncoder): void {
    encoder.resolveQuerySet(this.#queries, 0, 2, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, this.#staging, 0, 16);
  }

  /** Nanoseconds between the stamps, once what `resolve` was recorded with has run. */
  async read(): Promise<number> {
    await this.#staging.mapAsync(GPUMapMode.READ);
    const [begin, end] = new BigUint64Array(this.#staging.getMappedRange());
    const nanoseconds = Number(end! - begin!);
    this.#staging.unmap();
    return nanoseconds;
  }

  destroy(): void {
    this.#queries.destroy();
    this.#resolved.destroy();
    this.#staging.destroy();
  }
}
