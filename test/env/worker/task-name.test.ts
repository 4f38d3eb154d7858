/** Names of tasks on the wire: those of the published protocol's table of five tasks. */
import { expect, test } from "vitest";
import { deploymentOf, taskOfName, wireName } from "../../../src/env/worker/task-name.ts";

test.each(["alfworld", "dbbench", "kg", "os", "webshop"])(
  "%s without an ending registers as its standard tasks",
  (name) => {
    expect(wireName(name)).toBe(`${name}-std`);
    expect(taskOfName(wireName(name))).toEqual({ environment: name, split: "eval" });
    for (const whole of [`${name}-std`, `${name}-env_train`]) expect(wireName(whole)).toBe(whole);
    expect(taskOfName(`${name}-env_train`)).toEqual({ environment: name, split: "train" });
    expect(deploymentOf(wireName(name))).toEqual(deploymentOf(name));
  },
);

test("a file's task is called as the file", () => {
  expect(wireName("./tasks/guess.ts")).toBe("guess");
  expect(wireName("C:\\tasks\\guess.mts")).toBe("guess");
});
