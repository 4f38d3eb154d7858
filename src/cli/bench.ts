/** `agentrl bench async|controller|decode|gemm|kernels|lora|peer|ring`: measurements that a reader can repeat, each beside a reference taken in the same run. */
import { type Command, Option } from "commander";
import { type ProfileName, profileNames } from "../device/webgpu/profile.ts";
import { interruptible } from "./interrupt.ts";
import { addJson, addSet, collect, collectNumbers, jsonWriter, numberFrom, wholeNumber } from "./options.ts";

interface AsyncOptions {
  model?: string;
  steps?: number;
  seeds?: number;
  maxLag?: number;
  quick?: boolean;
  set?: string[];
  out?: string;
  json?: string;
}

interface DecodeOptions {
  model: string;
  llama: string;
  weights?: "f32" | "f16" | "bf16";
  batch?: number[];
  threads?: number;
  prompt?: number;
  tokens?: number;
  rounds?: number;
  json?: string;
}

interface GemmOptions {
  threads?: number;
  seconds?: number;
  json?: string;
}

interface KernelsOptions {
  adapter?: string;
  profile?: ProfileName;
  shape?: "tiny" | "small";
  operator?: string[];
  seconds?: number;
  json?: string;
}

interface LoraOptions {
  model: string;
  python: string;
  rank?: number;
  sequences?: number;
  length?: number;
  threads?: number;
  rounds?: number;
  json?: string;
}

interface PeerOptions {
  tfjs: string;
  adapter: string;
  rounds?: number;
  json?: string;
}

interface RingOptions {
  producers?: number;
  consumers?: number;
  seconds?: number;
  json?: string;
}

interface ControllerOptions {
  sessions?: number;
  workers?: number;
  think?: number;
  json?: string;
}

export function addBench(program: Command): void {
  const bench = program.command("bench").description("measure the native code on this machine");
  const async = bench
    .command("async")
    .description(
      "trained tokens/s, held-out score and utilisation of every mode, with environments that answer late; minutes",
    )
    .option("--model <folder>", "model to train; the tiny one by default")
    .option("--steps <n>", "steps after which the modes are compared on held-out tasks", wholeNumber(1))
    .option("--seeds <n>", "runs of every mode", wholeNumber(1))
    .option("--max-lag <n>", "versions by which the asynchronous mode may run ahead", wholeNumber(1))
    .option("--quick", "one seed, small steps, without one-step-off: a minute or two, for a first impression")
    .option("--out <folder>", "keep the runs in this folder");
  addJson(addSet(async)).action(async ({ json, quick = false, ...options }: AsyncOptions) => {
    const writeJson = jsonWriter(json);
    const { benchAsync, quickBench } = await import("../bench/async.ts");
    const size = quick ? quickBench : {};
    const set = [...(size.set ?? []), ...(options.set ?? [])];
    writeJson(await interruptible((signal) => benchAsync({ ...size, ...options, set, signal })));
  });
  const decode = bench
    .command("decode")
    .description("tokens/s of conversations that decode together, beside llama.cpp on the same file, in one run")
    .requiredOption("--model <file>", "GGUF file of the model, F16 for a like comparison")
    .requiredOption("--llama <folder>", "folder in which node-llama-cpp is installed")
    .addOption(
      new Option("--weights <type>", "how our matrices are kept, f16 by default").choices(["f32", "f16", "bf16"]),
    )
    .option("--batch <n>", "conversations at once (repeatable); 1, 8 and 32 by default", collectNumbers(wholeNumber(1)))
    .option("--threads <n>", "compute threads of each side", wholeNumber(1))
    .option("--prompt <n>", "tokens of a prompt", wholeNumber(2))
    .option("--tokens <n>", "tokens decoded of each conversation", wholeNumber(1))
    .option("--rounds <n>", "turns of each side", wholeNumber(1));
  addJson(decode).action(async ({ json, batch, ...options }: DecodeOptions) => {
    const writeJson = jsonWriter(json);
    const { benchDecode } = await import("../bench/decode.ts");
    writeJson(await benchDecode({ ...options, ...(batch !== undefined && { batches: batch }) }));
  });
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
  const kernels = bench
    .command("kernels")
    .description("time, GFLOP/s, GB/s and share of a measured roofline of every WebGPU kernel")
    .option("--adapter <name>", "part of the name of the adapter to measure")
    .addOption(new Option("--profile <profile>", "checks of the WebGPU driver").choices(profileNames))
    .addOption(new Option("--shape <shape>", "sizes of the model").choices(["tiny", "small"]))
    .option("--operator <name>", "measure this operator only (repeatable)", collect)
    .option("--seconds <s>", "time per case", numberFrom(0.01));
  addJson(kernels).action(async ({ json, shape, operator, ...options }: KernelsOptions) => {
    const writeJson = jsonWriter(json);
    const [{ benchKernels }, { kernelShapes }] = await Promise.all([
      import("../bench/kernels.ts"),
      import("../bench/kernel-cases.ts"),
    ]);
    const shapes = shape === undefined ? {} : { shapes: [kernelShapes[shape]] };
    writeJson(
      await benchKernels({ ...options, ...shapes, ...(operator === undefined ? {} : { operators: operator }) }),
    );
  });
  const lora = bench
    .command("lora")
    .description(
      "a training step of a LoRA adapter beside PyTorch with PEFT: same model, adapter and tokens, in one run",
    )
    .requiredOption("--model <path>", "model's folder or GGUF file")
    .requiredOption("--python <file>", "Python that has torch, transformers and peft")
    .option("--rank <n>", "rank of the adapter", wholeNumber(1))
    .option("--sequences <n>", "sequences of a step", wholeNumber(1))
    .option("--length <n>", "tokens of a sequence", wholeNumber(2))
    .option("--threads <n>", "compute threads of each side", wholeNumber(1))
    .option("--rounds <n>", "turns of each side", wholeNumber(1));
  addJson(lora).action(async ({ json, ...options }: LoraOptions) => {
    const writeJson = jsonWriter(json);
    const { benchLora } = await import("../bench/lora.ts");
    writeJson(await benchLora(options));
  });
  const peer = bench
    .command("peer")
    .description("the WebGPU device beside TensorFlow.js': matrix products and a training step, in one run")
    .requiredOption(
      "--tfjs <folder>",
      "folder in which @tensorflow/tfjs and @tensorflow/tfjs-backend-webgpu are installed",
    )
    .requiredOption("--adapter <name>", "part of the name of the adapter to measure on")
    .option("--rounds <n>", "turns of each side", wholeNumber(1));
  addJson(peer).action(async ({ json, ...options }: PeerOptions) => {
    const writeJson = jsonWriter(json);
    const { benchPeer } = await import("../bench/peer.ts");
    writeJson(await benchPeer(options));
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
  const controller = bench
    .command("controller")
    .description(
      "sessions/s and a turn's overhead through a controller and its workers, beside the workers and this process alone",
    )
    .option("--sessions <n>", "sessions at once", wholeNumber(1))
    .option("--workers <n>", "worker processes", wholeNumber(1))
    .option("--think <ms>", "mean time between a session's turns", numberFrom(0));
  addJson(controller).action(async ({ json, think, ...options }: ControllerOptions) => {
    const writeJson = jsonWriter(json);
    const { benchController } = await import("../bench/controller.ts");
    writeJson(await benchController({ ...options, ...(think !== undefined && { thinkMs: think }) }));
  });
}
