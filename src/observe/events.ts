/**
 * What a run tells its surroundings while it goes on. The pipeline emits these; the terminal line and tests listen. The
 * fields are the least a listener needs: a step's full metrics (a line of metrics.jsonl) satisfy `StepProgress`.
 */
export interface StepProgress {
  /** Steps done. */
  step: number;
  /** Tasks that had episodes in this step. */
  tasks: Record<string, { reward: number }>;
  /** Weight versions between sampling and training, the largest of the batch. */
  maxLag: number;
  sampledTokens: number;
  /** Largest |recorded - recomputed| log-probability; null when nothing was compared. */
  mismatch: number | null;
}

export type RunEvent =
  /** `step` steps are done already (a resumed run) of `steps`. */
  | { type: "started"; step: number; steps: number }
  | { type: "step"; metrics: StepProgress }
  | { type: "evaluated"; step: number; reports: readonly { task: string; success: number | null; episodes: number }[] }
  | { type: "checkpoint"; step: number; folder: string }
  /** Something a user should know: a process was restarted, a sample was retried often. */
  | { type: "notice"; message: string }
  | { type: "finished" };
