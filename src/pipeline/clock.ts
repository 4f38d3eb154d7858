/**
 * Time as the pipeline sees it. What waits, waits on a clock that is handed to it, so that the simulator can run hours of a
 * run in seconds. The real one is monotonic: a change of the wall clock is nothing to it.
 */
export interface Timer {
  cancel(): void;
}

export interface Clock {
  /** Milliseconds since some moment. */
  now(): number;
  after(ms: number, work: () => void): Timer;
}

export const realClock: Clock = {
  now: () => performance.now(),
  after(ms, work) {
    const timer = setTimeout(work, ms);
    return { cancel: () => clearTimeout(timer) };
  },
};

export function sleep(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.after(ms, resolve));
}

/** Calls `work` every `ms`, counted from the end of the call before. */
export function every(clock: Clock, ms: number, work: () => void): Timer {
  let timer: Timer;
  const next = () => {
    timer = clock.after(ms, () => {
      next();
      work();
    });
  };
  next();
  return { cancel: () => timer.cancel() };
}

/** `work`, or a rejection with `late()` when it takes longer than `ms`. What it comes to afterwards is ignored. */
export async function within<T>(clock: Clock, ms: number, work: Promise<T>, late: () => Error): Promise<T> {
  let timer: Timer | undefined;
  const deadline = new Promise<never>((_, reject) => {
    timer = clock.after(ms, () => reject(late()));
  });
  try {
    return await Promise.race([work, deadline]);
  } finally {
    timer?.cancel();
  }
}
