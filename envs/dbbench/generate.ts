/**
 * Graded DB tasks of our own: level 1 looks a value up, 2 counts, 3 takes a maximum, minimum or total, 4 inserts, updates
 * or deletes, 5 joins two conditions or orders. A pure function of (split, index). The prompt shows only the table's name
 * and headers, never its rows, so an answer cannot be had without querying.
 */
import { Rng } from "../../src/env/rng.ts";
import { animals, colors, foods, genres, jobs, people, places, titles } from "../words.ts";
import type { DbTable, DbTask } from "./task.ts";

/** Columns of the eight tables: the key (all different in a table), texts, and numbers. */
const schemas: readonly {
  table: string;
  key: [string, readonly string[]];
  texts: [string, readonly string[]][];
  numbers: string[];
}[] = [
  {
    table: "pets",
    key: ["Name", people],
    texts: [
      ["Kind", animals],
      ["Color", colors],
      ["City", places],
    ],
    numbers: ["Age", "Weight"],
  },
  {
    table: "books",
    key: ["Title", titles],
    texts: [
      ["Author", people],
      ["Genre", genres],
      ["City", places],
    ],
    numbers: ["Pages", "Price"],
  },
  {
    table: "workers",
    key: ["Name", people],
    texts: [
      ["Job", jobs],
      ["City", places],
      ["Color", colors],
    ],
    numbers: ["Age", "Salary"],
  },
  {
    table: "films",
    key: ["Title", titles],
    texts: [
      ["Director", people],
      ["Genre", genres],
      ["City", places],
    ],
    numbers: ["Length", "Price"],
  },
  {
    table: "shops",
    key: ["Owner", people],
    texts: [
      ["Food", foods],
      ["City", places],
      ["Color", colors],
    ],
    numbers: ["Price", "Stock"],
  },
  {
    table: "cars",
    key: ["Owner", people],
    texts: [
      ["Color", colors],
      ["City", places],
      ["Job", jobs],
    ],
    numbers: ["Speed", "Price"],
  },
  {
    table: "teams",
    key: ["Team", titles],
    texts: [
      ["Captain", people],
      ["City", places],
      ["Color", colors],
    ],
    numbers: ["Wins", "Points"],
  },
  {
    table: "ships",
    key: ["Ship", titles],
    texts: [
      ["Captain", people],
      ["Port", places],
      ["Color", colors],
    ],
    numbers: ["Speed", "Length"],
  },
];

/** What is drawn for a task before its question: a table whose columns know their words. */
interface Draft {
  table: DbTable;
  pools: Map<string, readonly string[]>;
  key: number;
  texts: number[];
  numbers: number[];
}

export function generateTask(split: string, index: number, attempt = 0): DbTask {
  const rng = new Rng("dbbench", split, index, attempt);
  const level = 1 + (index % 5);
  // A draw that breaks a level's rule (an ambiguous condition, say) is thrown away whole; most levels need one or two.
  for (let draw = 0; draw < 1000; draw++) {
    const draft = drawTable(rng, level);
    const made = makers[level - 1]!(rng, draft);
    if (made !== undefined) return { level, tables: [draft.table], ...made };
  }
  throw new Error(`no task of level ${level} for ${split} ${index}`);
}

function drawTable(rng: Rng, level: number): Draft {
  const schema = rng.pick(schemas);
  const texts = rng.sample(schema.texts, level === 5 ? 2 : rng.between(1, 2));
  const numbers = rng.sample(schema.numbers, level === 3 ? rng.between(1, 2) : 1);
  const names = rng.shuffle([schema.key[0], ...texts.map(([name]) => name), ...numbers]);
  const pools = new Map<string, readonly string[]>([[schema.key[0], schema.key[1]]]);
  const count = rng.between(4, 8);
  const cells = new Map<string, (string | number)[]>([[schema.key[0], rng.sample(schema.key[1], count)]]);
  for (const [name, pool] of texts) {
    // Few different values in a column, so that conditions match several rows.
    const few = rng.sample(pool, rng.between(2, 3));
    pools.set(name, pool);
    cells.set(
      name,
      Array.from({ length: count }, () => rng.pick(few)),
    );
  }
  for (const name of numbers) cells.set(name, rng.sample(range(1, 30), count));
  return {
    table: {
      name: schema.table,
      columns: names.map((name) => ({ name, type: numbers.includes(name) ? "INTEGER" : "TEXT" })),
      rows: Array.from({ length: count }, (_, row) => names.map((name) => cells.get(name)![row]!)),
    },
    pools,
    key: names.indexOf(schema.key[0]),
    texts: texts.map(([name]) => names.indexOf(name)),
    numbers: numbers.map((name) => names.indexOf(name)),
  };
}

