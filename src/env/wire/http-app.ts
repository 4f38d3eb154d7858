/** What the HTTP servers, controller, worker and model server, have in common: the token, bodies of bounded size, errors as JSON. */
import type { IncomingMessage } from "node:http";
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import type { z } from "zod";
import { TokenCheck } from "./token.ts";
import { WireError } from "./wire-error.ts";

export interface HttpAppOptions {
  /** Secret that every request must bring; undefined: none. */
  token?: string | undefined;
  /** Larger request bodies are refused. @default 16 MiB */
  maxBodyBytes?: number | undefined;
  /** Paths that need no token. */
  open?: readonly string[];
  /** How an error is told. Default: `{error, code}`, as in the AgentRL protocol. */
  answer?: (error: Error, c: HttpContext) => Response;
}

export const defaultMaxBodyBytes = 16 * 2 ** 20;

/**
 * Connections that may wait to be accepted. Node's 511 are too few where thousands of sessions begin at once: the kernel
 * drops the rest, and they try again only after seconds.
 */
export const connectBacklog = 4096;

export interface HttpEnv {
  Bindings: HttpBindings;
  Variables: { maxBodyBytes: number };
}
export type HttpApp = Hono<HttpEnv>;
export type HttpContext = Context<HttpEnv>;

/** An app whose handlers may throw WireError. Routes are added by the caller. */
export function httpApp(options: HttpAppOptions): HttpApp {
  const { token, maxBodyBytes = defaultMaxBodyBytes, open = [], answer = answerError } = options;
  const app = new Hono<HttpEnv>();
  const check = new TokenCheck(token);
  app.use(async (c, next) => {
    if (!open.includes(c.req.path) && !check.accepts(c.req.header("authorization"))) {
      c.header("www-authenticate", "Bearer");
      throw new WireError(401, "unauthorized", "this server needs a token: Authorization: Bearer TOKEN");
    }
    c.set("maxBodyBytes", maxBodyBytes);
    await next();
  });
  app.notFound((c) => answer(new WireError(404, "not_found", `no ${c.req.method} ${c.req.path.slice(0, 200)}`), c));
  app.onError(answer);
  return app;
}

function answerError(error: Error, c: HttpContext): Response {
  const known = error instanceof WireError ? error : new WireError(500, "internal", error.message);
  // The rest of the body is not read: the connection ends with the answer.
  if (known.status === 413) c.header("connection", "close");
  if (known.retryAfter !== undefined) c.header("retry-after", String(known.retryAfter));
  return c.json(known.body, known.status as ContentfulStatusCode);
}

/** The request's body, checked. @throws WireError 400 for what is no JSON or has another shape. */
export async function readBody<S extends z.ZodType>(c: HttpContext, schema: S): Promise<z.output<S>> {
  const text = await bodyText(c.env.incoming, c.get("maxBodyBytes"));
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const why = text === "" ? "the body is empty" : (error as Error).message;
    throw new WireError(400, "malformed_json", `the body is no JSON: ${why}`);
  }
  return checkBody(schema, value);
}

/** Straight from the socket: a Request object for the body would cost more than all the rest of a turn. */
function bodyText(incoming: IncomingMessage, maxBytes: number): Promise<string> {
  const tooLarge = () => new WireError(413, "body_too_large", `a body may have ${maxBytes} bytes`);
  if (Number(incoming.headers["content-length"]) > maxBytes) return Promise.reject(tooLarge());
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    incoming.on("data", (part: Buffer) => {
      size += part.length;
      if (size > maxBytes) {
        incoming.pause();
        reject(tooLarge());
      } else parts.push(part);
    });
    incoming.on("end", () => resolve(Buffer.concat(parts).toString("utf8")));
    incoming.on("error", reject);
    incoming.on("close", () => {
      // Every request closes in the end, and an error's stack is dear.
      if (!incoming.readableEnded) reject(new WireError(400, "bad_request", "the connection closed in mid-body"));
    });
  });
}

export function checkBody<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const place = issue === undefined || issue.path.length === 0 ? "body" : issue.path.join(".");
  throw new WireError(400, "bad_request", `${place}: ${issue?.message ?? "invalid"}`);
}
