/**
 * A model's own chat template (Jinja, as in tokenizer_config.json), used so that nothing is rendered twice: the first
 * messages are rendered once, and each later message is rendered alone and appended to the ids that are there. What
 * messages say cannot form control tokens (see Tokenizer.guard).
 */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { Template } from "@huggingface/jinja";
import { toolsAsJson } from "../env/define.ts";
import type { Action, Message, ToolSpec } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import type { Guard, Json, Tokenizer } from "./tokenizer.ts";
import { type CallStyle, formatPieces } from "./tool-calls.ts";

export interface ControlToken {
  id: number;
  content: string;
}

const useOther = "Use a chat model's template: one that ends each turn with a control token and keeps earlier turns.";

export class ChatTemplate {
  /** The Jinja source. */
  readonly source: string;
  /** The token that the template puts after an assistant's turn; the sampler stops at it. */
  readonly endOfTurn: ControlToken;
  /** How this template lays out tool calls. */
  readonly callStyle: CallStyle;
  readonly #tokenizer: Tokenizer;
  readonly #template: Template;
  readonly #where: string;

  /** @throws AgentRLError TOKENIZER when the template is malformed or ends its turns with no control token. */
  constructor(tokenizer: Tokenizer, source: string, where = "chat template") {
    this.source = source;
    this.#tokenizer = tokenizer;
    this.#where = where;
    this.callStyle = source.includes("<tool_call>\\n") ? "lines" : "compact";
    try {
      this.#template = new Template(source);
    } catch (cause) {
      throw this.#error("The chat template is not valid Jinja.", (cause as Error).message, "a Jinja template", cause);
    }
    this.endOfTurn = this.#findEndOfTurn();
  }

  /** From chat_template.jinja, else from tokenizer_config.json. @throws AgentRLError TOKENIZER when there is none. */
  static load(folder: string, tokenizer: Tokenizer): ChatTemplate {
    const file = path.join(folder, "chat_template.jinja");
    if (existsSync(file)) return new ChatTemplate(tokenizer, readFileSync(file, "utf8"), file);
    return ChatTemplate.ofConfig(tokenizer, path.join(folder, "tokenizer_config.json"));
  }

  /** From the tokenizer's own config, which `where` names. @throws AgentRLError TOKENIZER when it has none. */
  static ofConfig(tokenizer: Tokenizer, where: string): ChatTemplate {
    const entry = tokenizer.config.chat_template;
    // A list holds named templates.
    const source = Array.isArray(entry)
      ? ["tool_use", "default"].map((name) => entry.find((item: Json) => item.name === name)?.template).find(Boolean)
      : entry;
    if (typeof source === "string") return new ChatTemplate(tokenizer, source, where);
    throw new AgentRLError("TOKENIZER", "The model has no chat template.", {
      where,
      got: entry === undefined ? "no chat_template" : entry,
      expected: "chat_template in tokenizer_config.json, or chat_template.jinja",
      hint: "Use the chat version of the model, or put a template into its folder.",
    });
  }

  /** Ids of an episode's first messages and what opens the assistant's turn. */
  renderPrompt(messages: readonly Message[], tools: readonly ToolSpec[] = []): Uint32Array {
    const data = { messages: messages.map(toTemplateMessage), tools: tools.map(toOpenAiTool) };
    const guard = this.#tokenizer.guard(strings(data));
    return this.#tokenizer.encodeMarkup(this.#render(data.messages, data.tools, true, guard), guard);
  }

  /**
   * Ids that follow a sampled assistant turn: what the template puts between its end-of-turn token and the new
   * messages, these, and what opens the next turn. With `closeTurn` the end-of-turn token comes first: for a turn that
   * was cut before the policy ended it. Found by rendering a stand-in conversation with and without the messages.
   * @throws AgentRLError TOKENIZER when the template changes earlier turns as messages are added.
   */
  renderAppended(messages: readonly Message[], options: { closeTurn?: boolean } = {}): Uint32Array {
    const added = messages.map(toTemplateMessage);
    const guard = this.#tokenizer.guard(strings(added));
    const suffix = this.#renderSuffix(added, guard);
    return this.#tokenizer.encodeMarkup(options.closeTurn ? this.endOfTurn.content + suffix : suffix, guard);
  }

  /** Ids of the turn in which the policy does `action`, with the end-of-turn token: the target of supervised training. */
  renderAssistant(action: Action): Uint32Array {
    const pieces = formatPieces(action, this.callStyle);
    const guard = this.#tokenizer.guard(pieces.map(({ text }) => text));
    const text = pieces.map((piece) => (piece.markup ? piece.text : guard.protect(piece.text))).join("");
    return this.#tokenizer.encodeMarkup(text + this.endOfTurn.content, guard);
  }

