/** Episodes of the tasks' scripted experts: as messages, and as token records to train on. */
import type { Action, Environment, Message } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import { TokenRecord } from "../generate/token-record.ts";
import { PolicyId, type Trajectory } from "../rl/trajectory.ts";
import type { Dialect } from "./dialect.ts";

export interface ExpertEpisode {
  environment: Environment;
  split: string;
  index: number;
  prompt: Message[];
  /** The expert's action, and what the environment answered ([] after the last). */
  turns: { action: Action; answer: Message[] }[];
  reward: number;
}

/** @throws AgentRLError "ENVIRONMENT" when the environment has no expert. */
export async function playExpert(
  environment: Environment,
  split: string,
  index: number,
  seed: number,
  maxTurns: number,
): Promise<ExpertEpisode> {
  const expert = environment.expert?.(split, index, seed);
  if (expert === undefined) {
    throw new AgentRLError("ENVIRONMENT", "The environment has no scripted expert", {
      where: `${environment.name} ${split}`,
      hint: "choose another split, or train with `agentrl train`, which needs none",
    });
  }
  const session = await environment.start(split, index, seed);
  try {
    const episode: ExpertEpisode = { environment, split, index, prompt: [...session.messages], turns: [], reward: 0 };
    const history: Message[] = [...session.messages];
    while (episode.turns.length < maxTurns) {
      const action = expert.act(history);
      const { messages, reward, done } = await session.step(action);
      episode.turns.push({ action, answer: messages });
      episode.reward += reward;
      history.push({ role: "assistant", content: action.text, toolCalls: action.calls }, ...messages);
      if (done) break;
    }
    return episode;
  } finally {
    await session.close();
  }
}

/** The record that a policy would have left that said exactly what the expert said. */
export function toTrajectory(episode: ExpertEpisode, dialect: Dialect): Trajectory {
  const { environment, split, index, prompt, turns, reward } = episode;
  const { template } = dialect;
  const record = new TokenRecord();
  record.given(template.renderPrompt(prompt, environment.tools));
  const spans: Trajectory["turns"] = [];
  for (const [t, { action, answer }] of turns.entries()) {
    const start = record.length;
    for (const token of template.renderAssistant(action)) record.sample(token, 0, 1, 0, 0);
    spans.push({ start, end: record.length, reward: 0, parseFailure: false });
    if (t < turns.length - 1) record.given(template.renderAppended(answer));
  }
  const n = record.length;
  return {
    task: environment.name,
    split,
    index,
    group: index,
    sample: 0,
    seed: 0,
    tokens: record.tokens.slice(0, n),
    sampled: record.sampled.slice(0, n),
    logProbs: record.logProbs.slice(0, n),
    keptMass: record.keptMass.slice(0, n),
    policy: new Uint8Array(n).fill(PolicyId.external),
    version: record.version.slice(0, n),
    oldestVersion: record.oldestVersion.slice(0, n),
    temperature: 1,
    turns: spans,
    reward,
    endReason: "completed",
    metrics: {},
    timings: { ended: 0, total: 0, environment: 0, generation: 0 },
  };
}
