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

/** Tests that compute and leave nothing behind in their process: their files need none of their own, which takes 0.4 s. */
const pure = ["config", "experiment", "generate", "model", "observe", "rl", "text"].map(
  (folder) => `test/${folder}/**/*.test.ts`,
);

export default defineConfig({
  test: {
    pool: "forks",
    // Two cores are the reference machine, and several tests start processes of their own.
    maxWorkers: 2,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    env: vulkanEnvironment(),
    projects: [
      { extends: true, test: { name: "pure", include: pure, isolate: false } },
      { extends: true, test: { name: "processes", include: ["test/**/*.test.ts"], exclude: pure } },
    ],
  },
});