  #renderSuffix(added: readonly Json[], guard: Guard): string {
    const calls = added
      .filter((message) => message.role === "tool")
      .map((message, index) => ({
        id: message.tool_call_id ?? String(index),
        type: "function",
        function: { name: message.name ?? "tool", arguments: {} },
      }));
    // Some templates take a tool's message only after a call, others allow one call at most.
    const turns: Json[] = [{ role: "assistant", content: "Yes." }];
    if (calls.length > 0) turns.push({ role: "assistant", content: "Yes.", tool_calls: calls });
    let refusal: unknown;
    for (const turn of turns) {
      const before = [{ role: "user", content: "Go." }, turn];
      let base: string;
      let full: string;
      try {
        base = this.#render(before, [], false, guard);
        full = this.#render([...before, ...added], [], true, guard);
      } catch (error) {
        if (!(error instanceof AgentRLError)) throw error;
        refusal ??= error;
        continue;
      }
      const cut = base.lastIndexOf(this.endOfTurn.content) + this.endOfTurn.content.length;
      if (full.startsWith(base.slice(0, cut))) return full.slice(cut);
      refusal ??= this.#error(
        "The chat template changes earlier turns when messages are added, so messages cannot be appended.",
        full.slice(0, cut + 40),
        `a text that starts with ${JSON.stringify(base.slice(0, cut))}`,
      );
    }
    throw refusal;
  }

  #render(messages: readonly Json[], tools: readonly Json[], addGenerationPrompt: boolean, guard?: Guard): string {
    const protect = (value: unknown): unknown => (guard === undefined ? value : mapStrings(value, guard.protect));
    const special = (name: string) => this.#tokenizer.namedToken(name) ?? "";
    try {
      return this.#template.render({
        messages: messages.map((message) => ({ ...(protect(message) as Json), role: message.role })),
        // Templates ask "if tools": absent and empty must be the same.
        tools: tools.length > 0 ? protect(tools) : undefined,
        add_generation_prompt: addGenerationPrompt,
        bos_token: special("bos_token"),
        eos_token: special("eos_token"),
        pad_token: special("pad_token"),
        unk_token: special("unk_token"),
      });
    } catch (cause) {
      const roles = messages.map(({ role }) => role).join(", ");
      throw this.#error("The chat template refuses the messages.", (cause as Error).message, `roles ${roles}`, cause);
    }
  }

  #findEndOfTurn(): ControlToken {
    const probe = "Yes.";
    const text = this.#render(
      [
        { role: "user", content: "Go." },
        { role: "assistant", content: probe },
      ],
      [],
      false,
    );
    const after = text.slice(text.lastIndexOf(probe) + probe.length);
    const ids = this.#tokenizer.encodeMarkup(after);
    const id = ids.find((candidate) => this.#tokenizer.isControl(candidate));
    const content = id === undefined ? undefined : this.#tokenizer.tokenString(id);
    if (!text.includes(probe) || id === undefined || content === undefined) {
      throw this.#error(
        "The chat template does not end an assistant's turn with a control token of the tokenizer.",
        after,
        "a control token after the turn's content",
      );
    }
    return { id, content };
  }

  #error(what: string, got: string, expected: string, cause?: unknown): AgentRLError {
    return new AgentRLError("TOKENIZER", what, { where: this.#where, got, expected, hint: useOther, cause });
  }
}

const toolSchemas = new WeakMap<ToolSpec, Json>();

/** A tool as the OpenAI API, and so every chat template, writes it. */
export function toOpenAiTool(tool: ToolSpec): Json {
  let json = toolSchemas.get(tool);
  if (json === undefined) {
    json = toolsAsJson([tool])[0] as Json;
    toolSchemas.set(tool, json);
  }
  return json;
}

function toTemplateMessage(message: Message): Json {
  const { role, content, toolCalls, toolCallId, name } = message;
  return {
    role,
    content,
    ...(toolCalls === undefined || toolCalls.length === 0
      ? {}
      : {
          tool_calls: toolCalls.map((call) => ({
            id: call.id,
            type: "function",
            function: { name: call.name, arguments: call.arguments },
          })),
        }),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
    ...(name === undefined ? {} : { name }),
  };
}

/** Every string in a JSON value, keys included. */
function* strings(value: unknown): Generator<string> {
  if (typeof value === "string") yield value;
  else if (Array.isArray(value)) for (const item of value) yield* strings(item);
  else if (typeof value === "object" && value !== null) {
    for (const [key, item] of Object.entries(value)) {
      yield key;
      yield* strings(item);
    }
  }
}

/** Keys that are plain words stay: templates look fields up by them. */
function mapStrings(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((item) => mapStrings(item, map));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [/^\w+$/.test(key) ? key : map(key), mapStrings(item, map)]),
    );
  }
  return value;
}
