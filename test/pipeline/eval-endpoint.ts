/** A real OpenAI-compatible server on this machine, whose answers a test scripts. */
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";

export interface ChatRequest {
  model: string;
  messages: {
    role: string;
    content: string;
    tool_calls?: { id: string; function: { name: string; arguments: string } }[];
    tool_call_id?: string;
  }[];
  tools?: { function: { name: string; parameters: Record<string, unknown> } }[];
  temperature?: number;
  max_tokens?: number;
  logprobs?: boolean;
  seed: number;
}

/** What the server answers: a message of the assistant, or a status with headers and a text. */
export type Reply =
  | {
      content?: string;
      calls?: { id?: string; name: string; arguments: string }[];
      finish?: string;
      logprobs?: { token: string; logprob: number; bytes?: number[] | null }[];
    }
  | { status: number; headers?: Record<string, string>; text?: string };

export interface TestEndpoint {
  /** With /v1. */
  url: string;
  requests: { body: ChatRequest; authorization: string | undefined; at: number }[];
  close: () => Promise<void>;
}

export async function startEndpoint(
  answer: (body: ChatRequest, number: number) => Reply | Promise<Reply>,
): Promise<TestEndpoint> {
  const requests: TestEndpoint["requests"] = [];
  const app = new Hono();
  app.post("/v1/chat/completions", async (context) => {
    const body = await context.req.json<ChatRequest>();
    requests.push({ body, authorization: context.req.header("authorization"), at: performance.now() });
    const reply = await answer(body, requests.length - 1);
    if ("status" in reply)
      return new Response(reply.text ?? "", { status: reply.status, headers: reply.headers ?? {} });
    const tool_calls = reply.calls?.map(({ id, name, arguments: args }, at) => ({
      id: id ?? `call_${at}`,
      type: "function",
      function: { name, arguments: args },
    }));
    return context.json({
      id: "chatcmpl-1",
      object: "chat.completion",
      model: body.model,
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: reply.content ?? null, ...(tool_calls && { tool_calls }) },
          ...(reply.logprobs && { logprobs: { content: reply.logprobs } }),
          finish_reason: reply.finish ?? (tool_calls ? "tool_calls" : "stop"),
        },
      ],
    });
  });
  const server = await new Promise<ReturnType<typeof serve>>((resolve) => {
    const started = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, () => resolve(started));
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    requests,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        if ("closeAllConnections" in server) server.closeAllConnections();
      }),
  };
}
