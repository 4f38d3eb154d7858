/**
 * `agentrl eval`: plays a policy on an environment's tasks, once or several times, and reports how often it succeeds. The
 * policy is a script, a model in this process, or one or more endpoints; the environment runs here or behind a controller.
 */

import type { DeviceSection, TaskConfig } from "../config/sections.ts";
import { isModulePath } from "../env/definition.ts";
import type { Environment } from "../env/environment.ts";
import { moduleHash } from "../env/module.ts";
import type { EvalReport } from "../env/report.ts";
import { statisticsOf } from "../env/statistics.ts";
import { AgentRLError } from "../errors.ts";
import { modelFingerprint } from "../model/fingerprint.ts";
import { locateModel } from "../model/locate.ts";
import { Endpoint } from "../policy/endpoint.ts";
import { openEnvironment } from "./environments.ts";
import { type EpisodeRef, type EvaluatedEpisode, type Player, playEpisodes } from "./eval-episodes.ts";
import { EvaluationFile, type EvaluationSettings, keyOf } from "./eval-file.ts";
import { endpointPlayer, enginePlayer, scriptedPlayer } from "./eval-players.ts";
import { type Policy, policyOf } from "./eval-policies.ts";
import { reportOf } from "./evaluate-task.ts";
import { openEngine } from "./open-engine.ts";
import { assertPanel, panelOf } from "./panel.ts";

export interface EvaluationOptions {
  /** Environment, or a path to a file that defines one; behind a controller, the name that its workers registered. */
  task: string;
  /** File of samples in the task's published format; without it, generated tasks. */
  data?: string;
  /** What carries out the calls, its address, and what only this environment knows. */
  engine?: string;
  endpoint?: string;
  settings?: Record<string, string | number | boolean>;
  /** Plays on the workers of a controller instead of in this process. */
  controller?: { url: string; token?: string };
  /** "expert", "random", a model (folder, GGUF file, name on the Hub) or endpoints as `http://host/v1#model`: several of those take turns. */
  policy: string | readonly string[];
  /** API keys of the endpoints: one for all, or one for each. */
  apiKeys?: readonly string[];
  /** Tasks of these levels only, of an environment whose tasks are graded. */
  levels?: readonly number[];
  /** The split's first so many tasks; default all. */
  episodes?: number;
  /** Times that every task is played. @default 1 */
  runs?: number;
  /** Default: "data" with a data file or a controller, else "eval". */
  split?: string;
  /** Sampling temperature; 0 = greedy. Default: 0 for a model, the server's own for an endpoint. */
  temperature?: number;
  /** System prompt; default "brief". */
  prompt?: "full" | "brief";
  seed: number;
  /** Compute threads of a model. @default 1 */
  threads?: number;
  /** Where a model computes; default: native. */
  device?: DeviceSection;
  /** Default: 128 for a model, the server's own for an endpoint. */
  maxTokensPerTurn?: number;
  /** Tokens of a whole episode. Default: the model's own limit, but no more than `defaultContext`. */
  contextLimit?: number;
  /** Episodes at once. Default: 48 for a model, 16 for endpoints, 4 for a script. */
  concurrency?: number;
  /** Tries for one episode in which the environment fails. @default 3 */
  tries?: number;
  /** Name or hash of the panel that is to be played: another one is refused. */
  panel?: string;
  /** JSON lines of all episodes, with their transcripts, each written as it ends. */
  out?: string;
  /** Go on from the episodes that `out` holds. */
  resume?: boolean;
  onEpisode?: (episode: EvaluatedEpisode, done: number, of: number) => void;
}

/** @throws AgentRLError of what is wrong with the options, the model, the endpoint or the environment. */
export async function runEvaluation(options: EvaluationOptions): Promise<EvalReport> {
  const policy = await located(policyOf(options.policy));
  const environment = await openTask(options);
  try {
    return await evaluate(options, policy, environment);
  } finally {
    await environment.close();
  }
}

async function located(policy: Policy): Promise<Policy> {
  return policy.kind === "model" ? { ...policy, folder: (await locateModel(policy.folder)).path } : policy;
}

async function openTask(options: EvaluationOptions): Promise<Environment> {
  const { task, data, engine, endpoint, settings, controller, prompt = "brief" } = options;
  if (controller !== undefined) {
    const { url, token } = controller;
    const { openRemoteEnvironment } = await import("../env/remote.ts");
    return openRemoteEnvironment({ controller: url, task, ...(token !== undefined && { token }) });
  }
  const given = { data, engine, endpoint, settings, prompt };
  return openEnvironment({ name: task, options: given as Partial<TaskConfig["options"]> });
}

