import { expect, it } from "vitest";
import { Counters } from "../../src/shm/counters.ts";
import { freshName } from "./support.ts";

it("counts for all who have it open, and wakes those who wait", async () => {
  const counters = Counters.create(freshName());
  const other = Counters.open(counters.name);
  expect(other.load(63)).toBe(0);
  expect(counters.add(3, 5)).toBe(5);
  expect(other.add(3, -7)).toBe(-2);
  other.store(4, 2 ** 52);
  expect(counters.load(4)).toBe(2 ** 52);
  const three = counters.wait(3, (value) => value >= 3, 20_000);
  const four = counters.wait(4, (value) => value === 0, 20_000);
  const never = counters.wait(5, (value) => value > 0, 40);
  expect(await never).toBeUndefined();
  other.store(4, 0);
  expect(await four).toBe(0);
  other.add(3, 5);
  expect(await three).toBe(3);
  expect(() => counters.load(64)).toThrow(/no such counter/);
  const cut = counters.wait(5, (value) => value > 0, 20_000);
  counters.close();
  await expect(cut).rejects.toThrow(/closed/);
  other.close();
  expect(counters.unlink()).toBe(true);
});
