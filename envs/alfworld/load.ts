/**
 * Reads ALFWorld's games: the original `game.tw-pddl` (one file, or a folder searched for them), or the packed form: JSON
 * lines of {id, task, facts, goal, walkthrough}, gzipped or not, with `can-contain.json` beside it. Every game is checked on
 * loading, so that a bad file ends a run before it starts.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, sep } from "node:path";
import { gunzipSync } from "node:zlib";
import { z } from "zod";
import { reading } from "../../src/env/sample-file.ts";
import { AgentRLError } from "../../src/errors.ts";
import { parseGoal } from "./goal.ts";
import { PREDICATES } from "./house.ts";
import { parseSexp, type Sexp } from "./sexp.ts";
import type { AlfworldTask } from "./task.ts";

const ORIGINAL = "game.tw-pddl";
const PACKED = ["games.jsonl.gz", "games.jsonl"];
const EXPECTED = `a ${ORIGINAL}, a folder with such files, or a ${PACKED[0]} with can-contain.json beside it`;
const HINT = "the file may be truncated or another's: fetch it again and compare its size";

const packedGame = z.object({
  id: z.string(),
  task: z.string().min(1),
  facts: z.array(z.string()).min(1),
  goal: z.string().min(1),
  walkthrough: z.array(z.string()).default([]),
});

const originalGame = z.object({
  grammar: z.string(),
  pddl_problem: z.string(),
  walkthrough: z.array(z.string()).nullish(),
});

/** @throws AgentRLError SAMPLE_FILE for anything that is not a complete game. */
export function loadGames(path: string): AlfworldTask[] {
  if (!isFolder(path)) return basename(path).endsWith(".tw-pddl") ? [readOriginal(path, path)] : readPacked(path);
  const inside = readdirSync(path);
  const packed = PACKED.find((name) => inside.includes(name));
  if (packed !== undefined) return readPacked(join(path, packed));
  const files = readdirSync(path, { recursive: true, encoding: "utf8" }).filter((file) => basename(file) === ORIGINAL);
  if (files.length === 0) throw wrong("the folder holds no game", path, `${inside.length} files and folders`, EXPECTED);
  return files.sort().map((file) => readOriginal(join(path, file), dirname(file).split(sep).join("/")));
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch (cause) {
    throw wrong("the games cannot be read", path, message(cause), EXPECTED, cause);
  }
}

function readPacked(path: string): AlfworldTask[] {
  const canContain = readPairs(join(dirname(path), "can-contain.json"));
  const games: AlfworldTask[] = [];
  let number = 0;
  for (const line of lines(readBytes(path))) {
    const where = `${path}, line ${++number}`;
    if (line.trim() === "") continue;
    const { id, task, facts, goal, walkthrough } = check(packedGame, parseJson(line, where), where);
    checkFacts(facts, where);
    checkGoal(goal, where);
    games.push({ level: 0, id, task, facts, canContain, goal, walkthrough });
  }
  if (games.length === 0) throw wrong("the file holds no game", path, "0 games", "at least 1");
  return games;
}

/** The pairs that all games share, which the packed form leaves out. */
function readPairs(path: string): string[] {
  const pairs = check(z.array(z.string()), parseJson(readText(path), path), path);
  const bad = pairs.find((pair) => !/^\w+ \w+$/.test(pair));
  if (bad !== undefined) throw wrong("not a pair of types", path, bad, '"RECEPTACLE_TYPE ITEM_TYPE"');
  return pairs;
}

function readOriginal(path: string, id: string): AlfworldTask {
  const game = check(originalGame, parseJson(readText(path), path), path);
  const task = /"rhs": "Your task is to: ([^"]*?)\.?"/.exec(game.grammar)?.[1];
  if (task === undefined) {
    throw wrong("field grammar: it states no task", path, game.grammar.slice(0, 80), '"rhs": "Your task is to: …"');
  }
  const sections = problemSections(game.pddl_problem, path);
  // Costs and distances, (= (total-cost) 0), say nothing to a player.
  const atoms = sections.init.filter((atom) => Array.isArray(atom) && atom[0] !== "=");
  const facts = atoms.map((atom) => (atom as Sexp[]).join(" "));
  checkFacts(facts, path);
  const goal = write(sections.goal);
  checkGoal(goal, path);
  return { level: 0, id, task, facts, canContain: [], goal, walkthrough: game.walkthrough ?? [] };
}

