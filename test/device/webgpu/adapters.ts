/**
 * The adapters that WebGPU tests run on, and the tests' registration on each of them. Where there is no adapter, the
 * tests are skipped and say why; with AGENTRL_REQUIRE_WEBGPU set they fail instead:
 *
 *     AGENTRL_REQUIRE_WEBGPU=1                       at least one adapter must be there
 *     AGENTRL_REQUIRE_WEBGPU=llvmpipe,SwiftShader    each of these must be there
 */
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { adapterNames } from "../../../src/device/webgpu/adapter.ts";
import { WebGpuDevice } from "../../../src/device/webgpu/webgpu-device.ts";

/** Short names of the software drivers that CI installs (scripts/install-vulkan.sh). */
const softwareNames = ["llvmpipe", "SwiftShader"];

let found: Promise<string[]> | undefined;

/** Names to pass as `adapter`, one for each that this process sees; empty where there is none. */
export function webgpuAdapters(): Promise<string[]> {
  found ??= listAdapters();
  return found;
}

const adapters = await webgpuAdapters();

/**
 * Registers the tests once for each adapter. One device serves them all: it is opened before the first, drained after
 * each, so that an error of the device fails the test that caused it, and destroyed after the last.
 */
export function onEveryAdapter(suite: string, tests: (device: () => WebGpuDevice, adapter: string) => void): void {
  const missing = missingAdapters(process.env.AGENTRL_REQUIRE_WEBGPU ?? "");
  if (missing !== undefined) {
    describe(suite, () => {
      it("has the WebGPU adapters that AGENTRL_REQUIRE_WEBGPU asks for", () => {
        expect.fail(`${missing}; found: ${adapters.join(", ") || "none"}`);
      });
    });
  } else if (adapters.length === 0) {
    const reason = "no WebGPU adapter here (scripts/install-vulkan.sh installs software drivers)";
    console.info(`${suite}: skipped, ${reason}`);
    describe(suite, () => it.skip(`skipped: ${reason}`));
  }
  for (const adapter of adapters) {
    describe(`${suite} on ${adapter}`, () => {
      let device: WebGpuDevice;
      beforeAll(async () => {
        device = await WebGpuDevice.open({ adapter });
      });
      afterEach(() => device.gpu.recorder.drain());
      afterAll(() => device.destroy());
      tests(() => device, adapter);
    });
  }
}

/** What is missing of the adapters that are required, in words. */
function missingAdapters(required: string): string | undefined {
  if (required === "" || required === "0") return undefined;
  if (required === "1") return adapters.length === 0 ? "no WebGPU adapter was found" : undefined;
  const missing = required.split(",").filter((name) => !adapters.includes(name.trim()));
  return missing.length > 0 ? `WebGPU adapters are missing: ${missing.join(", ")}` : undefined;
}

async function listAdapters(): Promise<string[]> {
  const names = await adapterNames().catch(() => []);
  return [...new Set(names.map((name) => softwareNames.find((known) => name.startsWith(known)) ?? name))];
}

/** What a test of f16 tensors asserts of a device whose adapter has none. */
export function expectNoHalf(device: WebGpuDevice): void {
  expect(() => device.alloc(8, "f16", "cache")).toThrow(/no f16 tensors.*alloc of cache.*shader-f16/s);
}
