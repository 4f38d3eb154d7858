/**
 * The policies of a rollout process beside the current one. Those of this process's own device have an engine each, with
 * weights and a cache of their own; an episode opens a conversation with a policy at that policy's first turn.
 */
import { type PoolMember, sharesOf } from "../config/cross-policy.ts";
import type { TrainConfig } from "../config/train.ts";
import type { Device } from "../device/device.ts";
import type { ToolSpec } from "../env/environment.ts";
import { type Conversation, Engine, type EngineStats } from "../generate/engine.ts";
import type { SeedWords } from "../generate/sampling.ts";
import { fixedWeights, type WeightSource } from "../generate/weight-source.ts";
import { loadFolder } from "../model/load.ts";
import { Endpoint } from "../policy/endpoint.ts";
import { drawPolicy } from "../rl/policy-draw.ts";
import { noVersion, PolicyId } from "../rl/trajectory.ts";
import { staleWeights } from "./board-weights.ts";
import type { Dialect } from "./dialect.ts";
import { EndpointPolicy } from "./endpoint-policy.ts";
import { apiKeyOf } from "./pool-models.ts";
import type { SlotModel } from "./slot-weights.ts";
import { EnginePolicy, type EpisodePool, type TurnPolicy } from "./turn-policy.ts";
import type { WeightCheck } from "./weight-check.ts";

export interface PolicyPoolOptions {
  config: TrainConfig;
  device: Device;
  model: SlotModel;
  dialect: Dialect;
  /** Name of the weight board, on which there is a version. */
  board: string;
  check: WeightCheck;
}

export interface EpisodeSeat {
  /** Position in config.tasks. */
  task: number;
  tools: readonly ToolSpec[];
  seed: SeedWords;
}

type Member = { name: string } & ({ engine: Engine; policy: PolicyId } | { endpoint: Endpoint });

/**
 * A server that does not answer is given up, and its sample played again, before the watchdog takes the run for dead: the
 * last request is over by the sum of the two times. What it goes through until then may be a restart.
 */
const endpointPatience = { timeoutMs: 90_000, giveUpMs: 75_000, tries: 20 };

export class PolicyPool {
  readonly #options: PolicyPoolOptions;
  readonly #members: readonly Member[];

  constructor(options: PolicyPoolOptions) {
    this.#options = options;
    this.#members = (options.config.crossPolicy?.pool ?? []).map((member) => this.#open(member));
  }

  /** The policies for one episode, which must close them; null where the current policy takes every turn. */
  seat({ task, tools, seed }: EpisodeSeat): (EpisodePool & { close(): void }) | null {
    const shares = sharesOf(this.#options.config, task);
    if (shares.every((share) => share === 0)) return null;
    const taking = new Map<number, TurnPolicy>();
    const open: Conversation[] = [];
    return {
      choose: (turn) => {
        const i = drawPolicy(shares, seed, turn);
        if (i < 0) return null;
        const member = this.#members[i]!;
        let policy = taking.get(i);
        if (policy === undefined) {
          policy = this.#policyOf(member, tools, open);
          taking.set(i, policy);
        }
        return { name: member.name, policy };
      },
      close: () => {
        for (const conversation of open) conversation.close();
      },
    };
  }

  /** Of each engine. */
  get stats(): EngineStats[] {
    return this.#members.flatMap((member) => ("engine" in member ? [member.engine.stats] : []));
  }

  #policyOf(member: Member, tools: readonly ToolSpec[], open: Conversation[]): TurnPolicy {
    const { dialect, config } = this.#options;
    if ("endpoint" in member) {
      return new EndpointPolicy({
        endpoint: member.endpoint,
        dialect,
        tools,
        contextLimit: config.rollout.contextLimit,
      });
    }
    return new EnginePolicy({
      open: () => {
        const conversation = member.engine.open([]);
        open.push(conversation);
        return conversation;
      },
      policy: member.policy,
      dialect,
      tools,
    });
  }

  #open(member: PoolMember): Member {
    const { config, device, model, board, check } = this.#options;
    const { name } = member;
    const { temperature, maxSequences, contextLimit, kvOnUpdate } = config.rollout;
    const engine = (weights: WeightSource) =>
      new Engine({
        device,
        config: model.config,
        loraRank: model.lora?.rank ?? 0,
        weights,
        maxConversations: maxSequences,
        contextLimit,
        kvOnUpdate,
      });
    switch (member.kind) {
      case "stale": {
        const weights = staleWeights({ device, model, board, every: member.every!, check });
        return { name, engine: engine(weights), policy: PolicyId.stale };
      }
      case "checkpoint": {
        const weights = fixedWeights(loadFolder(device, member.path!, name), noVersion);
        return { name, engine: engine(weights), policy: PolicyId.checkpoint };
      }
      case "endpoint": {
        const apiKey = apiKeyOf(member);
        const endpoint = new Endpoint({
          url: member.url!,
          model: member.model!,
          temperature,
          ...endpointPatience,
          ...(apiKey !== undefined && { apiKey }),
          ...(member.logProbs && { logProbs: true }),
        });
        return { name, endpoint };
      }
    }
  }
}
