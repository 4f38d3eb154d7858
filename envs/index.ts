/** The environments that ship with AgentRL, by task name. A new one is added here and nowhere else. */
import { EnvironmentRegistry } from "../src/env/registry.ts";
import { createDbbench } from "./dbbench/index.ts";
import { createKg } from "./kg/index.ts";

export const environments = new EnvironmentRegistry().register("dbbench", createDbbench).register("kg", createKg);
