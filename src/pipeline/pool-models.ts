/** What the pool's policies need: model folders that fit the trained model, and the servers' keys. */
import { currentPolicy, type PoolMember } from "../config/cross-policy.ts";
import type { TrainConfig } from "../config/train.ts";
import { AgentRLError } from "../errors.ts";
import type { ModelConfig } from "../model/config.ts";
import { loadModelFolder, type ModelText } from "../model/files.ts";
import type { Tokenizer } from "../text/tokenizer.ts";

/** Names and folders of the pool's checkpoints. */
export function checkpointsOf({ crossPolicy }: Pick<TrainConfig, "crossPolicy">): Map<string, string> {
  const members = (crossPolicy?.pool ?? []).filter(({ kind }) => kind === "checkpoint");
  return new Map(members.map(({ name, path }) => [name, path!]));
}

/** @throws AgentRLError CONFIG when the variable that a policy's key is to come from is not set. */
export function apiKeyOf({ name, apiKeyEnv }: PoolMember): string | undefined {
  if (apiKeyEnv === undefined) return undefined;
  const key = process.env[apiKeyEnv];
  if (key !== undefined && key !== "") return key;
  throw new AgentRLError("CONFIG", `The API key of policy "${name}" is not set`, {
    where: "crossPolicy.pool[].apiKeyEnv",
    got: `no environment variable ${apiKeyEnv}`,
    expected: "the key in it",
    hint: `export ${apiKeyEnv}, or name another variable`,
  });
}

/**
 * What can be wrong with a pool before anything runs.
 * @throws AgentRLError CONFIG naming the policy and what differs; MODEL_FILE, TOKENIZER for a folder that is broken.
 */
export function checkPool(config: TrainConfig, current: ModelText): void {
  for (const member of config.crossPolicy?.pool ?? []) apiKeyOf(member);
  for (const [name, folder] of checkpointsOf(config)) {
    const model = loadModelFolder(folder);
    model.tensors.close();
    const refuse = (what: string, got: unknown, expected: unknown) =>
      new AgentRLError("CONFIG", `Policy "${name}" of the pool ${what}`, {
        where: folder,
        got,
        expected: `${expected}, as the model that is trained`,
        hint: `take a checkpoint of the same architecture and tokenizer as ${currentPolicy} has, or serve it behind an endpoint`,
      });
    const field = differingField(model.config, current.config);
    if (field !== undefined) {
      const value = (of: ModelConfig) => `${field} ${of[field]}`;
      throw refuse("is of another architecture", value(model.config), value(current.config));
    }
    const { contextLimit } = config.rollout;
    if (model.config.maxPositions < contextLimit) {
      throw new AgentRLError("CONFIG", `Policy "${name}" of the pool has too few positions`, {
        where: folder,
        got: model.config.maxPositions,
        expected: `at least rollout.contextLimit = ${contextLimit}`,
        hint: "lower rollout.contextLimit, or leave the policy out",
      });
    }
    const id = differingToken(model.tokenizer, current.tokenizer);
    if (id !== undefined) {
      const value = (of: Tokenizer) => `token ${id} ${JSON.stringify(of.tokenString(id) ?? "none")}`;
      throw refuse("has another tokenizer", value(model.tokenizer), value(current.tokenizer));
    }
  }
}

/** What does not change the computation may differ: its context's length, and the tokens that the sampler stops at. */
const compared: readonly (keyof ModelConfig)[] = [
  "vocabSize",
  "hiddenSize",
  "intermediateSize",
  "layers",
  "heads",
  "kvHeads",
  "headDim",
  "ropeTheta",
  "rmsNormEps",
  "tieWordEmbeddings",
];

function differingField(a: ModelConfig, b: ModelConfig): keyof ModelConfig | undefined {
  return compared.find((field) => a[field] !== b[field]);
}

function differingToken(a: Tokenizer, b: Tokenizer): number | undefined {
  for (let id = 0; id < Math.max(a.vocabSize, b.vocabSize); id++) {
    if (a.tokenString(id) !== b.tokenString(id)) return id;
  }
  return undefined;
}
