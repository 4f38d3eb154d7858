/**
 * What a model's tokens say, as they come: decoded, cut at a stop string, read by the parser that training reads with.
 * Calls come at the turn's end: only then is it known that the turn is well formed, and of one that is not nothing is
 * carried out. The pieces put together are the whole answer.
 */
import type { ToolCall, ToolSpec } from "../env/environment.ts";
import type { Dialect } from "../pipeline/dialect.ts";
import { plain } from "../text/formats/plain.ts";
import type { StreamDecoder } from "../text/tokenizer.ts";
import type { ParserEvent, TurnParser } from "../text/turn-parser.ts";
import { StopStrings } from "./stop-strings.ts";

export interface Delta {
  thinking?: string;
  text?: string;
  calls?: ToolCall[];
}

export interface AnswerOptions {
  dialect: Dialect;
  tools: readonly ToolSpec[];
  /** Whether calls are read as such; where not, they are text. */
  readCalls: boolean;
  stop?: readonly string[];
}

export class Answer {
  readonly #dialect: Dialect;
  readonly #decoder: StreamDecoder;
  readonly #stops: StopStrings;
  readonly #parser: TurnParser;
  /** How much was given on. */
  readonly #sent = { thinking: 0, text: 0 };
  /** A block of calls has begun: what text there is besides is known at the end. */
  #calling = false;
  #ended = false;

  constructor({ dialect, tools, readCalls, stop = [] }: AnswerOptions) {
    this.#dialect = dialect;
    this.#decoder = dialect.tokenizer.decodeStream();
    this.#stops = new StopStrings(stop);
    this.#parser = dialect.template.turnParser(tools, readCalls ? undefined : plain);
  }

  /** A stop string has come: nothing after it counts. */
  get stopped(): boolean {
    return this.#stops.found;
  }

  /** The turn was ended, by its end token or by a stop string. */
  get ended(): boolean {
    return this.#ended || this.#stops.found;
  }

  push(token: number): Delta {
    if (this.#dialect.stopTokens.includes(token)) {
      this.#ended = true;
      return {};
    }
    return this.#read(this.#stops.push(this.#decoder.push(token)));
  }

  /** What was held back, and the calls. */
  end(): Delta {
    const last = this.#stops.push(this.#decoder.end());
    const first = this.#read(last + this.#stops.end());
    const { action } = this.#parser.end();
    const thinking = (first.thinking ?? "") + (action.thinking ?? "").slice(this.#sent.thinking);
    const text = (first.text ?? "") + action.text.slice(this.#sent.text);
    return { ...deltaOf(thinking, text), ...(action.calls.length > 0 && { calls: action.calls }) };
  }

  #read(piece: string): Delta {
    return piece === "" ? {} : this.#give(this.#parser.push(piece));
  }

  #give(events: readonly ParserEvent[]): Delta {
    let thinking = "";
    let text = "";
    for (const event of events) {
      if (event.type === "call") this.#calling = true;
      else if (event.type === "thinking") thinking += event.text;
      else if (!this.#calling) text += event.text;
    }
    this.#sent.thinking += thinking.length;
    this.#sent.text += text.length;
    return deltaOf(thinking, text);
  }
}

function deltaOf(thinking: string, text: string): Delta {
  return { ...(thinking !== "" && { thinking }), ...(text !== "" && { text }) };
}
