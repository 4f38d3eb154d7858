/** The tiny model behind a real port, and what a client does with it. */
import { fileURLToPath } from "node:url";
import { openServed, type ServedEngine } from "../../src/serve/open.ts";
import { type RunningServer, type ServeOptions, serveModel } from "../../src/serve/serve.ts";

export const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));

export interface TestServer extends RunningServer {
  model: ServedEngine;
  post(body: object, init?: RequestInit): Promise<Response>;
  close(): Promise<void>;
}

export async function startServer(options: Partial<ServeOptions> = {}): Promise<TestServer> {
  const { maxConversations = 8 } = options;
  const model = await openServed(tiny, { maxConversations });
  const server = await serveModel(model, {
    ...{ host: "127.0.0.1", port: 0, name: model.name, maxConversations },
    ...options,
  });
  return {
    ...server,
    model,
    post: (body, init) =>
      fetch(`${server.url}/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "tiny", ...body }),
        ...init,
      }),
    async close() {
      await server.stop(0);
      await model.close();
    },
  };
}

// biome-ignore lint/suspicious/noExplicitAny: the body is what the test is about
export type Json = any;

/** The chunks of a stream, and whether it was ended as it should be. */
export async function* chunksOf(response: Response): AsyncGenerator<Json> {
  let text = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let at = text.indexOf("\n\n"); at >= 0; at = text.indexOf("\n\n")) {
      const event = text.slice(0, at);
      text = text.slice(at + 2);
      if (event === "data: [DONE]") return;
      yield JSON.parse(event.slice("data: ".length));
    }
  }
  throw new Error("the stream ended without [DONE]");
}

/** A stream's chunks put together in the form of a whole answer's choices. */
export function assembled(chunks: readonly Json[]): Json[] {
  const choices: Json[] = [];
  for (const { choices: parts } of chunks) {
    for (const { index, delta, logprobs, finish_reason, token_ids = [] } of parts) {
      choices[index] ??= {
        index,
        content: "",
        thinking: "",
        calls: [],
        logprobs: [],
        token_ids: [],
        finish_reason: null,
      };
      const choice = choices[index];
      choice.content += delta.content ?? "";
      choice.thinking += delta.reasoning_content ?? "";
      choice.calls.push(...(delta.tool_calls ?? []).map((call: Json) => call.function));
      choice.logprobs.push(...(logprobs?.content ?? []));
      choice.token_ids.push(...token_ids);
      choice.finish_reason ??= finish_reason;
    }
  }
  return choices;
}

/** A whole answer's choices in the same form. */
export function whole({ choices }: Json): Json[] {
  return choices.map(({ index, message, logprobs, finish_reason, token_ids = [] }: Json) => ({
    index,
    content: message.content ?? "",
    thinking: message.reasoning_content ?? "",
    calls: (message.tool_calls ?? []).map((call: Json) => call.function),
    logprobs: logprobs?.content ?? [],
    token_ids,
    finish_reason,
  }));
}
