/** Chat completions over real HTTP, from the tiny model: against the engine, against the training pass, against bad clients. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { NativeDevice } from "../../src/device/native.ts";
import { toolsAsJson } from "../../src/env/define.ts";
import { loadFolder } from "../../src/model/load.ts";
import { TrainPass } from "../../src/model/train-pass.ts";
import { openEnvironment } from "../../src/pipeline/environments.ts";
import { runEvaluation } from "../../src/pipeline/evaluate.ts";
import { toWire } from "../../src/policy/endpoint.ts";
import { assertGuarded } from "../../src/serve/serve.ts";
import { failureOf } from "../failure.ts";
import { assembled, chunksOf, type Json, startServer, type TestServer, tiny, whole } from "./support.ts";

let server: TestServer;
/** First messages and tools of a task that the tiny model can play. */
let task: { messages: object[]; tools: object[] };

beforeAll(async () => {
  server = await startServer();
  const environment = await openEnvironment({ name: "kg", options: { prompt: "brief" } });
  const session = await environment.start("eval", environment.split("eval").indices[0]!, 1);
  task = { messages: session.messages.map(toWire), tools: toolsAsJson(environment.tools) };
  await session.close();
  await environment.close();
});
afterAll(() => server.close());

const hello = { messages: [{ role: "user", content: "hello" }], seed: 3, max_tokens: 24 };
const ask = async (body: object): Promise<Json> => {
  const response = await server.post(body);
  expect(response.status).toBe(200);
  return response.json();
};
const collect = (response: Response): Promise<Json[]> => collectFrom(chunksOf(response));
async function collectFrom(stream: AsyncIterable<Json>): Promise<Json[]> {
  const chunks: Json[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

describe("an answer", () => {
  it("calls a tool in the form that OpenAI's clients read", async () => {
    const answer = await ask({ ...task, temperature: 0 });
    expect(answer).toMatchObject({ object: "chat.completion", model: "tiny" });
    const [{ message, finish_reason }] = answer.choices;
    expect(finish_reason).toBe("tool_calls");
    expect(message).toMatchObject({ role: "assistant", content: null });
    expect(message.tool_calls).toEqual([
      { id: expect.stringMatching(/^call_\w+$/), type: "function", function: expect.any(Object) },
    ]);
    const { name, arguments: args } = message.tool_calls[0].function;
    expect(name).toBe("get_relations");
    expect(JSON.parse(args)).toEqual({ variable: "Kyoto" });
    const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
    expect(total_tokens).toBe(prompt_tokens + completion_tokens);
    expect(answer.usage.prompt_tokens_details).toEqual({ cached_tokens: 0 });
  });

  it("leaves calls in the text where tools may not be called, and shows the model none", async () => {
    const none = await ask({ ...task, tool_choice: "none", temperature: 0, return_token_ids: true, max_tokens: 4 });
    const { tools: _, ...without } = task;
    const bare = await ask({ ...without, temperature: 0, return_token_ids: true, max_tokens: 4 });
    expect(none.prompt_token_ids).toEqual(bare.prompt_token_ids);
    expect(whole(none)).toEqual(whole(bare));
    expect(none.choices[0].message.tool_calls).toBeUndefined();
  });

  it.each([
    ["text", { ...hello, temperature: 2, n: 3 }],
    ["a call", "task"],
    ["text with a stop string", { ...hello, temperature: 1, stop: [" "] }],
    ["the end of the context", { ...hello, temperature: 10, seed: 1, max_tokens: 64 }],
  ])("streamed is the whole answer in pieces: %s", async (_, body) => {
    const request = {
      ...(body === "task" ? { ...task, temperature: 0 } : (body as object)),
      logprobs: true,
      return_token_ids: true,
    };
    const answer = await ask(request);
    const chunks = await collect(
      await server.post({ ...request, stream: true, stream_options: { include_usage: true } }),
    );
    expect(assembled(chunks)).toEqual(whole(answer));
    expect(chunks[0].prompt_token_ids).toEqual(answer.prompt_token_ids);
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: answer.usage });
    expect(chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true);
    expect(answer.usage.completion_tokens).toBe(answer.choices.flatMap((choice: Json) => choice.token_ids).length);
  });

  it("is the same for the same seed, alone or beside others; another seed gives another", async () => {
    const request = { ...hello, temperature: 1.5, return_token_ids: true };
    const alone = whole(await ask(request));
    const beside = await Promise.all([1, 2, 3, 3].map((seed) => ask({ ...request, seed })));
    expect(whole(beside[2])).toEqual(alone);
    expect(whole(beside[3])).toEqual(alone);
    expect(whole(beside[0])).not.toEqual(alone);
    // A seed's upper half counts as well.
    expect(whole(await ask({ ...request, seed: 3 + 2 ** 40 }))).not.toEqual(alone);
    // The first of several choices is the only one of one.
    const several = await ask({ ...request, n: 3 });
    expect(whole(several)[0]).toEqual(alone[0]);
    expect(new Set(several.choices.map((choice: Json) => choice.token_ids.join())).size).toBe(3);
  });

  it("has the log-probabilities of the training pass, bit for bit", async () => {
    const device = new NativeDevice({ threads: 1 });
    const pass = new TrainPass(device, server.model.config, { maxRows: 256, maxScored: 64 });
    const weights = loadFolder(device, tiny, "weights");
    for (const temperature of [0, 0.7, 1.3]) {
      const answer = await ask({ ...hello, temperature, top_p: 0.9, logprobs: true, return_token_ids: true });
      const prompt: number[] = answer.prompt_token_ids;
      const [{ token_ids: ids, logprobs }] = answer.choices;
      const tokens = [...prompt, ...ids];
      const { logProbs } = await pass.forward(weights, {
        tokens: Uint32Array.from(tokens.slice(0, -1)),
        offsets: Uint32Array.of(0, tokens.length - 1),
        scoredRows: Uint32Array.from(ids, (_: number, i: number) => prompt.length - 1 + i),
        targets: Uint32Array.from(ids),
        temperatures: new Float32Array(ids.length).fill(temperature || 1),
      });
      expect(logprobs.content.map((token: Json) => token.logprob)).toEqual([...logProbs]);
      const { tokenizer } = server.model.dialect;
      expect(logprobs.content.map((token: Json) => token.bytes)).toEqual(
        ids.map((id: number) => [...tokenizer.tokenBytes(id)!]),
      );
    }
    pass.destroy();
    device.destroy();
  });

  it("ends at a stop string, which is not part of it", async () => {
    const request = { ...hello, temperature: 1, return_token_ids: true };
    const [{ content }] = whole(await ask(request));
    // Across the borders of tokens: from the middle of one word into the next.
    const stop = content.slice(9, 14);
    const [cut] = whole(await ask({ ...request, stop: ["never said", stop] }));
    expect(cut).toMatchObject({ content: content.slice(0, content.indexOf(stop)), finish_reason: "stop" });
    expect(cut.token_ids.length).toBeLessThan(24);
  });

  it("sampled from the likeliest token alone is the greedy one", async () => {
    const greedy = whole(await ask({ ...hello, temperature: 0, return_token_ids: true }));
    for (const one of [{ top_k: 1 }, { min_p: 1 }, { top_p: 1e-6 }]) {
      expect(whole(await ask({ ...hello, ...one, return_token_ids: true }))).toEqual(greedy);
    }
  });
});

