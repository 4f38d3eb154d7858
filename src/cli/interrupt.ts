/** Ctrl-C: the first asks the work to end well (a run ends in a checkpoint), the second ends the process. */
import { constants } from "node:os";

/** Runs `work` with a signal that SIGINT, SIGTERM or SIGHUP aborts. */
export async function interruptible<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const onSignal = (name: NodeJS.Signals) => {
    if (controller.signal.aborted) process.exit(128 + constants.signals[name]);
    controller.abort();
  };
  const names = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const name of names) process.on(name, onSignal);
  try {
    return await work(controller.signal);
  } finally {
    for (const name of names) process.off(name, onSignal);
  }
}
