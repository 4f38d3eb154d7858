/** A client of a server that fails, against a real one. */
import { expect, it } from "vitest";
import { Endpoint } from "../../src/policy/endpoint.ts";
import { failureOf } from "../failure.ts";
import { startEndpoint } from "../pipeline/eval-endpoint.ts";

it("gives up by the clock before its tries are used up, without a wait that would end too late", async () => {
  const server = await startEndpoint(() => ({ status: 503, text: "loading" }));
  const ask = (options: { backoffMs: number; giveUpMs: number }) =>
    failureOf(
      new Endpoint({ url: server.url, model: "m", tries: 50, ...options }).complete({
        messages: [],
        tools: [],
        seed: 1,
      }),
    );
  const started = performance.now();
  // Waits of 10, 20, 40, ... ms, each give or take a half.
  const error = await ask({ backoffMs: 10, giveUpMs: 200 });
  expect(error.message).toContain("loading");
  expect(server.requests.length).toBeGreaterThan(2);
  expect(server.requests.length).toBeLessThan(9);
  const asked = server.requests.length;
  // The first wait alone would be too long.
  await ask({ backoffMs: 60_000, giveUpMs: 200 });
  expect(server.requests.length).toBe(asked + 1);
  expect(performance.now() - started).toBeLessThan(10_000);
  await server.close();
});
