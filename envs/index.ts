/** The environments that ship with AgentRL, by task name. A new one is added here and nowhere else. */
import { EnvironmentRegistry } from "../src/env/registry.ts";

export const environments = new EnvironmentRegistry()
  .register("alfworld", async () => (await import("./alfworld/index.ts")).createAlfworld)
  .register("dbbench", async () => (await import("./dbbench/index.ts")).createDbbench)
  .register("kg", async () => (await import("./kg/index.ts")).createKg)
  .register("os", async () => (await import("./os/index.ts")).createOs)
  .register("webshop", async () => (await import("./webshop/index.ts")).createWebshop);
