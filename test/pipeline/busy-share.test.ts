import { expect, it } from "vitest";
import { BusyShare } from "../../src/pipeline/busy-share.ts";

it("takes shares between reports, of the whole time and none of it twice", () => {
  const share = new BusyShare(1000);
  expect(share.take()).toBeNull();
  share.report(1400, 100);
  share.report(2000, 250);
  // 250 of the first 1000 ms.
  expect(share.take()).toBe(0.25);
  expect(share.take()).toBeNull();
  share.report(2500, 700);
  // 450 of the next 500 ms.
  expect(share.take()).toBe(0.9);
});

it("is at most 1, where a report came late and the next one in time", () => {
  const share = new BusyShare(0);
  share.report(110, 100);
  share.take();
  share.report(200, 200);
  expect(share.take()).toBe(1);
});
