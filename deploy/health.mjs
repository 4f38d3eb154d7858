// Health of a container, for probes: ends with 0, or with 1 and a line that says why.
//
//   node health.mjs http://localhost:5020/api                  the controller answers
//   node health.mjs http://controller:5020/api dbbench-std     the controller counts this container's worker as alive
import { hostname } from "node:os";

const [api, task] = process.argv.slice(2);
const token = process.env.AGENTRL_TOKEN;

async function get(path) {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const response = await fetch(`${api}/${path}`, { headers, signal: AbortSignal.timeout(5_000) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}

/** A worker that dials out is listed as `stream:HOST/…`. */
async function checkWorker() {
  const workers = Object.values((await get("list_workers"))[task]?.workers ?? {});
  const own = workers.filter(({ address }) => address.startsWith(`stream:${hostname()}/`));
  if (!own.some(({ status }) => status === "ALIVE")) {
    throw new Error(`${task}: ${own.map(({ status }) => status).join(", ") || "not registered"}`);
  }
}

try {
  await (task === undefined ? get("version") : checkWorker());
} catch (error) {
  console.error(`unhealthy: ${error.message}`);
  process.exitCode = 1;
}