type Made = Pick<DbTask, "question" | "goal" | "sql">;
type Maker = (rng: Rng, draft: Draft) => Made | undefined;

const makers: readonly Maker[] = [
  lookUp,
  countRows,
  aggregate,
  write,
  (rng, draft) => (rng.int(2) === 0 ? twoConditions(rng, draft) : order(rng, draft)),
];

function lookUp(rng: Rng, { table, key, texts, numbers }: Draft): Made | undefined {
  const by = rng.int(4) === 0 ? rng.pick(texts) : key;
  const wanted = rng.pick([key, ...texts, ...numbers].filter((column) => column !== by));
  const row = rng.pick(table.rows);
  if (matching(table, [[by, row[by]!]]).length !== 1) return undefined;
  const [a, b, x] = [name(table, wanted), name(table, by), literal(row[by]!)];
  return {
    question: rng.pick([
      `What is the ${a} when ${b} is ${x}?`,
      `Give the ${a} where ${b} is ${x}.`,
      `Find the ${a} of the row with ${b} ${x}.`,
    ]),
    goal: read(row[wanted]!),
    sql: `SELECT ${a} FROM \`${table.name}\` WHERE ${b} = ${x}`,
  };
}

function countRows(rng: Rng, { table, texts }: Draft): Made {
  const by = rng.pick(texts);
  const value = rng.pick(table.rows)[by]!;
  const [b, x] = [name(table, by), literal(value)];
  return {
    question: rng.pick([
      `How many rows have ${b} ${x}?`,
      `Count the rows where ${b} is ${x}.`,
      `What is the number of rows with ${b} ${x}?`,
    ]),
    goal: read(matching(table, [[by, value]]).length),
    sql: `SELECT COUNT(*) FROM \`${table.name}\` WHERE ${b} = ${x}`,
  };
}

function aggregate(rng: Rng, { table, numbers }: Draft): Made | undefined {
  const column = rng.pick(numbers);
  const values = table.rows.map((row) => Number(row[column]));
  const { words, call, value } = rng.pick([
    { words: ["highest", "largest"], call: "MAX", value: Math.max(...values) },
    { words: ["lowest", "smallest"], call: "MIN", value: Math.min(...values) },
    { words: ["total", "summed"], call: "SUM", value: values.reduce((sum, next) => sum + next, 0) },
  ]);
  if (value > 99) return undefined; // Numbers keep to two digits.
  const a = name(table, column);
  const word = rng.pick(words);
  return {
    question: rng.pick([`What is the ${word} ${a}?`, `Find the ${word} ${a} of all rows.`, `Give the ${word} ${a}.`]),
    goal: read(value),
    sql: `SELECT ${call}(${a}) FROM \`${table.name}\``,
  };
}

