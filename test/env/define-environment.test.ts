/** What a definition promises the one who writes it: what its functions are given, and what becomes of what they return. */
import { describe, expect, it } from "vitest";
import type { Action, Environment } from "../../src/env/environment.ts";
import { call, defineEnvironment, type EnvironmentSpec, type Rng, z } from "../../src/env/index.ts";
import type { EnvironmentOptions } from "../../src/env/registry.ts";
import { runScripted } from "../../src/env/scripted.ts";
import { failureOf } from "../failure.ts";

interface Sum {
  a: number;
  b: number;
}
interface State {
  given: number[];
}
type Tools = { give: { value: z.ZodInt }; ask: Record<never, never> };
type Spec = EnvironmentSpec<Sum, State, Tools, { unit: z.ZodDefault<z.ZodString> }>;

/** Task i asks for i + 2. */
const adding: Spec = {
  name: "adding",
  maxTurns: 3,
  settings: { unit: z.string().default("apples") },
  tasks: Array.from({ length: 10 }, (_, a) => ({ a, b: 2 })),
  level: ({ a }) => (a < 5 ? 1 : 2),
  start: async ({ a, b }, { seed, prompt, settings }) => ({
    state: { given: [] },
    messages: [{ role: "user", content: `${a} + ${b} ${settings.unit}, ${prompt}, seed ${seed}` }],
  }),
  tools: {
    give: {
      description: "Gives the sum.",
      parameters: { value: z.int().describe("The sum.") },
      run: async ({ value }, { state }) => {
        state.given.push(value);
        if (value < 0) return { content: "a sum is not negative", failed: true };
        return { content: "thanks", done: true, metrics: { tries: state.given.length } };
      },
    },
    ask: { description: "Asks for a hint.", parameters: {}, run: (_, { task, seed }) => `${task.b}, ${seed}` },
  },
  reward: async ({ task, state }) => (state.given.at(-1) === task.a + task.b ? 1 : 0.25),
  expert: ({ a, b }, { turn }) => (turn === 0 ? call("ask") : call("give", { value: a + b })),
};

const define = (more: Partial<Spec> = {}) => defineEnvironment({ ...adding, ...more });
const open = async (more: Partial<Spec> = {}, options: EnvironmentOptions = {}): Promise<Environment> =>
  define(more).open(options);
const give = (value: unknown): Action => call("give", { value });

describe("tasks", () => {
  it("every fifth of one list is held out; levels are the task's", async () => {
    const environment = await open();
    const asked = async (split: string) =>
      Promise.all(
        environment.split(split).indices.map(async (index) => {
          const { messages } = await environment.start(split, index, 1);
          return [Number(messages[0]!.content.split(" ")[0]), environment.level(split, index)];
        }),
      );
    expect(await asked("train")).toEqual([0, 1, 2, 3, 5, 6, 7, 8].map((a) => [a, a < 5 ? 1 : 2]));
    expect(await asked("eval")).toEqual([4, 9].map((a) => [a, a < 5 ? 1 : 2]));
  });

  it("of named lists are the splits of those names, and no others", async () => {
    const environment = await open({ tasks: { practice: [{ a: 1, b: 1 }], exam: [{ a: 20, b: 22 }] } });
    expect(environment.split("exam").indices).toEqual([0]);
    expect((await environment.start("exam", 0, 1)).messages[0]!.content).toMatch(/^20 \+ 22 /);
    expect(() => environment.split("train")).toThrow(/no split is called "train"[\s\S]*practice, exam/);
    await expect(environment.start("exam", 1, 1)).rejects.toThrow(/no task 1 in split "exam"/);
  });

  it("of named lists that are generated alike are not the same tasks", async () => {
    const generated = { count: 40, generate: (_: number, random: Rng) => ({ a: random.int(1_000_000), b: 0 }) };
    const environment = await open({ tasks: { train: generated, eval: generated } });
    const asked = async (split: string) =>
      Promise.all([...Array(40).keys()].map(async (i) => (await environment.start(split, i, 1)).messages[0]!.content));
    const [train, held] = [await asked("train"), new Set(await asked("eval"))];
    // 40 x 40 pairs in a million: two alike by chance once in 600 names.
    expect(train.filter((task) => held.has(task)).length).toBeLessThan(2);
  });

  it("that are generated are drawn anew each time, from the same stream; the hash tells other tasks", async () => {
    let drawn = 0;
    const generated = {
      count: 10,
      generate: (a: number, random: Rng): Sum => {
        drawn++;
        return { a, b: random.int(1000) };
      },
    };
    const [one, two] = [await open({ tasks: generated }), await open({ tasks: generated })];
    const first = async (environment: Environment) => (await environment.start("train", 3, 1)).messages;
    expect(await first(one)).toEqual(await first(one));
    expect(await first(two)).toEqual(await first(one));
    expect(drawn).toBe(4);
    expect(two.split("train").hash).toBe(one.split("train").hash);
    expect((await open()).split("train").hash).not.toBe(one.split("train").hash);
  });
});

