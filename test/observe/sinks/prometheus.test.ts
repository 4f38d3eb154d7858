import { spawnSync } from "node:child_process";
import { afterEach, describe, expect, it } from "vitest";
import { MetricsServer } from "../../../src/observe/sinks/metrics-server.ts";
import { renderMetrics } from "../../../src/observe/sinks/prometheus.ts";
import { noFaults } from "../../../src/pipeline/faults.ts";
import { step } from "../run-folder/folders.ts";

const line = step(12, { kg: 0.25, 'a "quoted"\ntask\\': 0.75 }, { faults: { ...noFaults(), lostSamples: 3 } });
const evaluation = [
  { task: "kg", policy: "", episodes: 8, success: 0.5, successes: 4, meanReward: 0.5, endReasons: {} },
];

/** Samples as Prometheus' text format has them: name with labels, and value. */
function samples(text: string): Map<string, number> {
  const lines = text.split("\n").filter((one) => one !== "" && !one.startsWith("#"));
  return new Map(lines.map((one) => [one.slice(0, one.lastIndexOf(" ")), Number(one.slice(one.lastIndexOf(" ") + 1))]));
}

describe("metrics for Prometheus", () => {
  it("are the last step's figures in base units", async () => {
    const text = await renderMetrics({ steps: 40, line, evaluated: { step: 10, evaluation } });
    expect(Object.fromEntries(samples(text))).toMatchObject({
      ...{ agentrl_step: 12, agentrl_steps: 40, agentrl_reward: 0.5, agentrl_buffer_bytes: 1000 },
      ...{ 'agentrl_task_reward{task="kg"}': 0.25, 'agentrl_task_reward{task="a \\"quoted\\"\\ntask\\\\"}': 0.75 },
      ...{ 'agentrl_step_duration_seconds{phase="train"}': 0.4, 'agentrl_lag_versions{stat="max"}': 2 },
      ...{
        'agentrl_task_end_ratio{task="kg",reason="turn limit"}': 0.25,
        'agentrl_utilisation_ratio{part="engine"}': 0.9,
      },
      ...{ 'agentrl_faults_total{fault="lostSamples"}': 3, 'agentrl_faults_total{fault="clockJumps"}': 0 },
      ...{ 'agentrl_held_out_success_ratio{task="kg"}': 0.5, agentrl_held_out_step: 10 },
    });
    // What the run does not measure.
    expect(text).not.toMatch(/kl_nats|NaN/);
  });

  it("say what each is, and counters by their names", async () => {
    const text = await renderMetrics({ steps: 40, line, evaluated: null });
    const names = new Set([...samples(text).keys()].map((name) => name.replace(/\{.*/s, "")));
    for (const name of names) {
      expect(name).toMatch(/^agentrl_[a-z_]+$/);
      expect(text).toMatch(new RegExp(`^# HELP ${name} [A-Z].*\\.$`, "m"));
      expect(text).toContain(`# TYPE ${name} ${name.endsWith("_total") ? "counter" : "gauge"}\n`);
    }
    expect(samples(await renderMetrics({ steps: 40, line: null, evaluated: null })).get("agentrl_step")).toBe(0);
  });

  it("pass promtool check metrics", async ({ skip }) => {
    const input = await renderMetrics({ steps: 40, line, evaluated: { step: 10, evaluation } });
    const { status, stdout, stderr, error } = spawnSync("promtool", ["check", "metrics"], { input, encoding: "utf8" });
    if (error !== undefined) skip("promtool is not installed (Debian: the package prometheus)");
    expect(`${stdout}${stderr}`).toBe("");
    expect(status).toBe(0);
  });
});

describe("a run's /metrics", () => {
  const open: MetricsServer[] = [];
  afterEach(() => Promise.all(open.splice(0).map((server) => server.close())));

  it("follows its steps on a port of this machine, and nothing else", async () => {
    const server = await MetricsServer.listen(0, 40);
    open.push(server);
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/);
    const read = async () => samples(await (await fetch(server.url)).text());
    expect((await read()).get("agentrl_step")).toBe(0);
    server.line(step(11, { kg: 0 }));
    server.line(line);
    // An evaluation of a step before says nothing of the newest.
    server.line({ ...step(11, { kg: 0 }), evaluation });
    const answer = await fetch(`${server.url}?a=b`);
    expect(answer.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    const now = samples(await answer.text());
    expect([now.get("agentrl_step"), now.get('agentrl_task_reward{task="kg"}')]).toEqual([12, 0.25]);
    expect([now.get("agentrl_held_out_step"), now.get('agentrl_held_out_success_ratio{task="kg"}')]).toEqual([11, 0.5]);
    expect((await fetch(server.url.replace("metrics", ""))).status).toBe(404);
    expect((await fetch(server.url, { method: "POST" })).status).toBe(404);
  });
});