function write(rng: Rng, draft: Draft): Made | undefined {
  const { table, pools, key, texts } = draft;
  const goal = { kind: "write" } as const;
  switch (rng.int(3)) {
    case 0: {
      const used = new Set(table.rows.map((row) => row[key]));
      const row = table.columns.map(({ name, type }, column) => {
        if (type === "INTEGER") return rng.between(1, 30);
        const pool = pools.get(name)!;
        return rng.pick(column === key ? pool.filter((word) => !used.has(word)) : pool);
      });
      const values = row.map(literal).join(", ");
      return {
        question: rng.pick([`Insert the row ${values}.`, `Add a row with the values ${values}.`]),
        goal,
        sql: `INSERT INTO \`${table.name}\` VALUES (${values})`,
      };
    }
    case 1: {
      const by = rng.int(2) === 0 ? key : rng.pick(texts);
      const set = rng.pick([...texts, ...draft.numbers].filter((column) => column !== by).concat(draft.numbers));
      const value = rng.pick(table.rows)[by]!;
      const pool = pools.get(table.columns[set]!.name);
      const next = pool === undefined ? rng.between(1, 30) : rng.pick(pool);
      if (matching(table, [[by, value]]).every((row) => row[set] === next)) return undefined;
      const [a, b, x, y] = [name(table, set), name(table, by), literal(value), literal(next)];
      return {
        question: rng.pick([`Set ${a} to ${y} where ${b} is ${x}.`, `Change ${a} to ${y} when ${b} is ${x}.`]),
        goal,
        sql: `UPDATE \`${table.name}\` SET ${a} = ${y} WHERE ${b} = ${x}`,
      };
    }
    default: {
      const by = rng.int(2) === 0 ? key : rng.pick(texts);
      const [b, x] = [name(table, by), literal(rng.pick(table.rows)[by]!)];
      return {
        question: rng.pick([`Delete the rows where ${b} is ${x}.`, `Remove all rows with ${b} ${x}.`]),
        goal,
        sql: `DELETE FROM \`${table.name}\` WHERE ${b} = ${x}`,
      };
    }
  }
}

function twoConditions(rng: Rng, { table, key, texts, numbers }: Draft): Made | undefined {
  const [first, second] = rng.shuffle(texts) as [number, number];
  const row = rng.pick(table.rows);
  const conditions: [number, string | number][] = [
    [first, row[first]!],
    [second, row[second]!],
  ];
  // Both conditions are needed: either alone matches more rows.
  if (matching(table, conditions).length !== 1) return undefined;
  if (conditions.some((condition) => matching(table, [condition]).length === 1)) return undefined;
  const wanted = rng.pick([key, ...numbers]);
  const [a, b, c] = [name(table, wanted), name(table, first), name(table, second)];
  const [x, y] = [literal(row[first]!), literal(row[second]!)];
  return {
    question: rng.pick([
      `What is the ${a} when ${b} is ${x} and ${c} is ${y}?`,
      `Give the ${a} where ${b} is ${x} and ${c} is ${y}.`,
    ]),
    goal: read(row[wanted]!),
    sql: `SELECT ${a} FROM \`${table.name}\` WHERE ${b} = ${x} AND ${c} = ${y}`,
  };
}

function order(rng: Rng, { table, key, numbers }: Draft): Made {
  const by = rng.pick(numbers);
  const highest = rng.int(2) === 0;
  const sorted = [...table.rows].sort((one, two) => Number(one[by]) - Number(two[by]));
  const row = (highest ? sorted.at(-1) : sorted[0])!;
  const [a, n] = [name(table, key), name(table, by)];
  const word = highest ? rng.pick(["highest", "largest"]) : rng.pick(["lowest", "smallest"]);
  return {
    question: rng.pick([`Which ${a} has the ${word} ${n}?`, `Find the ${a} with the ${word} ${n}.`]),
    goal: read(row[key]!),
    sql: `SELECT ${a} FROM \`${table.name}\` ORDER BY ${n} ${highest ? "DESC" : "ASC"} LIMIT 1`,
  };
}

function read(value: string | number): DbTask["goal"] {
  return { kind: "read", answers: [String(value)] };
}

function name(table: DbTable, column: number): string {
  return `\`${table.columns[column]!.name}\``;
}

function literal(value: string | number): string {
  return typeof value === "number" ? String(value) : `'${value}'`;
}

function matching(table: DbTable, conditions: [number, string | number][]): (string | number)[][] {
  return table.rows.filter((row) => conditions.every(([column, value]) => row[column] === value));
}

function range(low: number, high: number): number[] {
  return Array.from({ length: high - low + 1 }, (_, i) => low + i);
}