describe("an episode", () => {
  it("begins with what `start` makes of task, seed, prompt and settings", async () => {
    const first = async (options: EnvironmentOptions, seed: number) =>
      (await (await open({}, options)).start("train", 2, seed)).messages;
    expect(await first({}, 7)).toEqual([{ role: "user", content: "2 + 2 apples, full, seed 7" }]);
    expect(await first({ prompt: "brief", settings: { unit: "pears" } }, 8)).toEqual([
      { role: "user", content: "2 + 2 pears, brief, seed 8" },
    ]);
  });

  it("ends by `done` with the reward that the state has earned, and the tool's metrics", async () => {
    const environment = await open();
    for (const [value, reward] of [
      [2, 1],
      [3, 0.25],
    ] as const) {
      const session = await environment.start("train", 0, 5);
      expect(await session.step(call("ask"))).toMatchObject({ done: false, messages: [{ content: "2, 5" }] });
      expect(await session.step(give(value))).toMatchObject({
        done: true,
        endReason: "completed",
        reward,
        metrics: { level: 1, turns: 2, tries: 1 },
      });
    }
  });

  it("goes on after a call that does not fit, without `run` being called, and after one that failed", async () => {
    const session = await (await open()).start("train", 0, 1);
    const calls = [give("two"), give(-1)].flatMap((action, i) => action.calls.map((each) => ({ ...each, id: `${i}` })));
    const result = await session.step({ text: "", calls });
    expect(result).toMatchObject({ done: false, failedCalls: 2 });
    expect(result.messages.map(({ toolCallId, content }) => [toolCallId, content])).toEqual([
      ["0", "Error: give: argument value: Invalid input: expected number, received string."],
      ["1", "a sum is not negative"],
    ]);
    // The call that did not fit left no trace in the state.
    expect(await session.step(give(2))).toMatchObject({
      done: true,
      metrics: { tries: 2, invalidCalls: 1, failedCalls: 1 },
    });
  });

  it("that runs out of turns earns nothing, whatever `reward` says", async () => {
    const session = await (await open({ maxTurns: 2, reward: () => 1 })).start("train", 0, 1);
    await session.step(call("ask"));
    expect(await session.step(call("ask"))).toMatchObject({ done: true, reward: 0, endReason: "turn limit" });
  });

  it("answers a turn without a call by its tools, or as `say` does, which may end it", async () => {
    const words: Action = { text: "four", calls: [] };
    const session = await (await open()).start("train", 2, 1);
    expect((await session.step(words)).messages).toEqual([
      { role: "user", content: "No tool call found. Tools: give, ask." },
    ]);
    const talking = await open({
      say: (text, episode) => {
        if (text === "four") episode.state = { given: [4] };
        return { content: "noted", done: text === "four" };
      },
    });
    const spoken = await talking.start("train", 2, 1);
    expect(await spoken.step({ text: "well", calls: [] })).toMatchObject({
      done: false,
      messages: [{ role: "user", content: "noted" }],
    });
    expect(await spoken.step(words)).toMatchObject({ done: true, reward: 1, metrics: { textTurns: 1 } });
  });

  it("has a state of its own, freed once", async () => {
    const freed: State[] = [];
    const environment = await open({ close: (state) => void freed.push(state) });
    const [one, two] = [await environment.start("train", 0, 1), await environment.start("train", 0, 1)];
    await one.step(give(-1));
    expect(await two.step(give(2))).toMatchObject({ reward: 1, metrics: { tries: 1 } });
    await one.close();
    await one.close();
    expect(freed).toEqual([{ given: [-1] }]);
    await two.close();
    expect(freed).toEqual([{ given: [-1] }, { given: [2] }]);
  });

  it.each([
    [
      "a tool that throws",
      {
        tools: {
          ...adding.tools,
          ask: {
            ...adding.tools.ask,
            run: () => {
              throw new RangeError("no ink");
            },
          },
        },
      },
      call("ask"),
      /no ink/,
    ],
    ["a reward that is no number", { reward: () => Number.NaN }, give(2), /no finite number[\s\S]*NaN/],
    ["a reward that is a word", { reward: () => "1" as never }, give(2), /no finite number/],
  ])("ends as a fault, never as a reward, by %s", async (_, more, action, why) => {
    const session = await (await open(more)).start("train", 0, 1);
    const result = await session.step(action);
    expect(result).toMatchObject({ done: true, reward: 0, endReason: "env error" });
    expect(result.messages.at(-1)!.content).toMatch(why);
  });
});