function problemSections(problem: string, where: string): { init: Sexp[]; goal: Sexp } {
  let parsed: Sexp;
  try {
    parsed = parseSexp(problem);
  } catch (cause) {
    throw wrong(`field pddl_problem: ${message(cause)}`, where, problem.slice(-80), "(define (problem …) …)", cause);
  }
  const sections = new Map(
    (Array.isArray(parsed) ? parsed : []).flatMap((part) => (Array.isArray(part) ? [[String(part[0]), part]] : [])),
  );
  const domain = sections.get(":domain")?.[1];
  if (domain !== "alfred") {
    throw wrong("field pddl_problem: not a game of ALFWorld", where, String(domain), "(:domain alfred)");
  }
  const [init, goal] = [sections.get(":init"), sections.get(":goal")];
  if (init === undefined || goal === undefined) {
    const got = [...sections.keys()].join(", ");
    throw wrong("field pddl_problem: a section is missing", where, got, ":domain, :init and :goal");
  }
  return { init: init.slice(1), goal };
}

function checkFacts(facts: readonly string[], where: string): void {
  let starts = 0;
  for (const fact of facts) {
    const words = fact.toLowerCase().split(" ");
    const wanted = Object.hasOwn(PREDICATES, words[0]!) ? PREDICATES[words[0]!] : undefined;
    if (wanted === undefined || wanted !== words.length - 1) {
      throw wrong(
        "field facts: not an atom of ALFWorld's domain",
        where,
        fact,
        "such as: inReceptacle ITEM RECEPTACLE",
      );
    }
    if (words[0] === "atlocation") starts++;
  }
  if (starts !== 1) throw wrong("field facts: the player's place", where, `${starts} atLocation`, "1 atLocation");
}

function checkGoal(goal: string, where: string): void {
  try {
    parseGoal(parseSexp(goal));
  } catch (cause) {
    throw wrong(`field goal: ${message(cause)}`, where, goal, "(:goal (and …)) in PDDL", cause);
  }
}

/** One at a time: all games as one string would double the memory of loading them. */
function* lines(bytes: Buffer): Generator<string> {
  for (let begin = 0; begin < bytes.length; ) {
    const end = bytes.indexOf("\n", begin);
    yield bytes.toString("utf8", begin, end < 0 ? bytes.length : end);
    begin = end < 0 ? bytes.length : end + 1;
  }
}

function readText(path: string): string {
  return readBytes(path).toString("utf8");
}

function readBytes(path: string): Buffer {
  const read = () => (path.endsWith(".gz") ? gunzipSync(readFileSync(path)) : readFileSync(path));
  return reading(path, read, { what: "the file", expected: "a readable, complete file", hint: HINT });
}

function parseJson(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw wrong(`not JSON: ${message(cause)}`, where, text.slice(-80), "one complete JSON value", cause);
  }
}

function check<S extends z.ZodType>(schema: S, value: unknown, where: string): z.infer<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0]!;
  const field = issue.path.join(".") || "(the value itself)";
  throw wrong(`field ${field}: ${issue.message}`, where, JSON.stringify(value), EXPECTED);
}

function write(expression: Sexp): string {
  return Array.isArray(expression) ? `(${expression.map(write).join(" ")})` : expression;
}

function message(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

function wrong(what: string, where: string, got: string, expected: string, cause?: unknown): AgentRLError {
  return new AgentRLError("SAMPLE_FILE", what, {
    where,
    got,
    expected,
    hint: HINT,
    cause,
  });
}
