/** Which policy an evaluation names: a script, a model folder, or endpoints. */
import { join } from "node:path";
import { AgentRLError } from "../errors.ts";
import { latestCheckpoint } from "./checkpoint.ts";

export type Policy =
  | { kind: "expert" | "random" }
  | { kind: "model"; folder: string }
  | { kind: "endpoints"; endpoints: { url: string; model: string }[] };

/** @throws AgentRLError USAGE for several policies that are not all endpoints, or an endpoint without a model. */
export function policyOf(named: string | readonly string[]): Policy {
  const names = typeof named === "string" ? [named] : named;
  if (names.every(isEndpoint) && names.length > 0) return { kind: "endpoints", endpoints: names.map(endpointOf) };
  const [name, ...others] = names;
  if (name === undefined || others.length > 0) {
    throw new AgentRLError("USAGE", "Several policies are endpoints, or there is one.", {
      got: names.join(", ") || "none",
      expected: "expert, random, a model folder or a run's folder, or one or more of http://host/v1#model",
      hint: "Evaluate the policies one after the other.",
    });
  }
  if (name === "expert" || name === "random") return { kind: name };
  return { kind: "model", folder: modelOf(name) };
}

/** The model folder itself, or the newest checkpoint's of a run's folder. */
function modelOf(folder: string): string {
  const newest = latestCheckpoint(join(folder, "checkpoints"));
  return newest === null ? folder : join(newest, "model");
}

export function isEndpoint(name: string): boolean {
  return /^https?:\/\//.test(name);
}

function endpointOf(name: string): { url: string; model: string } {
  const at = name.indexOf("#");
  const model = at < 0 ? "" : name.slice(at + 1);
  const url = at < 0 ? name : name.slice(0, at);
  if (model !== "" && URL.canParse(url)) return { url, model };
  throw new AgentRLError("USAGE", "An endpoint is given by its address and the name of its model.", {
    got: name,
    expected: "http://host:port/v1#model",
    hint: "Add # and the model's name as the server knows it.",
  });
}
