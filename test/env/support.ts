/** The published sample files that some tests read, and how such a test says that it was left out. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Environment } from "../../src/env/environment.ts";

const root = resolve(import.meta.dirname, "../..");

/** A file under the data folder, or undefined (with a printed reason) where it is absent. */
export function dataFile(...path: string[]): string | undefined {
  const file = join(resolve(root, process.env.AGENTRL_DATA ?? "../shared/data"), ...path);
  if (existsSync(file)) return file;
  console.log(`skipped: no ${path.join("/")} in the data folder (set AGENTRL_DATA)`);
  return undefined;
}

/** Milliseconds of CPU time that one expert episode takes, generation included: wall time says little on a shared machine. */
export async function sessionCost(env: Environment, warmUp = 300, count = 1000): Promise<number> {
  let begin = process.cpuUsage();
  for (let index = 0; index < warmUp + count; index++) {
    if (index === warmUp) begin = process.cpuUsage();
    const session = await env.start("train", index, 0);
    const expert = env.expert!("train", index, 0);
    while (!(await session.step(expert.act([]))).done);
    await session.close();
  }
  const { user, system } = process.cpuUsage(begin);
  return (user + system) / 1000 / count;
}
