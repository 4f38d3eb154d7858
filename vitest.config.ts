import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

/** What Vulkan's loader needs to find the drivers that scripts/install-vulkan.sh installed. */
function vulkanEnvironment(): Record<string, string> {
  const { XDG_RUNTIME_DIR = tmpdir(), VK_ADD_DRIVER_FILES } = process.env;
  const swiftShader = fileURLToPath(new URL("build/swiftshader/vk_swiftshader_icd.json", import.meta.url));
  const drivers = VK_ADD_DRIVER_FILES ?? (existsSync(swiftShader) ? swiftShader : undefined);
  return drivers === undefined ? { XDG_RUNTIME_DIR } : { XDG_RUNTIME_DIR, VK_ADD_DRIVER_FILES: drivers };
}

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    // Two cores are the reference machine, and several tests start processes of their own.
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    env: vulkanEnvironment(),
  },
});
