/** Files of this package, wherever it runs from: sources in a clone, or what they are compiled to. */
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

/**
 * A module for a process or thread of its own.
 * @param path Relative to the module `from`, without its extension.
 */
export function ownModule(path: string, from: string): URL {
  return new URL(`${path}.${from.endsWith(".ts") ? "ts" : "js"}`, from);
}

/** A file beside the sources' folder, which in the compiled package lies one folder deeper. */
export function packageFile(path: string): string {
  const places = ["../", "../../"].map((up) => fileURLToPath(new URL(`${up}${path}`, import.meta.url)));
  return places.find((place) => existsSync(place)) ?? places[0]!;
}
