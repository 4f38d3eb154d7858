import { expect, it, vi } from "vitest";
import { WebGpuDevice } from "../../../src/device/webgpu/webgpu-device.ts";
import { upload } from "../../conformance/support.ts";
import { onEveryAdapter } from "./adapters.ts";

onEveryAdapter("recorder", (open, adapter) => {
  it("keeps the order of a write after recorded commands that use its target", async () => {
    const device = open();
    const [a, sum] = [upload(device, Float32Array.of(1, 2)), device.alloc(2)];
    device.add({ a, b: a, out: sum, length: 2 });
    device.write(a, Float32Array.of(10, 20));
    device.add({ a, b: sum, out: sum, length: 2 });
    expect(Array.from(await device.readF32(sum))).toEqual([12, 24]);
    expect(Array.from(await device.readF32(a))).toEqual([10, 20]);
  });

  it("gives a read the values of when it was asked for, whatever the next turn records", async () => {
    const device = open();
    const x = upload(device, Float32Array.of(1));
    const first = device.readF32(x);
    await Promise.resolve();
    device.add({ a: x, b: x, out: x, length: 1 });
    expect([(await first)[0], (await device.readF32(x))[0]]).toEqual([1, 2]);
  });

  it("submits once for all reads of a turn", async () => {
    const device = open();
    const [x, y] = [upload(device, Float32Array.of(1, 2, 3)), upload(device, Uint32Array.of(7))];
    device.add({ a: x, b: x, out: x, length: 3 });
    const submit = vi.spyOn(device.gpu.device.queue, "submit");
    const [whole, part, other] = await Promise.all([device.readF32(x), device.readF32(x, 1), device.readU32(y)]);
    expect(submit).toHaveBeenCalledTimes(1);
    submit.mockRestore();
    expect([Array.from(whole), Array.from(part), Array.from(other)]).toEqual([[2, 4, 6], [2], [7]]);
  });

  it("copies between buffers and inside one, also where the runs overlap", async () => {
    const device = open();
    const x = upload(
      device,
      Float32Array.from({ length: 200 }, (_, i) => i),
    );
    device.copy(x, device.view(x, 64, 128), 128);
    const expected = Array.from({ length: 200 }, (_, i) => (i >= 64 && i < 192 ? i - 64 : i));
    const other = device.alloc(200);
    device.copy(x, other, 200);
    expect(Array.from(await device.readF32(other))).toEqual(expected);
  });

  it("makes no buffer and no bind group in a step that it has seen twice", async () => {
    const device = open();
    const [x, weight] = [device.alloc(8 * 64), device.alloc(64)];
    const [out, invRms, ids] = [device.alloc(8 * 64), device.alloc(8), device.alloc(8, "u32")];
    const step = async () => {
      device.write(ids, Uint32Array.of(0, 1, 1, 2, 0, 1, 7, 7));
      device.rmsNorm({ x, weight, out, invRms, rows: 8, dim: 64, eps: 1e-6 });
      device.embedBackward({ ids, dOut: out, dTable: x, rows: 8, dim: 64, vocab: 8 });
      device.copy(x, device.view(x, 64, 64), 64);
      await Promise.all([device.readF32(out), device.sumSquares(x, 512), device.sumSquares(out, 512)]);
    };
    await step();
    await step();
    const create = vi.spyOn(device.gpu.device, "createBuffer");
    const group = vi.spyOn(device.gpu.device, "createBindGroup");
    await step();
    expect([create.mock.calls.length, group.mock.calls.length]).toEqual([0, 0]);
    create.mockRestore();
    group.mockRestore();
  });

  it("ends pending reads and later calls with DEVICE_LOST when the device goes away in the middle of work", async () => {
    const device = await WebGpuDevice.open({ adapter });
    const x = device.alloc(1 << 20);
    for (let i = 0; i < 20; i++) device.add({ a: x, b: x, out: x, length: 1 << 20 });
    const read = device.readF32(x);
    await Promise.resolve();
    device.gpu.device.destroy();
    await expect(read).rejects.toMatchObject({ code: "DEVICE_LOST" });
    await device.gpu.device.lost;
    expect(() => device.add({ a: x, b: x, out: x, length: 1 })).toThrow(
      expect.objectContaining({ code: "DEVICE_LOST" }),
    );
    await expect(device.readF32(x)).rejects.toMatchObject({ code: "DEVICE_LOST" });
    device.destroy();
  });

  it("turns a command that WebGPU refuses into an error of the next call", async () => {
    const device = await WebGpuDevice.open({ adapter });
    device.gpu.device.createBuffer({ size: 4, usage: 0 });
    await device.gpu.device.queue.onSubmittedWorkDone();
    await expect(device.gpu.recorder.drain()).rejects.toMatchObject({ code: "DEVICE" });
    device.destroy();
  });
});
