/** The published sample files that some tests read, and how such a test says that it was left out. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

const root = resolve(import.meta.dirname, "../..");

/** A file under the data folder, or undefined (with a printed reason) where it is absent. */
export function dataFile(...path: string[]): string | undefined {
  const file = join(resolve(root, process.env.AGENTRL_DATA ?? "../shared/data"), ...path);
  if (existsSync(file)) return file;
  console.log(`skipped: no ${path.join("/")} in the data folder (set AGENTRL_DATA)`);
  return undefined;
}
