/** Handles whose thread, process or last reference ends while they hold records and waits. */
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { expect, it } from "vitest";
import { addonPath } from "../../src/device/addon.ts";
import { Ring } from "../../src/shm/ring.ts";
import { bytesOf, freshName } from "./support.ts";

it("a worker thread that is terminated gives back its records, in the midst of its waits", async () => {
  const ring = Ring.create({ name: freshName(), capacityBytes: 1 << 16 });
  await ring.push(bytesOf("kept"));
  // Straight on the addon: a worker cannot load TypeScript.
  const source = `
    const { shm } = require(${JSON.stringify(addonPath)});
    const ring = shm.ringOpen(${JSON.stringify(ring.name)});
    shm.ringTryTake(ring, new Float64Array(5));
    shm.ringWaitData(ring, 60000);
    shm.ringWaitSpace(ring, 60000, 60000);
    require("node:worker_threads").parentPort.postMessage("waiting");
  `;
  for (let round = 1; round <= 10; round++) {
    const worker = new Worker(source, { eval: true });
    await once(worker, "message");
    expect(ring.tryPop()).toBeUndefined();
    // Wakes one of its waits while it is being terminated.
    if (round % 2 === 0) ring.tryPush(bytesOf("other"));
    await worker.terminate();
    const record = (await ring.pop())!;
    expect(record.deliveries).toBe(2);
    for (let left = ring.tryPop(); left !== undefined; left = ring.tryPop()) left!.ack();
    record.ack();
    await ring.push(bytesOf("kept"));
  }
  ring.detach();
  ring.unlink();
});
