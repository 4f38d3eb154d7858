/** PyTorch with PEFT, the peer that `agentrl bench lora` measures beside: a Python of the user's, kept waiting between its turns. */
import { spawn, spawnSync } from "node:child_process";
import { createInterface } from "node:readline";
import { AgentRLError } from "../errors.ts";

/** Eager PyTorch in f32: reads a step from a line of its input, writes its time and its loss. */
const program = `
import json, sys, time
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

base, adapter, threads, lr = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
torch.set_num_threads(threads)
model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
model = PeftModel.from_pretrained(model, adapter, is_trainable=True)
model.train()
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
import peft, transformers
print(json.dumps({"torch": torch.__version__, "peft": peft.__version__, "transformers": transformers.__version__}), flush=True)
for line in sys.stdin:
    batch = json.loads(line)
    tokens = torch.tensor(batch["tokens"])
    targets = torch.tensor(batch["targets"])
    started = time.perf_counter()
    optimizer.zero_grad(set_to_none=True)
    logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    loss = loss.item()
    print(json.dumps({"ms": 1000 * (time.perf_counter() - started), "loss": loss}), flush=True)
`;

export interface PeftOptions {
  /** Python that has torch, transformers and peft. */
  python: string;
  /** Model folder and adapter folder. */
  base: string;
  adapter: string;
  threads: number;
  lr: number;
}

export interface Peft {
  versions: Record<string, string>;
  /** One optimizer step on sequences of one length, all positions scored. */
  step(tokens: readonly number[][], targets: readonly number[][]): Promise<{ ms: number; loss: number }>;
  close(): void;
}

/** @throws AgentRLError USAGE when this Python lacks a package. */
export async function openPeft({ python, base, adapter, threads, lr }: PeftOptions): Promise<Peft> {
  const check = spawnSync(python, ["-c", "import torch, transformers, peft"], { encoding: "utf8" });
  if (check.status !== 0) {
    throw new AgentRLError("USAGE", "The Python given cannot run the peer.", {
      where: python,
      got: check.error?.message ?? check.stderr.trim().split("\n").at(-1),
      expected: "one that can import torch, transformers and peft",
      hint: "python3 -m venv peft && peft/bin/pip install torch transformers peft, then --python peft/bin/python",
    });
  }
  const environment = { ...process.env, OMP_NUM_THREADS: String(threads), TRANSFORMERS_VERBOSITY: "error" };
  const child = spawn(python, ["-c", program, base, adapter, String(threads), String(lr)], {
    env: environment,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done)
      throw new AgentRLError("USAGE", "The peer ended before its time.", { where: python, got: child.exitCode });
    return JSON.parse(value);
  };
  return {
    versions: await next(),
    async step(tokens, targets) {
      child.stdin.write(`${JSON.stringify({ tokens, targets })}\n`);
      return next();
    },
    close: () => child.stdin.end(),
  };
}
