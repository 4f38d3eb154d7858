/** Opens what a user names to serve or to talk to. */
import { existsSync } from "node:fs";
import { basename, resolve } from "node:path";
import { AgentRLError } from "../errors.ts";
import { hubScheme } from "../model/hub/name.ts";
import { locateModel } from "../model/locate.ts";
import { policyOf } from "../pipeline/eval-policies.ts";
import { type EngineModel, type EngineModelOptions, openEngine } from "../pipeline/open-engine.ts";

export interface ServedEngine extends EngineModel {
  /** What to call it: the folder's or file's own name, or the name on the Hub. */
  name: string;
}

/** @throws AgentRLError of what is wrong with the model or the options. */
export async function openServed(place: string, options: EngineModelOptions): Promise<ServedEngine> {
  const policy = policyOf(place);
  if (policy.kind !== "model") {
    throw new AgentRLError("USAGE", "This is no model.", {
      got: place,
      expected: "a model folder, an adapter folder, a run, a GGUF file, or a name on the Hub",
    });
  }
  const { path } = await locateModel(policy.folder);
  const name = existsSync(place) ? basename(resolve(place), ".gguf") : place.replace(hubScheme, "");
  return { ...(await openEngine(path, options)), name };
}
