/** Where a model is, by what a user calls it: a folder, a GGUF file, or a name on the Hugging Face Hub. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { AgentRLError } from "../errors.ts";
import { type FetchedModel, type FetchOptions, fetchHubModel } from "./hub/fetch.ts";
import { hubNotation, hubScheme, parseHubName } from "./hub/name.ts";

/**
 * A path that can be loaded; a model on the Hub is downloaded first. What is on the disk goes before the Hub.
 * @throws AgentRLError MODEL_FILE, HUB
 */
export async function locateModel(place: string, options: FetchOptions = {}): Promise<FetchedModel> {
  if (existsSync(place)) return { path: place, missing: 0 };
  const name = parseHubName(place);
  if (name !== undefined) return fetchHubModel(name, options);
  if (place.startsWith(hubScheme)) {
    throw new AgentRLError("HUB", "The name of a model on the Hugging Face Hub is malformed.", {
      got: place,
      expected: `${hubScheme} and ${hubNotation}`,
      hint: "Copy the name from the model's page.",
    });
  }
  throw new AgentRLError("MODEL_FILE", "There is no model here.", {
    where: resolve(place),
    got: place,
    expected: `a model folder, a GGUF file, or ${hubNotation} on the Hugging Face Hub`,
    hint: "Check the path.",
  });
}