describe("the tiny model behind the endpoint", () => {
  it.each(["kg", "dbbench"])("plays %s as it does in this process, word for word", async (name) => {
    const folder = mkdtempSync(join(tmpdir(), "agentrl-serve-"));
    const play = async (policy: string, out: string) => {
      const common = { task: name, seed: 1, episodes: 5, temperature: 0, maxTokensPerTurn: 64, concurrency: 4 };
      const report = await runEvaluation({ ...common, policy, out: join(folder, out) });
      const [, ...lines] = readFileSync(join(folder, out), "utf8").trimEnd().split("\n");
      const episodes = lines.map((line) => JSON.parse(line)).sort((a, b) => a.index - b.index);
      return {
        report,
        episodes: episodes.map(({ index, messages, reward, endReason }) => ({
          index,
          messages: withoutIds(messages),
          reward,
          endReason,
        })),
      };
    };
    try {
      const here = await play(tiny, "here.jsonl");
      const there = await play(`${server.url}#tiny`, "there.jsonl");
      expect(here.episodes).toHaveLength(5);
      expect(here.episodes.flatMap(({ messages }) => messages).some(({ toolCalls }) => toolCalls !== undefined)).toBe(
        true,
      );
      expect(there.episodes).toEqual(here.episodes);
      expect(there.report.meanReward).toBe(here.report.meanReward);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

/** Over HTTP calls have ids that differ between turns; in this process they are numbered within theirs. */
function withoutIds(messages: Json[]): Json[] {
  return messages.map(({ toolCallId: _, toolCalls, ...message }) => ({
    ...message,
    ...(toolCalls && { toolCalls: toolCalls.map(({ id: _, ...call }: Json) => call) }),
  }));
}

describe("a request that cannot be carried out", () => {
  it.each([
    [{ messages: [] }, "messages"],
    [{ messages: [{ role: "alien", content: "" }] }, "messages.0.role"],
    [
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] },
      "messages.0.content.0.type",
    ],
    [{ messages: [{ role: "user" }] }, "messages.0.content"],
    [{ messages: [{ role: "tool", content: "", tool_call_id: "x" }] }, "messages.0.tool_call_id"],
    [{ temperature: -1 }, "temperature"],
    [{ temperature: "1" }, "temperature"],
    [{ top_p: 0 }, "top_p"],
    [{ max_tokens: 0 }, "max_tokens"],
    [{ max_tokens: 3, max_completion_tokens: 4 }, "max_tokens"],
    [{ n: 9 }, "n"],
    [{ seed: 1.5 }, "seed"],
    [{ stop: "" }, "stop"],
    [{ stream_options: { include_usage: true } }, "stream_options"],
    [{ tool_choice: "required" }, "tool_choice"],
    [{ tool_choice: { type: "function", function: { name: "f" } } }, "tool_choice"],
    [{ tool_choice: "auto" }, "tool_choice"],
    [{ tools: [{ type: "function", function: { name: "f", strict: true } }] }, "tools.0.function.strict"],
    [{ tools: ["f", "f"].map((name) => ({ type: "function", function: { name } })) }, "tools.1.function.name"],
    [{ parallel_tool_calls: false }, "parallel_tool_calls"],
    [{ logprobs: true, top_logprobs: 2 }, "top_logprobs"],
    [{ logit_bias: { 5: 1 } }, "logit_bias"],
    [{ frequency_penalty: 0.5 }, "frequency_penalty"],
    [{ response_format: { type: "json_schema", json_schema: {} } }, "response_format"],
    [{ functions: [] }, "functions"],
    [{ best_of: 2 }, "best_of"],
  ])("%j is refused with the name of %s", async (body, param) => {
    const response = await server.post({ ...hello, ...body });
    const { error } = (await response.json()) as Json;
    expect([response.status, error.param]).toEqual([400, param]);
    expect(error.type).toBe("invalid_request_error");
    expect(error.message).toContain(param);
  });

  it("is told so in OpenAI's words: context, model, path, JSON", async () => {
    const long = await server.post({ messages: [{ role: "user", content: "word ".repeat(3000) }] });
    expect([long.status, ((await long.json()) as Json).error.code]).toEqual([400, "context_length_exceeded"]);
    const other = await server.post({ ...hello, model: "gpt" });
    expect([other.status, ((await other.json()) as Json).error.code]).toEqual([404, "model_not_found"]);
    const path = await fetch(`${server.url}/completions`, { method: "POST" });
    expect([path.status, ((await path.json()) as Json).error.type]).toEqual([404, "not_found_error"]);
    const broken = await server.post({}, { body: "{" });
    expect([broken.status, ((await broken.json()) as Json).error.code]).toEqual([400, "malformed_json"]);
  });

  it("may say what changes nothing", async () => {
    const harmless = {
      ...{ user: "me", metadata: { a: "b" }, store: false, service_tier: "auto", tools: null, stop: null },
      ...{ logit_bias: {}, presence_penalty: 0, response_format: { type: "text" }, parallel_tool_calls: true },
    };
    expect(whole(await ask({ ...hello, ...harmless }))).toEqual(whole(await ask(hello)));
  });
});

describe("the server", () => {
  it("lists its model, and says how it is", async () => {
    const models = (await (await fetch(`${server.url}/models`)).json()) as Json;
    expect(models).toMatchObject({ object: "list", data: [{ id: "tiny", object: "model", max_model_len: 1024 }] });
    expect(await health(server)).toMatchObject({ status: "ok", conversations: 0 });
  });

  it("asks for its key everywhere but for its health, and needs one beyond this machine", async () => {
    const guarded = await startServer({ apiKey: "sesame-open", maxBodyBytes: 2000 });
    const send = (key?: string, content = "hello") =>
      guarded.post(
        { ...hello, max_tokens: 1, messages: [{ role: "user", content }] },
        { headers: key === undefined ? {} : { authorization: `Bearer ${key}` } },
      );
    expect((await send("sesame-open")).status).toBe(200);
    for (const key of [undefined, "sesame"]) {
      const answer = await send(key);
      expect([answer.status, ((await answer.json()) as Json).error.code]).toEqual([401, "invalid_api_key"]);
    }
    expect((await send("sesame-open", "x".repeat(3000))).status).toBe(413);
    expect((await fetch(`${guarded.url}/models`)).status).toBe(401);
    expect(await health(guarded)).toMatchObject({ status: "ok" });
    await guarded.close();
    for (const host of ["0.0.0.0", "::", "192.168.0.1", "example.org"]) {
      expect((await failureOf((async () => assertGuarded(host, undefined))())).message).toContain(host);
      assertGuarded(host, "key");
    }
    for (const host of ["127.0.0.1", "127.0.0.9", "::1", "localhost"]) assertGuarded(host, undefined);
  });

  it("forgets a client that has gone away, keeps some waiting, and refuses more", async () => {
    const small = await startServer({ maxConversations: 1, maxWaiting: 1 });
    const { stats } = small.model.engine;
    // At this temperature the end token is one of 1702, nearly as likely as any other.
    const endless = { messages: hello.messages, temperature: 10, seed: 1, stream: true };
    const leave = new AbortController();
    const running = chunksOf(await small.post(endless, { signal: leave.signal }));
    await running.next();
    const waits = small.post({ ...hello, max_tokens: 2 });
    while ((await health(small)).waiting === 0);
    const refused = await small.post({ ...endless, max_tokens: 2 });
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "1"]);
    leave.abort();
    await expect(collectFrom(running)).rejects.toThrow(/abort/);
    expect((await waits).status).toBe(200);
    expect(stats.sampledTokens).toBeLessThan(900);
    expect(await health(small)).toMatchObject({ conversations: 0, waiting: 0 });
    await small.close();
  });

  it("finishes what runs when it is stopped, within its time", async () => {
    for (const [graceMs, whole] of [
      [60_000, true],
      [0, false],
    ] as const) {
      const stopped = await startServer({ maxConversations: 1 });
      const long = { messages: hello.messages, temperature: 10, seed: 1, stream: true, max_tokens: 300 };
      const running = chunksOf(await stopped.post(long));
      await running.next();
      const stop = stopped.stop(graceMs);
      const rest: Json[] = [];
      const read = (async () => {
        for await (const chunk of running) rest.push(chunk);
      })();
      if (whole) await read;
      else await expect(read).rejects.toThrow("without [DONE]");
      await stop;
      if (!whole) expect(rest.at(-1).error).toMatchObject({ code: "stopping", type: "overloaded_error" });
      else expect(rest.at(-1).choices[0].finish_reason).not.toBeNull();
      await expect(fetch(`${stopped.url}/models`)).rejects.toThrow();
      await stopped.model.close();
    }
  });
});

async function health({ url }: { url: string }): Promise<Json> {
  return (await fetch(new URL("/health", url))).json();
}
