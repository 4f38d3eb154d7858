/** A server of Weights & Biases, as far as @wandb/sdk asks one: who the key's owner is, a run, and its history. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface WandbServer {
  url: string;
  /** Variables of the run that was made. */
  run: Record<string, unknown> | undefined;
  /** Rows of the history. */
  rows: Record<string, unknown>[];
  /** The run was said to be over. */
  complete: boolean;
  keys: Set<string>;
  close(): Promise<void>;
}

export async function wandbServer(): Promise<WandbServer> {
  const http = createServer(async (request, response) => {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const body = JSON.parse(text) as {
      query?: string;
      variables?: Record<string, unknown>;
      files?: Record<string, { content: string[] }>;
      complete?: boolean;
    };
    const key = Buffer.from((request.headers.authorization ?? "").replace("Basic ", ""), "base64").toString();
    server.keys.add(key);
    let answer: object = {};
    if (body.query?.includes("viewer")) answer = { data: { viewer: { id: "1", entity: "owner", flags: "{}" } } };
    else if (body.query?.includes("upsertBucket")) {
      server.run = body.variables;
      answer = { data: { upsertBucket: { bucket: { id: "1", displayName: body.variables?.displayName } } } };
    }
    const history = body.files?.["wandb-history.jsonl"]?.content ?? [];
    server.rows.push(...history.map((row) => JSON.parse(row) as Record<string, unknown>));
    if (body.complete === true) server.complete = true;
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  const server: WandbServer = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    ...{ run: undefined, rows: [], complete: false, keys: new Set<string>() },
    close: async () => {
      http.closeAllConnections();
      http.close();
      await once(http, "close");
    },
  };
  return server;
}
