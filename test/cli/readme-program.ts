import { loadTrainConfig, runEvaluation, runTraining } from "agentrl";

const { config, yaml } = loadTrainConfig("models/tiny/demo.yaml", ["steps=40"]);
const run = await runTraining({
  config,
  yaml,
  out: "runs/first",
  onEvent: (event) => event.type === "step" && console.log(event.metrics.step, event.metrics.tasks),
});
const report = await runEvaluation({ task: "kg", policy: run.model, temperature: 0, seed: 1, threads: 2 });
console.log(`solves ${report.successes} of ${report.episodes} held-out questions`);
