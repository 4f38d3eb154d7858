import { expect, it } from "vitest";
import { AgentRLError, oneLine } from "../src/errors.ts";

it("says what, where, got, expected and what to do, on lines or on one", () => {
  const { message } = new AgentRLError("CONFIG", "Wrong key.", {
    where: "a.yaml:3",
    got: 5,
    expected: "text",
    hint: "Mend it.",
  });
  expect(message).toBe("Wrong key.\n  where:    a.yaml:3\n  got:      5\n  expected: text\n  do:       Mend it.");
  expect(oneLine(message)).toBe("Wrong key.; where: a.yaml:3; got: 5; expected: text; do: Mend it.");
});
