/**
 * Faults of an environment: what hangs is found by a deadline, what fails is told apart from an episode's own end. Neither is
 * ever a reward; the sample is played anew.
 */
import type { Environment, Session, StepResult } from "../env/environment.ts";
import { AgentRLError, EnvironmentTimeout, oneLine } from "../errors.ts";
import { type Clock, realClock, within } from "./clock.ts";

/** Milliseconds for a start or a step of an environment that sets itself no deadline. */
const unboundedMs = 60_000;
/** So that an environment's own deadline, which says more, comes first. */
const marginMs = 5_000;

/**
 * Milliseconds after which a start, a step or a close of this environment counts as hung. Where the environment has a
 * deadline of its own (`stepTimeoutMs`), that one decides, also above a minute; this one is for what slips through it.
 */
export function deadlineOf({ stepTimeoutMs = 0 }: Environment): number {
  return Math.max(unboundedMs, stepTimeoutMs + marginMs);
}

/** Rejects with AgentRLError "ENVIRONMENT" after `ms`: an environment that hangs must not hang the run. */
export async function withDeadline<T>(
  work: Promise<T>,
  ms: number,
  what: string,
  clock: Clock = realClock,
): Promise<T> {
  return await within(clock, ms, work, () => {
    const expected = `an answer within ${ms} ms`;
    return new EnvironmentTimeout(`${what} did not answer in time`, { expected });
  });
}

/**
 * Starts a session within the environment's deadline; one that comes up after all is not left open.
 * @throws AgentRLError ENVIRONMENT
 */
export async function startSession(
  environment: Environment,
  split: string,
  index: number,
  seed: number,
  clock: Clock = realClock,
): Promise<Session> {
  const opening = environment.start(split, index, seed);
  try {
    return await withDeadline(opening, deadlineOf(environment), `${environment.name} start`, clock);
  } catch (error) {
    opening.then(
      (late) => late.close(),
      () => {},
    );
    throw error;
  }
}

/** Within the deadline too. What it fails in changes nothing: the episode is over. */
export async function closeSession(
  session: Session,
  environment: Environment,
  clock: Clock = realClock,
): Promise<void> {
  await withDeadline(session.close(), deadlineOf(environment), `${environment.name} close`, clock).catch(() => {});
}

/** Whether it is a fault of the environment, for which the sample is played anew; all else is a bug or a broken machine. */
export function isEnvironmentFault(error: unknown): error is AgentRLError {
  return error instanceof AgentRLError && error.code === "ENVIRONMENT";
}

export function isTimeout(error: unknown): boolean {
  return error instanceof EnvironmentTimeout;
}

/**
 * @throws AgentRLError ENVIRONMENT, with what it said, when the step ended the episode by a fault of the environment, or
 * gave a reward that is no number.
 */
export function assertNoFault({ endReason, messages, reward }: StepResult, where: string): void {
  if (endReason === "env error" || endReason === "timeout") {
    const said = messages.at(-1)?.content;
    const what = `The environment ended an episode with '${endReason}'`;
    const detail = { where, ...(said !== undefined && { got: oneLine(said) }) };
    throw endReason === "timeout"
      ? new EnvironmentTimeout(what, detail)
      : new AgentRLError("ENVIRONMENT", what, detail);
  }
  if (!Number.isFinite(reward)) {
    throw new AgentRLError("ENVIRONMENT", "The environment gave a reward that is no number", {
      where,
      got: String(reward),
      expected: "a finite number",
    });
  }
}
