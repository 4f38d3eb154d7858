/** The model over HTTP, as OpenAI's chat completions. */

import { streamSSE } from "hono/streaming";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { z } from "zod";
import { type HttpApp, type HttpAppOptions, type HttpContext, httpApp, readBody } from "../env/wire/http-app.ts";
import { ApiError, asApiError, refused } from "./api-error.ts";
import { type CompletionModel, complete, promptOf } from "./completion.ts";
import type { Places } from "./places.ts";
import { type ChatRequest, parseRequest } from "./request.ts";
import { newIdentity, StreamedAnswer, WholeAnswer } from "./wire.ts";

export interface ServedModel extends CompletionModel {
  places: Places;
  maxConversations: number;
  /** As clients name it. */
  name: string;
  created: number;
}

export interface ModelAppOptions extends Pick<HttpAppOptions, "token" | "maxBodyBytes"> {
  /** Aborted when what runs is to be ended. */
  ending: AbortSignal;
  /** No new request is taken. */
  draining: () => boolean;
  /** One request more is being answered, or one less: its last byte is out, or its client gone. */
  onBusy?: (by: 1 | -1) => void;
  /** What went wrong in here, not in the request. */
  log: (line: string) => void;
}

/** Seconds after which a server that stops may be back. */
const restartSeconds = 5;

export function modelApp(model: ServedModel, options: ModelAppOptions): HttpApp {
  const { token, maxBodyBytes, ending, draining, onBusy = () => {}, log } = options;
  /** The engine stands still after a fault: whoever watches is to know. */
  let fault: ApiError | undefined;

  const noted = (error: unknown): ApiError => {
    const known = asApiError(error);
    if (known.status !== 500) return known;
    fault = known;
    log(error instanceof Error ? (error.stack ?? error.message) : String(error));
    return known;
  };
  const app = httpApp({ token, maxBodyBytes, open: ["/health"], answer: (error, c) => answerError(noted(error), c) });

  app.get("/health", (c) => {
    if (fault !== undefined) return c.json({ status: "failed", error: fault.message }, 503);
    if (draining()) return c.json({ status: "stopping" }, 503);
    const { engine, places } = model;
    return c.json({ status: "ok", conversations: engine.openConversations, waiting: places.waiting });
  });

  const card = {
    id: model.name,
    object: "model",
    created: model.created,
    owned_by: "agentrl",
    max_model_len: model.engine.contextLimit,
  };
  app.get("/v1/models", (c) => c.json({ object: "list", data: [card] }));

  app.post("/v1/chat/completions", async (c) => {
    if (draining()) throw new ApiError(503, "the server is stopping", { code: "stopping", retryAfter: restartSeconds });
    onBusy(1);
    c.env.outgoing.once("close", () => onBusy(-1));
    const request = parseRequest(await readBody(c, z.unknown()));
    checkModel(model, request);
    const prompt = promptOf(model, request);
    const gone = AbortSignal.any([ending, goneSignal(c)]);
    await model.places.take(request.choices, gone);
    const release = () => model.places.release(request.choices);
    const identity = newIdentity(model.name);
    const { tokenizer } = model.dialect;
    if (!request.stream) {
      try {
        const answer = new WholeAnswer(request.choices);
        await complete(model, request, prompt, answer, gone);
        return c.json(answer.body(identity, request, prompt, tokenizer));
      } finally {
        release();
      }
    }
    return streamSSE(c, async (stream) => {
      // The engine does not wait for a slow reader: what it has to say is no more than a context holds.
      let written = Promise.resolve();
      const send = (data: string) => {
        written = written.then(() => stream.writeSSE({ data }));
      };
      const answer = new StreamedAnswer(identity, request, prompt, tokenizer, (chunk) => send(JSON.stringify(chunk)));
      try {
        answer.start();
        await complete(model, request, prompt, answer, gone);
        answer.finish();
        send("[DONE]");
      } catch (error) {
        // The status is long sent; clients of OpenAI's look for this.
        send(JSON.stringify(noted(error).body));
      } finally {
        release();
      }
      await written;
    });
  });
  return app;
}

/** @throws ApiError for another model, or more choices than there are places. */
function checkModel({ name, maxConversations }: ServedModel, request: ChatRequest): void {
  if (request.model !== name) {
    throw new ApiError(
      404,
      `The model ${JSON.stringify(request.model.slice(0, 100))} is not served here; ${name} is.`,
      {
        param: "model",
        code: "model_not_found",
      },
    );
  }
  if (request.choices > maxConversations) {
    throw refused("n", `this server holds ${maxConversations} conversations at once`, "invalid_value");
  }
}

/** Aborted when the client has gone away before it had its answer. */
function goneSignal(c: HttpContext): AbortSignal {
  const gone = new AbortController();
  const { outgoing } = c.env;
  const look = () => {
    if (!outgoing.writableFinished) gone.abort(new ApiError(499, "the client has gone away", { code: "cancelled" }));
  };
  if (outgoing.destroyed) look();
  else outgoing.once("close", look);
  return gone.signal;
}

function answerError(error: ApiError, c: HttpContext): Response {
  // The rest of the body is not read: the connection ends with the answer.
  if (error.status === 413) c.header("connection", "close");
  if (error.status === 401) c.header("www-authenticate", "Bearer");
  if (error.detail.retryAfter !== undefined) c.header("retry-after", String(error.detail.retryAfter));
  return c.json(error.body, error.status as ContentfulStatusCode);
}
