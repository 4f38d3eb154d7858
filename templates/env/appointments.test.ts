/** What must hold for any environment, whatever it is about. Run: agentrl test appointments.test.ts */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Action, call, type Environment, type Message, Rng } from "agentrl";
import definition from "./appointments.ts";

let environment: Environment;
before(async () => {
  environment = await definition.open({});
});
after(() => environment.close());

const splits = ["train", "eval"];

/** One episode: everything that was said in it, and what it earned. */
async function play(split: string, index: number, act: (messages: Message[]) => Action) {
  const session = await environment.start(split, index, 1);
  const said = [...session.messages];
  try {
    for (;;) {
      const result = await session.step(act(said));
      said.push(...result.messages);
      if (result.done) return { said, reward: result.reward, end: result.endReason };
    }
  } finally {
    await session.close();
  }
}

function playExpert(split: string, index: number) {
  const expert = environment.expert!(split, index, 1);
  return play(split, index, (messages) => expert.act(messages));
}

for (const split of splits) {
  test(`the expert earns 1 on every task of ${split}`, async () => {
    for (const index of environment.split(split).indices) {
      const { reward, end } = await playExpert(split, index);
      assert.deepEqual({ index, reward, end }, { index, reward: 1, end: "completed" });
    }
  });

  test(`every level occurs in ${split}`, () => {
    const levels = new Set(environment.split(split).indices.map((index) => environment.level(split, index)));
    assert.deepEqual([...levels].sort(), [1, 2, 3]);
  });
}

test("a task is the same every time", async () => {
  for (const index of environment.split("train").indices.slice(0, 50)) {
    assert.deepEqual(await playExpert("train", index), await playExpert("train", index));
  }
});

test("a call that is wrong comes back as an observation, and the episode goes on", async () => {
  const session = await environment.start("train", 0, 1);
  const wrongs: [Action, RegExp][] = [
    [call("free_hours", { day: "Sunday" }), /^Error: free_hours: argument day: /],
    [call("book", { day: "Mon" }), /^Error: book: argument hour: /],
    [call("cancel"), /^Error: unknown tool "cancel"\. Tools: free_hours, book\.$/],
    [{ text: "I would like to help.", calls: [] }, /^No tool call found\./],
  ];
  for (const [wrong, expected] of wrongs) {
    const { messages, done } = await session.step(wrong);
    assert.equal(done, false);
    assert.match(messages[0]!.content, expected);
  }
  const expert = environment.expert!("train", 0, 1);
  await session.step(expert.act([]));
  const last = await session.step(expert.act([]));
  assert.deepEqual({ done: last.done, reward: last.reward }, { done: true, reward: 1 });
  await session.close();
});

test("the reward has to be earned: random calls rarely do", async () => {
  const random = new Rng("random calls");
  const { indices } = environment.split("eval");
  let earned = 0;
  for (const index of indices) {
    const session = await environment.start("eval", index, 1);
    for (let done = false; !done; ) {
      const result = await session.step(environment.randomAction!(session, () => random.next()));
      earned += result.reward;
      done = result.done;
    }
    await session.close();
  }
  assert.ok(earned / indices.length < 0.2, `${earned} of ${indices.length}`);
});
