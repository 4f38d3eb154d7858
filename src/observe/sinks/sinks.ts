/**
 * Where else the metrics of a run go. Whatever happens to a sink, training goes on: a fault is counted under the sink's own
 * name in the run's faults, and the first of each sink is said.
 */
import type { ObserveConfig } from "../../config/observe.ts";
import type { FaultCounts, FaultName } from "../../pipeline/faults.ts";
import type { RunStep } from "../../pipeline/run-log.ts";
import { MetricsServer } from "./metrics-server.ts";
import { TensorBoardSink } from "./tensorboard.ts";
import { WandbSink } from "./wandb.ts";

export interface Sink {
  /** A line of metrics.jsonl: a step, or a step once more with its evaluation. */
  line(line: RunStep): void;
  close(): void | Promise<void>;
}

export interface SinksOptions {
  config: ObserveConfig;
  /** Folder of the run. */
  run: string;
  /** The run's config, for those who show it. */
  settings: object;
  /** The step that the run goes on from, and those that it is to do. */
  step: number;
  steps: number;
  /** Where faults are counted. */
  faults: FaultCounts;
  notice(message: string): void;
}

/** @throws AgentRLError USAGE for what the user has to mend first: a package or a key that is missing. */
export function assertSinksUsable({ wandb }: ObserveConfig): void {
  if (wandb !== undefined) WandbSink.assertUsable();
}

interface OpenSink {
  name: string;
  fault: FaultName;
  sink: Sink;
}

export class Sinks {
  readonly #options: SinksOptions;
  readonly #open: OpenSink[] = [];
  readonly #said = new Set<string>();

  private constructor(options: SinksOptions) {
    this.#options = options;
  }

  /** Does not throw. */
  static async open(options: SinksOptions): Promise<Sinks> {
    const { config, run, settings, step, steps, notice } = options;
    const sinks = new Sinks(options);
    if (config.wandb !== undefined) {
      await sinks.#add("Weights & Biases", "wandbFailures", (fault) =>
        WandbSink.open({ ...config.wandb!, run, settings, notice, fault }),
      );
    }
    if (config.tensorboard)
      await sinks.#add("TensorBoard", "tensorboardFailures", () => new TensorBoardSink(run, step));
    if (config.prometheus !== undefined) {
      const { port } = config.prometheus;
      await sinks.#add("Prometheus", "prometheusFailures", async () => {
        const server = await MetricsServer.listen(port, steps);
        notice(`metrics for Prometheus: ${server.url}`);
        return server;
      });
    }
    return sinks;
  }

  line(line: RunStep): void {
    for (const { name, fault, sink } of this.#open) {
      try {
        sink.line(line);
      } catch (error) {
        this.#fault(name, fault, error);
      }
    }
  }

  async close(): Promise<void> {
    for (const { name, fault, sink } of this.#open.splice(0)) {
      try {
        await sink.close();
      } catch (error) {
        this.#fault(name, fault, error);
      }
    }
  }

  /** @param open Is given what it tells later faults with. */
  async #add(
    name: string,
    fault: FaultName,
    open: (fault: (error: unknown) => void) => Sink | Promise<Sink>,
  ): Promise<void> {
    try {
      this.#open.push({ name, fault, sink: await open((error) => this.#fault(name, fault, error)) });
    } catch (error) {
      this.#fault(name, fault, error);
    }
  }

  #fault(name: string, fault: FaultName, error: unknown): void {
    const { faults, notice } = this.#options;
    faults[fault]++;
    if (this.#said.has(name)) return;
    this.#said.add(name);
    notice(`${name}: ${error instanceof Error ? error.message : String(error)}; the run goes on`);
  }
}
