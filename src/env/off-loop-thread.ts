/** The thread's side of src/env/off-loop.ts: opens the environment of a file and serves its sessions. */
import { parentPort, workerData } from "node:worker_threads";
import { AgentRLError, failure } from "../errors.ts";
import type { Environment, Session } from "./environment.ts";
import { toolFromJsonSchema } from "./json-schema-tool.ts";
import { openModule } from "./module.ts";
import type { Answers, FromThread, Request, ThreadSetup, ToThread } from "./off-loop-messages.ts";

const { file, options, tools } = workerData as ThreadSetup;
const sessions = new Map<number, Session>();
const send = (message: FromThread) => parentPort!.postMessage(message);

async function answer(environment: Environment, request: Request): Promise<Answers[keyof Answers]> {
  if (request.op === "start") {
    const session = await environment.start(request.split, request.index, request.seed);
    sessions.set(request.session, session);
    return { messages: session.messages };
  }
  const session = sessions.get(request.session);
  if (request.op === "step") {
    if (session === undefined) throw new AgentRLError("USAGE", `no session ${request.session} runs in this thread`);
    return session.step(request.action);
  }
  sessions.delete(request.session);
  await session?.close();
  return null;
}

try {
  const specs = tools.map(({ name, description, schema }) => toolFromJsonSchema(name, description, schema));
  const { environment } = await openModule(file, options, { tools: specs });
  parentPort!.on("message", ({ id, request }: ToThread) => {
    answer(environment, request).then(
      (answer) => send({ type: "answer", id, answer }),
      (error: unknown) => send({ type: "error", id, ...failure(error, "ENVIRONMENT") }),
    );
  });
  send({ type: "ready" });
} catch (error) {
  send({ type: "failed", ...failure(error, "ENVIRONMENT") });
}
