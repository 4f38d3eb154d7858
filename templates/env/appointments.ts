/**
 * An environment: book the appointment that a customer asks for. A model of a megabyte can learn it in minutes, and each
 * part of it is there to be replaced: the tasks, the tools, what an episode earns.
 */
import { call, defineEnvironment, type Rng, z } from "agentrl";

const days = ["Mon", "Tue", "Wed", "Thu", "Fri"] as const;
type Day = (typeof days)[number];

const opens = 9;
const closes = 17;
const hours = Array.from({ length: closes - opens }, (_, i) => opens + i);

/** One task: what is asked, and the world it is asked in. It must hold the answer, or what the answer follows from. */
interface Task {
  level: 1 | 2 | 3;
  /** The days that suit the customer, the better one first. */
  days: Day[];
  /** The customer cannot come before this hour. */
  from: number;
  /** Free hours of each day, in order. */
  free: Record<Day, number[]>;
}

interface Slot {
  day: Day;
  hour: number;
}

/** What an episode changes. Every episode begins with one of its own, from `start`. */
interface State {
  booked?: Slot;
}

/**
 * Task number `index`: the same one every time, on every machine, so whatever is random comes from `random`. Levels take
 * turns, from 1, the easiest: a run can begin with the easy ones, and metrics tell them apart.
 */
function generate(index: number, random: Rng): Task {
  const free = Object.fromEntries(days.map((day) => [day, someHours(random)])) as Task["free"];
  const [first, second] = random.sample(days, 2) as [Day, Day];
  const level = ((index % 3) + 1) as Task["level"];
  // The first free hour of a day.
  if (level === 1) return { level, days: [first], from: opens, free };
  // The first one that is late enough: between the day's first and its last.
  if (level === 2)
    return { level, days: [first], from: random.between(free[first][0]! + 1, free[first].at(-1)!), free };
  // Another day, where the first one is full. Every second is, so that looking pays.
  if (random.next() < 0.5) free[first] = [];
  return { level, days: [first, second], from: opens, free };
}

function someHours(random: Rng): number[] {
  return random.sample(hours, random.between(2, 4)).sort((a, b) => a - b);
}

function question({ level, days: [first, second], from }: Task): string {
  if (level === 1) return `Book the first free hour on ${first}.`;
  if (level === 2) return `Book the first free hour on ${first} from ${from} on.`;
  return `Book the first free hour on ${first}, or on ${second} if ${first} is full.`;
}

/** The one right booking. */
function answer({ days, from, free }: Task): Slot {
  for (const day of days) {
    const hour = free[day].find((hour) => hour >= from);
    if (hour !== undefined) return { day, hour };
  }
  throw new Error("a task without an answer");
}

export default defineEnvironment({
  // Metrics are reported under it.
  name: "appointments",

  // One list: every fifth task is held out as split "eval", the others are "train".
  tasks: { count: 1500, generate },
  level: (task) => task.level,

  // An episode that takes more turns ends without a reward.
  maxTurns: 6,

  // The policy's first messages. A small model has a short context: `prompt: brief` asks for as little text as will do.
  start: (task, { prompt }) => ({
    state: {} as State,
    messages: [
      ...(prompt === "full"
        ? [
            {
              role: "system" as const,
              content: "You keep an appointment book. Look up free hours, then book one, once.",
            },
          ]
        : []),
      { role: "user" as const, content: question(task) },
    ],
  }),

  // A call that does not fit `parameters` never gets here: the policy is told what was wrong with it, and goes on. What a
  // tool returns is the policy's next observation; a throw is a fault of this file, and the episode is played again.
  tools: {
    free_hours: {
      description: "Lists the free hours of a day.",
      parameters: { day: z.enum(days).describe("The day.") },
      run: ({ day }, { task }) => task.free[day].join(" ") || "full",
    },
    book: {
      description: "Books an hour. There is one booking.",
      parameters: {
        day: z.enum(days).describe("The day."),
        hour: z
          .int()
          .min(opens)
          .max(closes - 1)
          .describe("The full hour it begins."),
      },
      run: ({ day, hour }, { task, state }) => {
        // A mistake that the policy can mend: counted as a failed call, and the episode goes on.
        if (!task.free[day].includes(hour)) return { content: `${day} ${hour} is taken.`, failed: true };
        state.booked = { day, hour };
        return { content: "booked", done: true };
      },
    },
  },

  // Asked once, after `done`; 1 is the full reward. It should follow from what was done, not from what was said.
  reward: ({ task, state: { booked } }) => {
    const { day, hour } = answer(task);
    return booked?.day === day && booked.hour === hour ? 1 : 0;
  },

  // A script that knows the answer: it proves that every task can be solved, and a first model is taught by it.
  expert: (task, { turn }) => {
    const { day, hour } = answer(task);
    const asked = task.days.slice(0, task.days.indexOf(day) + 1);
    return turn < asked.length ? call("free_hours", { day: asked[turn] }) : call("book", { day, hour });
  },
});
