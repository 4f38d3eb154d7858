/** The last step of a run in Prometheus' text format. */
import { Counter, Gauge, Registry } from "prom-client";
import type { RunStep } from "../../pipeline/run-log.ts";

export interface RunState {
  /** Steps that the run is to do. */
  steps: number;
  /** The newest line of metrics; null before the first step. */
  line: RunStep | null;
  /** The newest evaluation. */
  evaluated: Pick<RunStep, "step" | "evaluation"> | null;
}

export const contentType = Registry.PROMETHEUS_CONTENT_TYPE;

/** Label values by name. */
type Labels = Record<string, string>;

/**
 * Names begin with `agentrl_`; units are base units (seconds, bytes, shares from 0 to 1); what counts up since the run began
 * or was resumed ends in `_total`.
 */
export function renderMetrics({ steps, line, evaluated }: RunState): Promise<string> {
  const metrics = new Registry();
  const gauges = new Map<string, Gauge>();
  const counters = new Map<string, Counter>();
  const gauge = (name: string, help: string, value: number | null, labels: Labels = {}) => {
    if (value === null) return;
    let metric = gauges.get(name);
    if (metric === undefined) {
      metric = new Gauge({ name: `agentrl_${name}`, help, labelNames: Object.keys(labels), registers: [metrics] });
      gauges.set(name, metric);
    }
    metric.set(labels, value);
  };
  const counter = (name: string, help: string, value: number, labels: Labels = {}) => {
    let metric = counters.get(name);
    if (metric === undefined) {
      metric = new Counter({ name: `agentrl_${name}`, help, labelNames: Object.keys(labels), registers: [metrics] });
      counters.set(name, metric);
    }
    metric.inc(labels, value);
  };

  gauge("steps", "Optimizer steps that the run is to do.", steps);
  gauge("step", "Optimizer steps done.", line?.step ?? 0);
  if (line !== null) {
    gauge("reward", "Mean reward of the last step's episodes.", line.reward);
    gauge("loss", "Loss of the last step.", line.loss);
    gauge("entropy_nats", "Mean entropy of the policy at the trained tokens.", line.entropy);
    gauge("importance_ratio", "Mean importance ratio of the trained tokens; 1 on policy.", line.ratio);
    gauge("clip_ratio", "Share of the trained tokens that the objective clipped.", line.clipFraction);
    gauge("mask_ratio", "Share of the trained tokens that the correction left out.", line.maskFraction);
    gauge("kl_nats", "Mean log-ratio to the reference policy.", line.kl);
    gauge("gradient_norm", "Norm of the gradient before it was scaled.", line.gradNorm);
    gauge("learning_rate", "Learning rate of the last step.", line.lr);
    gauge("step_sampled_tokens", "Sampled tokens of the last step's episodes.", line.sampledTokens);
    gauge("step_trained_tokens", "Tokens of the last step that carried gradient.", line.trainedTokens);
    gauge(
      "step_zero_variance_groups",
      "Groups of the last step whose episodes all earned the same.",
      line.zeroVarianceGroups,
    );
    gauge("lag_versions", "Weight versions between sampling and training.", line.meanLag, { stat: "mean" });
    gauge("lag_versions", "", line.maxLag, { stat: "max" });
    gauge("mismatch_nats", "Largest difference of recorded and recomputed log-probability.", line.mismatch);
    gauge("mismatch_tokens", "Tokens of the last step that were compared for it.", line.mismatchTokens);
    gauge("tokens_per_second", "Sampled tokens that were trained per second of the last step.", line.tokensPerSecond);
    gauge("buffer_bytes", "Bytes of the episodes that wait to be trained.", line.bufferBytes);
    gauge("run_elapsed_seconds", "Time since the run began or was resumed.", line.elapsed);
    for (const [phase, ms] of Object.entries(line.timings)) {
      gauge("step_duration_seconds", "Time that the last step took, by phase.", ms / 1000, { phase });
    }
    for (const [part, share] of Object.entries(line.utilisation)) {
      gauge("utilisation_ratio", "Share of the time in which it computed.", share, { part });
    }
    for (const [task, one] of Object.entries(line.tasks)) {
      gauge("task_reward", "Mean reward of the last step's episodes of a task.", one.reward, { task });
      gauge("task_success_ratio", "Share of them with the full reward.", one.success, { task });
      gauge("task_episodes", "How many those are.", one.episodes, { task });
      gauge("task_parse_failure_ratio", "Share of their turns that did not parse.", one.parseFailureRate, { task });
      gauge("task_gradient_ratio", "Share of the task in the gradient.", one.gradientShare, { task });
      for (const [reason, count] of Object.entries(one.endReasons)) {
        gauge("task_end_ratio", "Share of the episodes that ended so.", count / one.episodes, { task, reason });
      }
    }
    counter("aborted_tokens_total", "Tokens that were sampled and thrown away.", line.abortedTokens);
    counter("dropped_groups_total", "Groups that were thrown away as too old.", line.droppedGroups);
    counter("dropped_tokens_total", "Sampled tokens of those.", line.droppedTokens);
    counter("weights_verified_total", "Weight versions found to be what the learner published.", line.weightsVerified);
    for (const [fault, count] of Object.entries(line.faults)) {
      counter("faults_total", "What has gone wrong and was put right.", count, { fault });
    }
  }
  for (const { task, success } of evaluated?.evaluation ?? []) {
    gauge("held_out_success_ratio", "Share of held-out tasks solved, at the newest evaluation.", success, { task });
  }
  if (evaluated !== null) gauge("held_out_step", "Steps done at that evaluation.", evaluated.step);
  return metrics.metrics();
}
