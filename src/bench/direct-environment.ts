/** Sessions asked of workers without a controller between: what it adds is the difference. */
import type { Environment, Session } from "../env/environment.ts";
import { JsonClient } from "../env/wire/json-client.ts";
import { actionToWire, fromWire } from "../env/wire/messages.ts";
import { interactAnswer, startAnswer, workerInteractAnswer } from "../env/wire/schemas.ts";

const timeoutMs = 60_000;

/**
 * The task of `like`, on the workers in turn.
 * @param urls The workers' addresses.
 */
export function directEnvironment(urls: readonly string[], like: Environment): Environment {
  const clients = urls.map((url) => new JsonClient(url));
  // Apart from those that a controller gives out, which count from the clock.
  let last = 0;
  return {
    name: like.name,
    tools: like.tools,
    maxTurns: like.maxTurns,
    split: (name) => like.split(name),
    level: (split, index) => like.level(split, index),
    start: async (_split, index, seed) => {
      const id = ++last;
      const client = clients[id % clients.length]!;
      const post = async (path: string, body: object) => {
        const answer = await client.request({ method: "POST", path, body: { session_id: id, ...body }, timeoutMs });
        if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
        return answer.body;
      };
      const { messages } = startAnswer.parse(await post("/start_sample", { index, seed }));
      return session(messages.map(fromWire), post);
    },
    close: async () => {
      for (const client of clients) client.close();
    },
  };
}

function session(messages: Session["messages"], post: (path: string, body: object) => Promise<unknown>): Session {
  return {
    messages,
    step: async (action) => {
      const { env_out } = workerInteractAnswer.parse(await post("/interact", { messages: [actionToWire(action)] }));
      const { finish, reward, messages: answered } = interactAnswer.parse(env_out);
      const result = { messages: (answered ?? []).map(fromWire), reward: reward ?? 0 };
      return finish ? { ...result, done: true, endReason: "completed" } : { ...result, done: false };
    },
    close: async () => {},
  };
}
