import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { addon } from "../../src/device/addon.ts";
import { NativeDevice, type NativeTensor } from "../../src/device/native.ts";
import { AgentRLError } from "../../src/errors.ts";

describe("memory of the native device", () => {
  it("is zero-filled, on a cache line, and of the type that was asked for", async () => {
    const device = new NativeDevice({ threads: 1 });
    for (const length of [1, 15, 1000, 100_000]) {
      const tensor = device.alloc(length, "f32", "x");
      expect(addon.alignOffset(tensor.data.buffer as ArrayBuffer)).toBe(tensor.data.byteOffset);
      expect((await device.readF32(tensor)).every((x) => x === 0)).toBe(true);
      expect([tensor.dtype, tensor.length, tensor.label]).toEqual(["f32", length, "x"]);
    }
    expect(device.alloc(3, "u32").dtype).toBe("u32");
    device.destroy();
  });

  it("is written, read, filled, viewed and copied", async () => {
    const device = new NativeDevice({ threads: 1 });
    const tensor = device.alloc(8);
    device.fill(tensor, 2);
    device.write(tensor, Float32Array.of(5, 6), 3);
    const view = device.view(tensor, 2, 4);
    expect(Array.from(await device.readF32(view))).toEqual([2, 5, 6, 2]);
    device.fill(device.view(view, 3, 1), 9);
    expect(Array.from(await device.readF32(tensor))).toEqual([2, 2, 2, 5, 6, 9, 2, 2]);
    const other = device.alloc(8);
    device.copy(tensor, other, 5);
    expect(Array.from(await device.readF32(other))).toEqual([2, 2, 2, 5, 6, 0, 0, 0]);
    expect(Array.from(await device.readF32(tensor, 2))).toEqual([2, 2]);
    // What was read is a copy.
    (await device.readF32(tensor))[0] = 100;
    expect((await device.readF32(tensor))[0]).toBe(2);
    device.destroy();
  });

  it("is refused outside its bounds and for the wrong type", () => {
    const device = new NativeDevice({ threads: 1 });
    const tensor = device.alloc(4, "f32", "weights");
    expect(() => device.view(tensor, 2, 3)).toThrow(AgentRLError);
    expect(() => device.write(tensor, new Float32Array(3), 2)).toThrow(/write to weights[\s\S]*3 elements/);
    expect(() => device.write(tensor, new Uint32Array(1))).toThrow(/Uint32Array/);
    device.destroy();
  });

  it("is gone after free, and using it is an error that says so", () => {
    const device = new NativeDevice({ threads: 1 });
    const tensor = device.alloc(4);
    const view = device.view(tensor, 1, 2);
    device.free(tensor);
    expect([tensor.length, view.length]).toEqual([0, 0]);
    expect(() => device.add({ a: view, b: view, out: view, length: 2 })).toThrow(/got: +0 elements/);
    // Twice, or through a view: nothing happens.
    device.free(view);
    device.destroy();
  });

  it("may be memory of others, which free leaves alone", () => {
    const device = new NativeDevice({ threads: 1 });
    const shared = new Float32Array(new SharedArrayBuffer(16));
    const tensor: NativeTensor = NativeDevice.wrap(shared);
    device.add({ a: tensor, b: tensor, out: tensor, length: 4 });
    device.fill(tensor, 3);
    device.add({ a: tensor, b: tensor, out: tensor, length: 4 });
    expect(Array.from(shared)).toEqual([6, 6, 6, 6]);
    device.free(tensor);
    expect(tensor.length).toBe(4);
    device.destroy();
  });
});

describe("settings of the native device", () => {
  it("says what it runs on", () => {
    expect(new NativeDevice({ threads: 2 }).name).toBe(`native (${addon.simd()}, 2 threads)`);
    expect(new NativeDevice({ threads: 1 }).name).toMatch(/, 1 thread\)$/);
    for (const threads of [0, 1.5, 1000]) expect(() => new NativeDevice({ threads })).toThrow(/1 to 256/);
  });

  it("takes the instruction set that AGENTRL_SIMD names, and no other name", () => {
    const program = `import { addon } from "./src/device/addon.ts"; process.stdout.write(addon.simd());`;
    const simdUnder = (AGENTRL_SIMD: string) =>
      spawnSync(process.execPath, ["--import", "tsx", "--input-type=module", "-e", program], {
        env: { ...process.env, AGENTRL_SIMD },
        encoding: "utf8",
      });
    for (const simd of addon.simdLevels()) expect(simdUnder(simd).stdout).toBe(simd);
    expect(simdUnder("mmx").stderr).toMatch(/AGENTRL_SIMD names an instruction set[\s\S]*got: +mmx[\s\S]*plain/);
  });
});
