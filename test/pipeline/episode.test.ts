/** Episodes of the tiny model, warm enough to err: where an episode ends when a call is refused. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { environments } from "../../envs/index.ts";
import { NativeDevice } from "../../src/device/native.ts";
import type { StepResult } from "../../src/env/environment.ts";
import { Engine } from "../../src/generate/engine.ts";
import { fixedWeights } from "../../src/generate/weight-source.ts";
import { loadModelFolder } from "../../src/model/files.ts";
import { packTensors, parameterLayout } from "../../src/model/parameters.ts";
import { Weights } from "../../src/model/weights.ts";
import { type EpisodeLimits, promptTokens, runEpisode } from "../../src/pipeline/episode.ts";
import { loadPolicyText } from "../../src/pipeline/policy-text.ts";

const folder = fileURLToPath(new URL("../../models/tiny", import.meta.url));
const environment = await environments.create("kg", { prompt: "brief" });

describe("an episode", () => {
  const device = new NativeDevice({ threads: 2 });
  const { dialect, modelConfig } = loadPolicyText(folder);
  let engine: Engine;

  beforeAll(() => {
    const { tensors } = loadModelFolder(folder);
    const weights = Weights.allocate(device, modelConfig, "weights");
    device.write(
      weights.arena,
      packTensors(parameterLayout(modelConfig), (name) => tensors.read(name)),
    );
    tensors.close();
    engine = new Engine({
      device,
      config: modelConfig,
      weights: fixedWeights(weights),
      maxConversations: 20,
      contextLimit: 512,
    });
  });
  afterAll(async () => {
    await engine.destroy();
    await environment.close();
    device.destroy();
  });

  /** Twenty episodes with what the session answered to each of their turns. */
  async function play(endOnFailure: NonNullable<EpisodeLimits["endOnFailure"]>) {
    const indices = environment.split("eval").indices.slice(0, 20);
    return Promise.all(
      indices.map(async (index, sample) => {
        const session = await environment.start("eval", index, 1);
        const answers: StepResult[] = [];
        const step = session.step.bind(session);
        session.step = async (action) => {
          const answer = await step(action);
          answers.push(answer);
          return answer;
        };
        const conversation = engine.open(promptTokens(dialect, environment, session.messages));
        const trajectory = await runEpisode({
          environment,
          session,
          conversation,
          dialect,
          limits: { maxTurns: 6, maxTokensPerTurn: 48, endOnFailure },
          sampling: { temperature: 1.5, topK: 0, topP: 1, minP: 0 },
          seed: { group: index, sample, key: 7 },
          identity: { task: "kg", split: "eval", index, group: index, sample, seed: 1 },
        });
        conversation.close();
        await session.close();
        return { trajectory, answers };
      }),
    );
  }

  it("goes on after a refused call, unless it is told to end there", async () => {
    const refused = (answers: StepResult[]) => answers.map((answer) => (answer.failedCalls ?? 0) > 0);
    const lenient = await play("never");
    expect(lenient.some(({ answers }) => refused(answers).slice(0, -1).includes(true))).toBe(true);

    const strict = await play("call");
    expect(strict.some(({ answers }) => refused(answers).includes(true))).toBe(true);
    for (const { trajectory, answers } of strict) {
      const at = refused(answers).indexOf(true);
      if (at < 0) continue;
      // The refused call is the last thing that happened, and the last sampled token is the trajectory's last.
      expect(at).toBe(answers.length - 1);
      expect(trajectory.turns).toHaveLength(answers.length);
      expect(trajectory).toMatchObject({ endReason: "invalid action", reward: 0 });
      expect(trajectory.sampled.at(-1)).toBe(1);
    }
  });
});
