import { describe, expect, it } from "vitest";
import { startChild } from "../../src/pipeline/children.ts";

describe("a child process", () => {
  it("has ended when it has, though what it started holds its stderr open", async () => {
    const module = new URL("./leaves-a-grandchild.ts", import.meta.url);
    const child = startChild<object, { sleeper: number }>("child", module);
    const started = new Promise<number>((resolve) => child.onMessage(({ sleeper }) => resolve(sleeper)));
    child.send({});
    const sleeper = await started;
    try {
      expect(await child.ended).toEqual({ code: 7, signal: null });
      expect(child.lastLines()).toBe("the last line");
      expect(() => process.kill(sleeper, 0)).not.toThrow();
    } finally {
      process.kill(sleeper, "SIGKILL");
    }
  });
});
