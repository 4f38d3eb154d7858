/** `agentrl bench gemm|ring`: measurements that a reader can repeat, each beside a reference taken in the same run. */
import type { Command } from "commander";
import { addJson, jsonWriter, numberFrom, wholeNumber } from "./options.ts";

interface GemmOptions {
  threads?: number;
  seconds?: number;
  json?: string;
}

interface RingOptions {
  producers?: number;
  consumers?: number;
  seconds?: number;
  json?: string;
}

export function addBench(program: Command): void {
  const bench = program.command("bench").description("measure the native code on this machine");
  const gemm = bench
    .command("gemm")
    .description("GFLOP/s of the matrix product per shape, beside OpenBLAS where it is installed")
    .option("--threads <n>", "compute threads", wholeNumber(1))
    .option("--seconds <s>", "time per shape", numberFrom(0.01));
  addJson(gemm).action(async ({ json, ...options }: GemmOptions) => {
    const writeJson = jsonWriter(json);
    const { benchGemm } = await import("../bench/gemm.ts");
    writeJson(await benchGemm(options));
  });
  const ring = bench
    .command("ring")
    .description("records/s and bytes/s through the shared-memory ring, beside memcpy")
    .option("--producers <n>", "producing processes", wholeNumber(1))
    .option("--consumers <n>", "consuming processes", wholeNumber(1))
    .option("--seconds <s>", "time per record size", numberFrom(0.01));
  addJson(ring).action(async ({ json, ...options }: RingOptions) => {
    const writeJson = jsonWriter(json);
    const { benchRing } = await import("../bench/ring.ts");
    writeJson(await benchRing(options));
  });
}
