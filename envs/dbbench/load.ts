/**
 * Reads AgentBench's DB samples (JSON lines). Every entry is checked against a schema on loading, so that a bad file ends
 * a run before it starts and not in the middle.
 */
import { z } from "zod";
import { parseJsonLines } from "../../src/env/sample-file.ts";
import { parseAnswerMd5 } from "./grade.ts";
import type { DbTable, DbTask } from "./task.ts";

const cell = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const table = z
  .object({
    table_name: z.string().min(1),
    table_info: z.object({
      columns: z.array(z.object({ name: z.string() })).min(1),
      rows: z.array(z.array(cell)),
    }),
  })
  .superRefine(({ table_info: { columns, rows } }, context) => {
    const at = rows.findIndex((row) => row.length !== columns.length);
    if (at < 0) return;
    context.addIssue({
      code: "custom",
      path: ["table_info", "rows", at],
      message: `expected ${columns.length} cells, one a column, got ${rows[at]!.length}`,
    });
  });

const WRITES = ["INSERT", "UPDATE", "DELETE"];

const sample = z
  .object({
    description: z.string().min(1),
    label: z.array(z.union([z.string(), z.number(), z.null()])).optional(),
    table: z.union([table, z.array(table).min(1)]),
    type: z.array(z.string()).min(1),
    add_description: z.string().optional(),
    answer_md5: z.string().optional(),
    sql: z.object({ query: z.string() }).optional(),
  })
  .superRefine((entry, context) => {
    const write = WRITES.includes(entry.type[0]!);
    const goldSql = typeof entry.label?.[0] === "string" || entry.sql !== undefined;
    if (!write && entry.label === undefined) {
      context.addIssue({ code: "custom", path: ["label"], message: "expected the answers of a read, got nothing" });
    }
    if (write && entry.answer_md5 === undefined && !goldSql) {
      context.addIssue({ code: "custom", path: ["answer_md5"], message: "expected answer_md5 or gold SQL in label" });
    }
  });

export function loadSamples(path: string): DbTask[] {
  return parseJsonLines(path, sample, { keepFloats: true }).map(toTask);
}

function toTask(entry: z.infer<typeof sample>): DbTask {
  const tables = (Array.isArray(entry.table) ? entry.table : [entry.table]).map(toTable);
  const shared = {
    level: 0,
    question: entry.description,
    tables,
    ...(entry.add_description && { description: entry.add_description }),
  };
  if (!WRITES.includes(entry.type[0]!)) {
    return { ...shared, goal: { kind: "read", answers: entry.label!.map((value) => String(value ?? "None")) } };
  }
  const label = entry.label?.[0];
  const sql = typeof label === "string" ? label : entry.sql?.query;
  return {
    ...shared,
    goal: { kind: "write", ...(entry.answer_md5 && { md5: parseAnswerMd5(entry.answer_md5) }) },
    ...(sql !== undefined && { sql }),
  };
}

/** As AgentBench creates it: every column TEXT, every cell Python's str() of it. */
function toTable(entry: z.infer<typeof table>): DbTable {
  return {
    name: entry.table_name,
    columns: entry.table_info.columns.map(({ name }) => ({ name, type: "TEXT" })),
    rows: entry.table_info.rows.map((row) => row.map(pythonStr)),
  };
}

function pythonStr(value: z.infer<typeof cell>): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  return String(value);
}
