/**
 * What a DB task is, wherever it came from: tables to create, a question, and how to grade it. Also the two prompts.
 */
import type { Message } from "../../src/env/environment.ts";

export interface DbTable {
  name: string;
  /** Declared SQL types. AgentBench's tables are all TEXT, whatever their file says. */
  columns: { name: string; type: "TEXT" | "INTEGER" }[];
  rows: (string | number)[][];
}

export interface DbTask {
  /** 1 (easiest) to 5; 0 for samples read from a file. */
  level: number;
  question: string;
  tables: DbTable[];
  /** A read is graded by its answers, a write by the tables that it leaves behind. */
  goal: { kind: "read"; answers: string[] } | { kind: "write"; md5?: string };
  /** Gold SQL. Absent for reads from a file: AgentBench's drafts there are no oracle. */
  sql?: string;
  /** The table description that a sample file brings along. */
  description?: string;
}

const EXPLANATION = `You answer a question by working on a MySQL database. The question is about the table described below; you cannot see its rows until you query them.
In every turn, think first, then call exactly one of two tools:
- execute_sql runs one SQL statement, written on one line, and returns its raw result.
- commit_final_answer ends the task with your answer, a list of strings. It must match the expected answer exactly, so commit only when you are sure.
If the question asks you to change the table (insert, update or delete), run the statement first; then commit anything: the table itself is checked.
Never write the answer as plain text: only a tool call counts. You have at most 15 turns.`;

const BRIEF = "Answer with SQL.";

/** The first messages of an episode. */
export function promptMessages(task: DbTask, prompt: "full" | "brief"): Message[] {
  if (prompt === "brief") {
    const tables = task.tables.map(
      ({ name, columns }) => `Table \`${name}\`: ${columns.map((column) => `\`${column.name}\``).join(",")}`,
    );
    return [
      { role: "system", content: BRIEF },
      { role: "user", content: [...tables, task.question].join("\n") },
    ];
  }
  const description =
    task.description ??
    task.tables
      .map(({ name, columns }) => {
        const headers = columns.map((column) => column.name).join(",");
        return `The name of this table is ${name}, and the headers of this table are ${headers}.`;
      })
      .join(" ");
  return [
    { role: "system", content: EXPLANATION },
    { role: "user", content: `Table information: ${description}\nQuestion: ${task.question}` },
  ];
}
