/**
 * A model behind an endpoint that takes turns of training episodes. It is sent the messages, and its answer becomes tokens
 * by the trained model's own chat template: context, which is not trained unless the server tells what each of these very
 * tokens was sampled with.
 */
import type { Message, ToolSpec } from "../env/environment.ts";
import { AgentRLError } from "../errors.ts";
import type { Endpoint } from "../policy/endpoint.ts";
import { alignLogProbs } from "../policy/endpoint-tokens.ts";
import { mix32 } from "../rl/sampler.ts";
import type { Dialect } from "./dialect.ts";
import type { TakenTurn, TurnPolicy, TurnRequest } from "./turn-policy.ts";

export interface EndpointPolicyOptions {
  endpoint: Endpoint;
  dialect: Dialect;
  tools: readonly ToolSpec[];
  /** Tokens that the episode may hold. */
  contextLimit: number;
}

export class EndpointPolicy implements TurnPolicy {
  readonly #options: EndpointPolicyOptions;

  constructor(options: EndpointPolicyOptions) {
    this.#options = options;
  }

  /** @throws AgentRLError ENDPOINT when the server gives no turn: the sample is played again. */
  async take({ record, messages, turn, options }: TurnRequest): Promise<TakenTurn> {
    const { endpoint, dialect, tools, contextLimit } = this.#options;
    const { key, group, sample } = options.seed;
    const seed = mix32(mix32(mix32(key, group), sample), turn);
    const request = { messages: withOwnIds(messages), tools, seed, maxTokens: options.maxTokens };
    const said = await endpoint.complete(request).catch((error) => {
      throw new AgentRLError("ENDPOINT", error instanceof Error ? error.message : String(error), { cause: error });
    });
    if (said.end === "context") return { end: "context" };
    // A server without a parser of its own leaves calls in the text.
    const { action, parseFailure } =
      said.action.calls.length > 0
        ? { action: said.action, parseFailure: false }
        : dialect.template.parseTurn(said.action.text, tools);
    const rendered = dialect.template.renderAssistant(action);
    // A turn that was cut off has no end.
    const tokens = said.end === "stop" ? rendered : rendered.subarray(0, -1);
    // Room for an answer, and for a token that is sampled after it.
    if (record.length + tokens.length >= contextLimit) return { end: "context" };
    const logProbs = said.tokens && alignLogProbs(rendered, said.tokens, dialect.tokenizer);
    record.externalTurn(tokens, logProbs?.slice(0, tokens.length));
    return said.end === "stop" ? { end: "stop", action, parseFailure } : { end: "length" };
  }
}

/** Calls are numbered anew in every turn of this process; some servers want ids that are not used twice. */
function withOwnIds(messages: readonly Message[]): Message[] {
  let turn = -1;
  const own = (id: string) => `turn${turn}_${id}`;
  return messages.map((message) => {
    if (message.role === "assistant") turn++;
    const { toolCalls, toolCallId } = message;
    return {
      ...message,
      ...(toolCalls && { toolCalls: toolCalls.map((call) => ({ ...call, id: own(call.id) })) }),
      ...(toolCallId !== undefined && { toolCallId: own(toolCallId) }),
    };
  });
}