describe("policies", () => {
  it("the expert is asked turn by turn and earns 1; random calls fit the schema and earn less", async () => {
    const environment = await open();
    expect(await runScripted(environment, { split: "train", policy: "expert" })).toMatchObject({
      success: 1,
      episodes: 8,
    });
    const random = await runScripted(environment, { split: "train", policy: "random" });
    expect(random.meanReward).toBeLessThan(0.5);
    const session = await environment.start("train", 0, 1);
    for (const draw of [0.1, 0.9]) {
      const [{ name, arguments: args } = { name: "", arguments: {} }] = environment.randomAction!(
        session,
        () => draw,
      ).calls;
      const tool = environment.tools.find((each) => each.name === name)!;
      expect(tool.parameters.safeParse(args).success).toBe(true);
    }
  });

  it("without `expert` there is none", async () => {
    const { expert: _, ...rest } = adding;
    expect((await defineEnvironment(rest).open({})).expert).toBeUndefined();
  });
});

describe("a definition is refused", () => {
  it.each([
    ["without a name", () => define({ name: "" }), "name"],
    ["with a name that cannot be reported under", () => define({ name: "a b" }), "name"],
    ["without tools", () => defineEnvironment({ ...adding, tools: {} }), "tools"],
    ["without tasks", () => define({ tasks: [] }), "tasks.train"],
    ["with an empty split", () => define({ tasks: { train: [{ a: 1, b: 1 }], eval: [] } }), "tasks.eval"],
    ["with half a task", () => define({ tasks: { count: 0.5, generate: () => ({ a: 1, b: 1 }) } }), "tasks.train"],
  ])("%s", async (_, make, where) => {
    const error = await failureOf(Promise.resolve().then(make));
    expect(error).toMatchObject({ code: "CONFIG", detail: { where } });
  });

  it.each([
    [{ engine: "mariadb" }, /engine has no effect on environment adding/],
    [{ endpoint: "localhost:1" }, /endpoint has no effect/],
    [{ data: "tasks.json" }, /data has no effect/],
    [{ settings: { units: "pears" } }, /units[\s\S]*settings unit/],
    [{ settings: { unit: 3 } }, /settings\.unit/],
  ] as [EnvironmentOptions, RegExp][])("options %j", async (options, message) => {
    const error = await failureOf(open({}, options));
    expect(error.code).toBe("CONFIG");
    expect(error.message).toMatch(message);
  });

  it("engine embedded is the one that every environment has", async () => {
    expect((await open({}, { engine: "embedded" })).name).toBe("adding");
  });
});
