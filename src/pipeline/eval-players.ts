/** The policies that an evaluation can play: a script, a model in this process, or endpoints. */
import { randomPolicy } from "../env/scripted.ts";
import { AgentRLError } from "../errors.ts";
import type { Engine } from "../generate/engine.ts";
import type { Sampling } from "../generate/sampling.ts";
import type { Endpoint } from "../policy/endpoint.ts";
import { chooser } from "../policy/mixture.ts";
import { mix32 } from "../rl/sampler.ts";
import type { Trajectory } from "../rl/trajectory.ts";
import { type Dialect, readTurn } from "./dialect.ts";
import { promptTokens, runEpisode } from "./episode.ts";
import { converse, type Player, type PlayRequest } from "./eval-episodes.ts";

export function scriptedPlayer(policy: "expert" | "random"): Player {
  return {
    async play(request) {
      const { environment, session, split, ref, seed } = request;
      if (policy === "random") {
        const act = randomPolicy(environment, session.inner, ref.index, seed);
        return { endReason: await converse(request, act) };
      }
      const expert = environment.expert?.(split, ref.index, seed);
      if (expert === undefined) {
        throw new AgentRLError("USAGE", `environment "${environment.name}" has no expert policy`, {
          hint: "evaluate a model on it instead",
        });
      }
      return { endReason: await converse(request, (messages) => expert.act([...messages])) };
    },
  };
}

export interface EnginePlayerOptions {
  engine: Engine;
  dialect: Dialect;
  sampling: Sampling;
  maxTokensPerTurn: number;
  onTrajectory?: (trajectory: Trajectory) => void;
}

/** A model of this process: the same loop that training samples with. */
export function enginePlayer(options: EnginePlayerOptions): Player {
  const { engine, dialect, sampling, maxTokensPerTurn } = options;
  return {
    async play({ environment, session, split, ref, seed, maxTurns }: PlayRequest) {
      const prompt = promptTokens(dialect, environment, session.messages);
      // A prompt that leaves no room to answer is an outcome of the policy's context, not a fault.
      if (prompt.length >= engine.contextLimit) return { endReason: "context limit" };
      const conversation = engine.open(prompt);
      try {
        const group = ref.position;
        const trajectory = await runEpisode({
          environment,
          session,
          conversation,
          dialect,
          limits: { maxTurns, maxTokensPerTurn },
          sampling,
          seed: { group, sample: 0xffff, key: seed },
          identity: { task: environment.name, split, index: ref.index, group, sample: 0, seed },
        });
        options.onTrajectory?.(trajectory);
        const last = trajectory.turns.at(-1);
        if (last !== undefined && trajectory.turns.length > session.turns) {
          session.said(readTurn(dialect, environment.tools, trajectory.tokens.slice(last.start, last.end)).action);
        }
        return { endReason: trajectory.endReason };
      } finally {
        conversation.close();
      }
    },
  };
}

/** One endpoint, or several that take turns as a seeded draw has it. */
export function endpointPlayer(endpoints: readonly Endpoint[]): Player {
  return {
    async play(request) {
      const { environment, session, ref, seed } = request;
      const choose = chooser(endpoints, ref.index, seed);
      const policies: string[] = [];
      const endReason = await converse(request, async (messages, turn) => {
        const endpoint = choose(turn);
        policies.push(endpoint.name);
        const { action, end } = await endpoint.complete({
          messages,
          tools: environment.tools,
          seed: mix32(mix32(seed, ref.index), turn),
        });
        if (end === "stop") return action;
        session.said(action);
        return end === "context" ? "context limit" : "length limit";
      });
      return { endReason, ...(endpoints.length > 1 && { policies }) };
    },
  };
}
