/** What a worker and its host processes say to each other, as JSON over the IPC channel. */
import type { EnvironmentOptions } from "../registry.ts";
import type { SampleStatus, WireMessage } from "../wire/schemas.ts";

export interface HostedTask {
  /** Name of an environment, or path of a file that defines one. */
  environment: string;
  options: EnvironmentOptions;
  /** Default: "data" with a data file, else what the task's name says. */
  split: string;
}

/** What a host tells of its environment once it is open. */
export interface OpenedTask {
  indices: number[];
  tools: Record<string, unknown>[];
  maxTurns: number;
  /** Milliseconds, where the environment says so. */
  stepTimeoutMs?: number;
}

/** The worker adds the tools: they are the same for every answer. */
export interface HostOutput {
  messages: WireMessage[];
  status: SampleStatus;
  finish: boolean;
  reward: number;
  metric: Record<string, number>;
}

export type HostRequest =
  | { op: "open"; task: HostedTask }
  | { op: "start"; session: number; index: number; seed: number }
  | { op: "step"; session: number; messages: WireMessage[] }
  | { op: "close"; session: number }
  | { op: "ping" };

export interface HostAnswers {
  open: OpenedTask;
  start: HostOutput;
  step: HostOutput;
  close: null;
  ping: null;
}

export interface ToHost {
  id: number;
  request: HostRequest;
}

export type FromHost =
  | { id: number; answer: HostAnswers[keyof HostAnswers] }
  | { id: number; error: { message: string; code: string } };
