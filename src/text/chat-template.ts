/**
 * A model's own chat template (Jinja, as in tokenizer_config.json), used so that nothing is rendered twice: the first
 * messages are rendered once, and each later message is rendered alone and appended to the ids that are there. What
 * messages say cannot form control tokens (see Tokenizer.guard). With the template goes how the model's turns are read.
 */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { toolsAsJson } from "../env/define.ts";
import type { Action, Message, ToolSpec } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import { detectToolFormat, formatJson, type ToolFormat, toolFormat } from "./formats/index.ts";
import { JinjaTemplate } from "./jinja.ts";
import {
  checkVariables,
  mergeSettings,
  standingClock,
  type TextSettings,
  type TextVariables,
} from "./text-settings.ts";
import type { Guard, Json, Tokenizer } from "./tokenizer.ts";
import { formatTurn, parseTurn, turnPieces } from "./tool-calls.ts";
import { type ParsedTurn, TurnParser, thinkEnd, thinkStart } from "./turn-parser.ts";

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
  /** How the model writes tool calls. */
  readonly toolFormat: ToolFormat;
  /** Variables that the template sees beside the messages. */
  readonly variables: TextVariables;
  readonly #tokenizer: Tokenizer;
  readonly #template: JinjaTemplate;
  readonly #where: string;
  /** What opens the assistant's turn opens a thinking block as well. */
  readonly #inThinking: boolean;
  /** The template tells the policy of its tools, and of the calls that were made. */
  readonly #shows: { tools: boolean; calls: boolean };

  /**
   * @throws AgentRLError TOKENIZER when the template is malformed or ends its turns with no control token; CONFIG for a
   * tool-call format that cannot be told from it, or a variable that it does not use.
   */
  constructor(tokenizer: Tokenizer, source: string, where = "chat template", settings: TextSettings = {}) {
    this.source = source;
    this.#tokenizer = tokenizer;
    this.#where = where;
    this.variables = settings.templateVariables ?? {};
    checkVariables(this.variables, source, where);
    try {
      this.#template = new JinjaTemplate(source);
    } catch (cause) {
      throw this.#error("The chat template is not valid Jinja.", (cause as Error).message, "a Jinja template", cause);
    }
    this.endOfTurn = this.#findEndOfTurn();
    const named = settings.toolFormat ?? "auto";
    this.toolFormat = toolFormat(named === "auto" ? detectToolFormat(source, where) : named, source);
    const go = [{ role: "user", content: "Go." }];
    this.#inThinking = this.#render(go, [], true).trimEnd().endsWith(thinkStart);
    this.#shows = this.#findShown(go);
  }

  /**
   * From chat_template.jinja, else from tokenizer_config.json. The settings, or those that the folder was saved with,
   * become part of `tokenizer.config`: whoever loads the saved model reads its turns in the same way.
   * @throws AgentRLError TOKENIZER when there is none.
   */
  static load(folder: string, tokenizer: Tokenizer, given: TextSettings = {}): ChatTemplate {
    const settings = mergeSettings(tokenizer.config, given);
    const file = path.join(folder, "chat_template.jinja");
    if (existsSync(file)) return new ChatTemplate(tokenizer, readFileSync(file, "utf8"), file, settings);
    return ChatTemplate.#ofConfig(tokenizer, path.join(folder, "tokenizer_config.json"), settings);
  }

  /** From the tokenizer's own config, which `where` names. @throws AgentRLError TOKENIZER when it has none. */
  static ofConfig(tokenizer: Tokenizer, where: string, given: TextSettings = {}): ChatTemplate {
    return ChatTemplate.#ofConfig(tokenizer, where, mergeSettings(tokenizer.config, given));
  }

  static #ofConfig(tokenizer: Tokenizer, where: string, settings: TextSettings): ChatTemplate {
    const entry = tokenizer.config.chat_template;
    // A list holds named templates.
    const source = Array.isArray(entry)
      ? ["tool_use", "default"].map((name) => entry.find((item: Json) => item.name === name)?.template).find(Boolean)
      : entry;
    if (typeof source === "string") return new ChatTemplate(tokenizer, source, where, settings);
    throw new AgentRLError("TOKENIZER", "The model has no chat template.", {
      where,
      got: entry === undefined ? "no chat_template" : entry,
      expected: "chat_template in tokenizer_config.json, or chat_template.jinja",
      hint: "Use the chat version of the model, or put a template into its folder.",
    });
  }

  /** Ids of an episode's first messages and what opens the assistant's turn. */
  renderPrompt(messages: readonly Message[], tools: readonly ToolSpec[] = []): Uint32Array {
    const { text, guard } = this.#renderWhole(messages, tools);
    return this.#tokenizer.encodeMarkup(text, guard);
  }

  /** The text that renderPrompt encodes. */
  promptText(messages: readonly Message[], tools: readonly ToolSpec[] = []): string {
    const { text, guard } = this.#renderWhole(messages, tools);
    return guard.strip(text);
  }

  #renderWhole(messages: readonly Message[], tools: readonly ToolSpec[]): { text: string; guard: Guard } {
    const shown = this.#shows.tools || tools.length === 0 ? messages : this.#withTools(messages, tools);
    const data = { messages: this.#toMessages(shown), tools: this.#shows.tools ? tools.map(toOpenAiTool) : [] };
    const guard = this.#tokenizer.guard(strings(data));
    return { text: this.#render(data.messages, data.tools, true, guard), guard };
  }

  /**
   * Ids that follow a sampled assistant turn: what the template puts between its end-of-turn token and the new
   * messages, these, and what opens the next turn. With `closeTurn` the end-of-turn token comes first: for a turn that
   * was cut before the policy ended it. Found by rendering a stand-in conversation with and without the messages. A
   * template may leave old thinking out; the record keeps it, as it was sampled.
   * @throws AgentRLError TOKENIZER when the template changes earlier turns as messages are added.
   */
  renderAppended(messages: readonly Message[], options: { closeTurn?: boolean } = {}): Uint32Array {
    const added = this.#toMessages(messages);
    const guard = this.#tokenizer.guard(strings(added));
    const suffix = this.#renderSuffix(added, guard);
    return this.#tokenizer.encodeMarkup(options.closeTurn ? this.endOfTurn.content + suffix : suffix, guard);
  }

  /** Ids of the turn in which the policy does `action`, with the end-of-turn token: the target of supervised training. */
  renderAssistant(action: Action): Uint32Array {
    const pieces = turnPieces(action, this.toolFormat, this.#inThinking);
    const guard = this.#tokenizer.guard(pieces.map(({ text }) => text));
    const text = pieces.map((piece) => (piece.markup ? piece.text : guard.protect(piece.text))).join("");
    return this.#tokenizer.encodeMarkup(text + this.endOfTurn.content, guard);
  }

  /** Reads a turn of the policy, decoded without its end-of-turn token but with all other control tokens. */
  parseTurn(turn: string, tools: readonly ToolSpec[]): ParsedTurn {
    return parseTurn(turn, { format: this.toolFormat, tools, inThinking: this.#inThinking });
  }

  /** parseTurn for a turn that comes in pieces; `format`: another than the model's. */
  turnParser(tools: readonly ToolSpec[], format: Pick<ToolFormat, "grammar"> = this.toolFormat): TurnParser {
    return new TurnParser(format, tools, this.#inThinking);
  }

  #renderSuffix(added: readonly Json[], guard: Guard): string {
    let stand = "Yes.";
    while ([...strings(added)].some((text) => text.includes(stand))) stand += "Yes.";
    const calls = added
      .filter((message) => message.role === "tool")
      .map((message, index) => ({
        id: message.tool_call_id ?? String(index),
        type: "function",
        function: { name: message.name ?? "tool", arguments: {} },
      }));
    // Some templates take a tool's message only after a call, others allow one call at most.
    const turns: Json[] = [{ role: "assistant", content: stand }];
    if (calls.length > 0) turns.push({ role: "assistant", content: stand, tool_calls: calls });
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
      const end = base.lastIndexOf(this.endOfTurn.content) + this.endOfTurn.content.length;
      const [head, tail] = splitAt(base.slice(0, end), stand);
      const [fullHead, fullTail] = splitAt(full, stand);
      if (withoutThinking(head) === withoutThinking(fullHead) && fullTail.startsWith(tail)) {
        return fullTail.slice(tail.length);
      }
      refusal ??= this.#error(
        "The chat template changes earlier turns when messages are added, so messages cannot be appended.",
        full.slice(0, end + 40),
        `a text that starts with ${JSON.stringify(base.slice(0, end))}`,
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
        ...standingClock,
        ...this.variables,
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

  /** Whether the template makes anything of tools, and of calls. A template that refuses them would say so in use. */
  #findShown(go: readonly Json[]): { tools: boolean; calls: boolean } {
    const named = (name: string) => ({ type: "function", id: "0", function: { name, arguments: {}, parameters: {} } });
    const shows = (messages: readonly Json[], tools: readonly Json[]) => {
      try {
        return this.#render(messages, tools, false).includes("probe");
      } catch (error) {
        if (error instanceof AgentRLError) return true;
        throw error;
      }
    };
    const turn = { role: "assistant", content: "", tool_calls: [named("probe")] };
    return { tools: shows(go, [named("probe")]), calls: shows([...go, turn], []) };
  }

  /** For a template that shows no tools: they go into the system message. */
  #withTools(messages: readonly Message[], tools: readonly ToolSpec[]): Message[] {
    const list = tools.map((tool) => formatJson(toOpenAiTool(tool))).join("\n");
    const text = `You have these tools:\n${list}\n\n${this.toolFormat.instructions}`;
    const [first, ...rest] = messages;
    if (first?.role !== "system") return [{ role: "system", content: text }, ...messages];
    return [{ ...first, content: `${first.content}\n\n${text}` }, ...rest];
  }

  #toMessages(messages: readonly Message[]): Json[] {
    return messages.map((message) => {
      const calls = message.toolCalls ?? [];
      if (this.#shows.calls || calls.length === 0) return toTemplateMessage(message);
      const content = formatTurn({ text: message.content, calls }, this.toolFormat);
      return toTemplateMessage({ role: message.role, content });
    });
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
  const { role, content, thinking, toolCalls, toolCallId, name } = message;
  return {
    role,
    content,
    // The name that Qwen 3's template, and servers with a reasoning parser, have for it.
    ...(thinking === undefined ? {} : { reasoning_content: thinking }),
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

function splitAt(text: string, stand: string): [string, string] {
  const at = text.lastIndexOf(stand);
  return at < 0 ? ["", text] : [text.slice(0, at), text.slice(at)];
}

/** The text without thinking blocks, which templates leave out of all turns but the last. */
function withoutThinking(text: string): string {
  const start = text.lastIndexOf(thinkStart);
  const end = text.indexOf(thinkEnd, start);
  return start < 0 || end < 0 ? text : text.slice(0, start) + text.slice(end + thinkEnd.length).trimStart();
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
