/**
 * Environments by name. The registry knows no environment itself: whoever composes a program registers factories, so that
 * src/env depends on nothing above it.
 */
import { AgentRLError } from "../errors.ts";
import type { Environment } from "./environment.ts";

export interface EnvironmentOptions {
  /** A file (or folder) of samples in the task's published format; without it, the generated splits. */
  data?: string;
  /** What carries out the calls: "embedded" (the default: no other program is needed) or one that the environment names. */
  engine?: string;
  /** Address of the real engine, where it needs one: a socket, a host and port, or a URL. */
  endpoint?: string;
  /** What only this environment knows; an unknown name is an error. */
  settings?: Record<string, string | number | boolean>;
  /** "full" explains the task at length, "brief" in one line (for very small models). */
  prompt?: "full" | "brief";
}

export type EnvironmentFactory = (options: EnvironmentOptions) => Environment;

/** Imports an environment's module, which a process that plays another has no use for. */
export type EnvironmentLoader = () => Promise<EnvironmentFactory>;

export class EnvironmentRegistry {
  readonly #loaders = new Map<string, EnvironmentLoader>();

  register(name: string, load: EnvironmentLoader): this {
    if (this.#loaders.has(name)) {
      throw new AgentRLError("USAGE", `environment "${name}" is registered twice`, { hint: "choose another name" });
    }
    this.#loaders.set(name, load);
    return this;
  }

  names(): string[] {
    return [...this.#loaders.keys()];
  }

  /** @throws AgentRLError CONFIG for an unknown name. */
  async create(name: string, options: EnvironmentOptions = {}): Promise<Environment> {
    const load = this.#loaders.get(name);
    if (load === undefined) {
      throw new AgentRLError("CONFIG", `no environment is called "${name}"`, {
        got: name,
        expected: this.names().join(", "),
        hint: "correct the task's name, or register your environment first (envs/index.ts shows how)",
      });
    }
    const create = await load();
    return create(options);
  }
}