async function evaluate(options: EvaluationOptions, policy: Policy, environment: Environment): Promise<EvalReport> {
  const { seed, runs = 1, out, onEpisode } = options;
  const split = options.split ?? (options.data === undefined && options.controller === undefined ? "eval" : "data");
  const { hash } = environment.split(split);
  const panel = panelOf(environment, { ...options, split });
  assertPanel(panel, options.panel, "the panel that is asked for");
  const tasks = panel.indices;
  const refs: EpisodeRef[] = Array.from({ length: runs }, (_, run) =>
    tasks.map((index, position) => ({ run, position, index })),
  ).flat();
  const { player, close } = await openPlayer(options, policy);
  let file: EvaluationFile | undefined;
  try {
    if (out !== undefined) {
      const settings = settingsOf(options, policy, { split, splitHash: hash, tasks: tasks.length });
      file = new EvaluationFile(out, settings, options.resume === true);
    }
    const todo = refs.filter((ref) => !file?.done.has(keyOf(ref)));
    let done = refs.length - todo.length;
    const played = await playEpisodes({
      environment,
      split,
      refs: todo,
      player,
      maxTurns: environment.maxTurns,
      concurrency: concurrencyOf(options, policy),
      seed,
      ...(options.tries !== undefined && { tries: options.tries }),
      onEpisode: (episode) => {
        file?.append(episode);
        onEpisode?.(episode, ++done, refs.length);
      },
    });
    const fresh = new Map(played.map((episode) => [keyOf(episode), episode]));
    const episodes = refs.map((ref): EvaluatedEpisode => fresh.get(keyOf(ref)) ?? file!.done.get(keyOf(ref))!);
    // A worker does not tell which of its environment's splits it serves.
    const named = {
      task: environment.name,
      ...(options.controller === undefined && { split, panel: panel.name }),
      policy: nameOf(options),
    };
    const counted = episodes.filter((episode) => episode.type === "episode");
    return { ...reportOf(named, episodes), statistics: statisticsOf(counted) };
  } finally {
    file?.close();
    await close();
  }
}

function nameOf({ policy }: EvaluationOptions): string {
  return typeof policy === "string" ? policy : policy.join(" + ");
}

function concurrencyOf({ concurrency }: EvaluationOptions, policy: Policy): number {
  // A script needs no company: its turns take no time that others could use.
  return concurrency ?? { model: 48, endpoints: 16, expert: 4, random: 4 }[policy.kind];
}

interface EvaluatedTasks {
  split: string;
  splitHash: string;
  /** How many are played. */
  tasks: number;
}

/** Everything that an episode's outcome depends on, as far as it is known; what only makes it faster is left out. */
function settingsOf(options: EvaluationOptions, policy: Policy, tasks: EvaluatedTasks): EvaluationSettings {
  const { task, controller, seed, runs = 1 } = options;
  return {
    task,
    ...(controller === undefined ? ownTasks(options, tasks) : workersTasks(controller.url, tasks)),
    policy: options.policy,
    ...(policy.kind === "model" && { model: modelFingerprint(policy.folder) }),
    temperature: options.temperature,
    maxTokensPerTurn: options.maxTokensPerTurn,
    contextLimit: options.contextLimit,
    seed,
    runs,
  };
}

function ownTasks(options: EvaluationOptions, tasks: EvaluatedTasks): EvaluationSettings {
  const { task, data, engine, endpoint, settings, levels, prompt = "brief" } = options;
  const taskFile = isModulePath(task) ? moduleHash(task) : undefined;
  return { taskFile, ...tasks, data, engine, endpoint, settings, levels, prompt };
}

/** The workers chose data, split, engine and prompt, and the protocol does not tell them: only the indices are known. */
function workersTasks(controller: string, { splitHash, tasks }: EvaluatedTasks): EvaluationSettings {
  return { controller, indicesHash: splitHash, tasks };
}

interface OpenPlayer {
  player: Player;
  close: () => Promise<void>;
}

async function openPlayer(options: EvaluationOptions, policy: Policy): Promise<OpenPlayer> {
  if (policy.kind === "model") return openModel(options, policy.folder);
  if (policy.kind !== "endpoints") return { player: scriptedPlayer(policy.kind), close: async () => {} };
  const { temperature, maxTokensPerTurn, apiKeys = [] } = options;
  if (apiKeys.length > 1 && apiKeys.length !== policy.endpoints.length) {
    throw new AgentRLError("USAGE", "The API keys do not match the endpoints.", {
      got: `${apiKeys.length} keys, ${policy.endpoints.length} endpoints`,
      expected: "one key for all endpoints, or one for each, in their order",
    });
  }
  const endpoints = policy.endpoints.map(({ url, model }, at) => {
    const apiKey = apiKeys[at] ?? apiKeys[0];
    return new Endpoint({
      url,
      model,
      ...(apiKey !== undefined && { apiKey }),
      ...(temperature !== undefined && { temperature }),
      ...(maxTokensPerTurn !== undefined && { maxTokensPerTurn }),
    });
  });
  return { player: endpointPlayer(endpoints), close: async () => {} };
}

async function openModel(options: EvaluationOptions, folder: string): Promise<OpenPlayer> {
  const { maxTokensPerTurn = 128, temperature = 0, threads, device, contextLimit } = options;
  const maxConversations = concurrencyOf(options, { kind: "model", folder });
  const { engine, dialect, close } = await openEngine(folder, { maxConversations, contextLimit, threads, device });
  const sampling = { temperature, topK: 0, topP: 1, minP: 0 };
  return { player: enginePlayer({ engine, dialect, sampling, maxTokensPerTurn }), close };
}
