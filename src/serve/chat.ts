/** `agentrl chat MODEL`: a conversation with a model, its tokens shown as they are sampled. Nothing is rendered twice. */
import type { Message } from "../env/environment.ts";
import type { Conversation } from "../generate/engine.ts";
import type { Sampling } from "../generate/sampling.ts";
import type { EngineModel } from "../pipeline/open-engine.ts";
import { Answer, type Delta } from "./answer.ts";
import { type AnswerEnd, sampleAnswer, seedWords } from "./sample.ts";
import type { Terminal } from "./terminal.ts";

export interface ChatOptions {
  system?: string | undefined;
  sampling: Sampling;
  /** Tokens of one answer. Default: what the context leaves. */
  maxTokens?: number | undefined;
  seed: number;
}

/** Until /exit or the input's end. */
export async function chat(
  model: Pick<EngineModel, "engine" | "dialect">,
  terminal: Terminal,
  options: ChatOptions,
): Promise<void> {
  const talk = new Talk(model, options);
  terminal.print(terminal.dim("/reset begins anew, /exit ends\n"));
  try {
    for (;;) {
      const line = await terminal.line("> ");
      if (line === null || line.trim() === "/exit") return;
      if (line.trim() === "/reset") {
        talk.reset();
        terminal.print(terminal.dim("a new conversation\n"));
      } else if (line.startsWith("/")) {
        terminal.print(`${line.split(" ")[0]} is no command: /reset or /exit\n`);
      } else if (line.trim() !== "") {
        await answer(talk, terminal, line);
      }
    }
  } finally {
    talk.reset();
  }
}

async function answer(talk: Talk, terminal: Terminal, line: string): Promise<void> {
  let thinking = false;
  const show = (delta: Delta) => {
    if (delta.thinking !== undefined) terminal.print(terminal.dim(`${thinking ? "" : "thinking: "}${delta.thinking}`));
    const said = delta.text !== undefined || delta.calls !== undefined;
    if (thinking && said) terminal.print("\n");
    thinking = (thinking && !said) || (delta.thinking !== undefined && !said);
    terminal.print(delta.text ?? "");
    for (const { name, arguments: args } of delta.calls ?? []) {
      terminal.print(`\ncall ${name} ${JSON.stringify(args)}`);
    }
  };
  const end = await terminal.interruptible((signal) => talk.say(line, show, signal));
  const why = {
    stop: "",
    length: "cut off: --max-tokens",
    context: "the context is full: /reset begins anew",
    interrupted: "interrupted",
  }[end];
  terminal.print(why === "" ? "\n" : `\n${terminal.dim(`(${why})`)}\n`);
}

class Talk {
  readonly #model: Pick<EngineModel, "engine" | "dialect">;
  readonly #options: ChatOptions;
  #conversation: Conversation | undefined;
  /** The last answer was ended by its end token. */
  #ended = true;

  constructor(model: Pick<EngineModel, "engine" | "dialect">, options: ChatOptions) {
    this.#model = model;
    this.#options = options;
  }

  reset(): void {
    this.#conversation?.close();
    this.#conversation = undefined;
    this.#ended = true;
  }

  async say(text: string, show: (delta: Delta) => void, signal: AbortSignal): Promise<AnswerEnd> {
    const { engine, dialect } = this.#model;
    const { system, sampling, seed, maxTokens } = this.#options;
    const { template, stopTokens } = dialect;
    const user: Message = { role: "user", content: text };
    const said = this.#conversation;
    const tokens =
      said === undefined
        ? template.renderPrompt([...(system === undefined ? [] : [{ role: "system" as const, content: system }]), user])
        : template.renderAppended([user], { closeTurn: !this.#ended });
    if ((said?.length ?? 0) + tokens.length >= engine.contextLimit) return "context";
    if (said === undefined) this.#conversation = engine.open(tokens);
    else said.extend(tokens);
    const conversation = this.#conversation!;
    const answer = new Answer({ dialect, tools: [], readCalls: true });
    const limits = { stopTokens, maxTokens, sampling, seed: seedWords(seed), signal };
    const end = await sampleAnswer(conversation, answer, limits, (_, delta) => show(delta));
    show(answer.end());
    this.#ended = answer.ended;
    return end;
  }
}
